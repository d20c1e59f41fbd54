"""The target of a calibration, and one certified trial of a candidate."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from groupdp._validation import require_integer, require_number
from groupdp.bounds import Bounds
from groupdp.dpsgd import DPSGD
from groupdp.engines.interface import Progress
from groupdp.errors import LimitExceeded
from groupdp.guarantees import directions_of, options_of
from groupdp.guarantees import epsilon as epsilon_of_run
from groupdp.reductions import LARGEST_GROUP

#: Largest epsilon that is calibrated for: beyond it there is no privacy to speak of, and no engine is quick.
LARGEST_TARGET = 1e5

Run = DPSGD | tuple[DPSGD, ...]

#: Relative tolerances that doubles and the certified bounds can serve.
SMALLEST_TOLERANCE = 1e-12
LARGEST_TOLERANCE = 0.1


@dataclass(frozen=True, slots=True)
class Trial:
    """Epsilon at one candidate, against the target."""

    bounds: Bounds | None  # None: the engines declined (a stated limit)
    passes: bool
    fails: bool

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
    group_size: int
    adjacency: str
    engine: str
    progress: Progress | None
    trials: int = 0
    last_error: LimitExceeded | None = field(default=None)

    def try_run(self, run: Run, *, group_size: int | None = None, adjacency: str | None = None) -> Trial:
        """One certified evaluation; in one direction only if `adjacency` is given."""
        self.trials += 1
        if self.progress is not None:
            self.progress(1.0 - 0.93**self.trials)  # how many trials remain is not known
        try:
            bounds = epsilon_of_run(
                run,
                delta=self.delta,
                group_size=self.group_size if group_size is None else group_size,
                adjacency=adjacency or self.adjacency,
                engine=self.engine,
            )
        except LimitExceeded as error:
            self.last_error = error
            return Trial(None, passes=False, fails=False)
        return Trial(bounds, passes=bounds.upper <= self.epsilon, fails=bounds.lower > self.epsilon)

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
) -> Target:
    """A validated target."""
    options_of(engine=engine, progress=progress)
    directions_of(adjacency)
    return Target(
        epsilon=require_number("epsilon", epsilon, above=0.0, at_most=LARGEST_TARGET),
        delta=require_number("delta", delta, above=0.0, below=1.0),
        group_size=require_integer("group_size", group_size, at_least=1, at_most=LARGEST_GROUP),
        adjacency=adjacency,
        engine=engine,
        progress=progress,
    )
