"""The target of a calibration, and one certified trial of a candidate."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from groupdp._validation import require_choice, require_integer, require_number
from groupdp.bounds import Bounds
from groupdp.engines.deadline import deadline_in
from groupdp.engines.interface import Progress
from groupdp.errors import LimitExceeded
from groupdp.groups import LARGEST_GROUP, not_given
from groupdp.guarantees import epsilon as epsilon_of_run
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.neighbours import ADJACENCIES, SAME_SIZE
from groupdp.pairs import Composition
from groupdp.question import question_of
from groupdp.solve import options_of

#: Largest epsilon that is calibrated for: beyond it there is no privacy to speak of, and no engine is quick.
LARGEST_TARGET = 1e5

#: Seconds after which no further trial is begun.
LONGEST_SEARCH = 120.0
#: A trial begins with bounds of this relative width: enough where epsilon is 20 times as far off the target.
_LOOSE = 1e-3
_FAR_OFF = 20.0
#: Near the target the bounds are to be this share of the parameter's tolerance wide, where the engines can choose.
_SHARE = 0.3
#: The engines' own choice is not undercut.
_FINEST = 1e-6

Run = DPSGD | tuple[DPSGD, ...]

#: Relative tolerances that doubles and the certified bounds can serve.
SMALLEST_TOLERANCE = 1e-12
LARGEST_TOLERANCE = 0.1


class OutOfTime(LimitExceeded):
    """The deadline of a calibration has passed."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Epsilon at one candidate, against the target."""

    bounds: Bounds | None  # None: the engines declined (a stated limit)
    passes: bool
    fails: bool

    def straddles(self, narrow: float) -> bool:
        """Whether the target is between bounds whose relative distance is at most `narrow`."""
        if self.bounds is None or self.passes or self.fails:
            return False
        return self.bounds.width <= narrow * self.bounds.lower

    def excess(self, target: float) -> float | None:
        """log(epsilon / target), infinite where epsilon is 0 or infinite; None if unknown."""
        if self.bounds is None:
            return None
        # The two sides differ by 1e-12 or so; where they do not, any number between them will do.
        lower, upper = self.bounds.lower, self.bounds.upper
        middle = upper if math.isinf(upper) else 0.5 * (lower + upper)
        if middle == 0.0:
            return -math.inf
        return math.inf if middle == math.inf else math.log(middle / target)


@dataclass(slots=True)
class Target:
    """(epsilon, delta) for a group and an adjacency; counts the trials."""

    epsilon: float
    delta: float
    group_size: Any
    adjacency: str
    engine: str
    progress: Progress | None
    removed: Any = None
    added: Any = None
    tolerance: float = 0.0
    """Relative tolerance of a real parameter; 0 for a count."""
    deadline: float = field(default_factory=lambda: deadline_in(LONGEST_SEARCH))
    trials: int = 0
    last_error: LimitExceeded | None = field(default=None)

    def try_run(self, run: Run, *, group_size: int | None = None, adjacency: str | None = None) -> Trial:
        """One certified evaluation; of one ordered change alone if `adjacency` names one.

        Raises `OutOfTime` after the deadline.
        """
        if time.monotonic() > self.deadline:
            raise OutOfTime(
                f"the calibration did not finish within its limit of {LONGEST_SEARCH:g} seconds: a trial takes long "
                f"where little noise meets a small sampling rate."
            )
        self.trials += 1
        if self.progress is not None:
            self.progress(1.0 - 0.93**self.trials)  # how many trials remain is not known
        one_change = adjacency is not None and adjacency in ADJACENCIES and self.removed is None and self.added is None

        def trial(tolerance: float | None) -> Trial:
            try:
                bounds = epsilon_of_run(
                    run,
                    delta=self.delta,
                    group_size=self.group_size if group_size is None else group_size,
                    adjacency=adjacency if one_change and adjacency is not None else self.adjacency,
                    removed=self.removed,
                    added=self.added,
                    tolerance=tolerance,
                    engine=self.engine,
                )
            except LimitExceeded as error:
                self.last_error = error
                return Trial(None, passes=False, fails=False)
            return Trial(bounds, passes=bounds.upper <= self.epsilon, fails=bounds.lower > self.epsilon)

        # What only says which way to go need not be narrow; what comes out narrow all the same is not computed again.
        unit = min(1.0, self.epsilon)
        fine = max(_SHARE * self.tolerance, _FINEST) * unit
        loose = _LOOSE * unit
        if fine >= 0.1 * loose:
            return trial(fine)
        first = trial(loose)
        if first.bounds is None:
            return first
        if first.bounds.width <= fine * max(1.0, first.bounds.upper):
            provenance = replace(first.bounds.provenance, tolerance=None, tolerance_met=True)
            return replace(first, bounds=replace(first.bounds, provenance=provenance))
        excess = first.excess(self.epsilon)
        decided = first.passes or first.fails
        if decided and excess is not None and abs(excess) > _FAR_OFF * _LOOSE:
            return first
        return trial(fine if fine > _FINEST else None)

    def composition(self, run: Run) -> Composition:
        """The composition of pairs that is worst most often: where to start a search."""
        question = question_of(
            run, group_size=self.group_size, adjacency=self.adjacency, removed=self.removed, added=self.added
        )
        return question.compositions[0][1]

    def kept_places(self) -> int | None:
        """The group's size where its members keep their places in both datasets."""
        return self.group_size if self.adjacency in SAME_SIZE else None

    def decline(self) -> LimitExceeded:
        """The reason when no candidate could be certified."""
        return self.last_error or LimitExceeded("no candidate could be certified within the engines' limits.")


def target_of(
    *,
    epsilon: Any,
    delta: Any,
    group_size: Any,
    adjacency: Any,
    engine: Any,
    progress: Progress | None,
    removed: Any = None,
    added: Any = None,
) -> Target:
    """A validated target. What a group is depends on the run, which says so when it is first tried."""
    options_of(engine=engine, progress=progress)
    if not isinstance(group_size, Mapping) and removed is None and added is None:
        if group_size is None:
            raise not_given("group_size")
        group_size = require_integer("group_size", group_size, at_least=1, at_most=LARGEST_GROUP)
    return Target(
        epsilon=require_number("epsilon", epsilon, above=0.0, at_most=LARGEST_TARGET),
        delta=require_number("delta", delta, above=0.0, below=1.0),
        group_size=group_size,
        adjacency=require_choice("adjacency", adjacency, ADJACENCIES),
        engine=engine,
        progress=progress,
        removed=removed,
        added=added,
    )
