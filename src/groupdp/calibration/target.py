"""The target of a calibration, one certified trial of a candidate, and what is returned."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from groupdp.bounds import Bounds
from groupdp.engines import Options, Progress, options_of, work_done
from groupdp.errors import GroupDPError, InvalidArgument, LimitExceeded, require_integer, require_number, shown
from groupdp.groups import LARGEST_GROUP, not_given, total
from groupdp.guarantees import quick_answers
from groupdp.mechanisms.mechanism import Mechanism
from groupdp.mechanisms.wrappers import with_own_groups
from groupdp.neighbours import ADJACENCIES, EXCHANGE, SAME_SIZE, Neighbours
from groupdp.pairs import Composition
from groupdp.printing import round_down
from groupdp.question import Question, epsilon_of_question, neighbours_of, question_about

#: Largest target epsilon: beyond it there is no useful privacy, and no engine is quick.
LARGEST_TARGET = 1e5
#: Work after which no further trial is begun (engines/__init__.py): about two minutes.
LARGEST_SEARCH = 1_200_000_000
#: A trial begins with bounds of this relative width: enough where epsilon is 20 times as far off the target.
_LOOSE, _FAR_OFF = 1e-3, 20.0
#: Near the target the bounds are to be this share of the parameter's tolerance wide, where the engines can choose.
_SHARE = 0.3
#: Never less than the engines' own choice.
_FINEST = 1e-6

#: Relative tolerances that doubles and the certified bounds can serve.
SMALLEST_TOLERANCE, LARGEST_TOLERANCE = 1e-12, 0.1
Run = Mechanism | tuple[Mechanism, ...]


class TooMuchWork(LimitExceeded):
    """The limit of a calibration's work is reached."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Epsilon at one candidate, against the target."""

    bounds: Bounds | None  # None: the engines declined (a stated limit)
    passes: bool
    fails: bool

    @property
    def straddles(self) -> bool:
        """Whether the target is between the bounds."""
        return self.bounds is not None and not self.passes and not self.fails and self.bounds.lower > 0.0

    def room(self) -> tuple[float, float]:
        """How far the upper and the lower side are from the middle, in logarithms; 0 where one is infinite or 0."""
        if self.bounds is None or not 0.0 < self.bounds.lower <= self.bounds.upper < math.inf:
            return 0.0, 0.0
        middle = 0.5 * (self.bounds.lower + self.bounds.upper)
        return math.log(self.bounds.upper / middle), math.log(middle / self.bounds.lower)

    def excess(self, target: float, *, upper_side: bool = False) -> float | None:
        """log(epsilon / target), or that of its upper side; infinite where it is 0 or infinite; None if unknown."""
        if self.bounds is None:
            return None
        # The two sides differ by 1e-12 or so; where they do not, any number between them will do.
        lower, upper = self.bounds.lower, self.bounds.upper
        middle = upper if upper_side or math.isinf(upper) else 0.5 * (lower + upper)
        if middle == 0.0:
            return -math.inf
        return math.inf if middle == math.inf else math.log(middle / target)


@dataclass(slots=True)
class Target:
    """(epsilon, delta) for a group and an adjacency; counts the trials."""

    epsilon: float
    delta: float
    neighbours: Neighbours
    options: Options
    progress: Progress | None
    tolerance: float = 0.0
    """Relative tolerance of a real parameter; 0 for a count."""
    most_work: int = field(default_factory=lambda: work_done() + LARGEST_SEARCH)
    trials: int = 0
    last_error: LimitExceeded | None = field(default=None)
    near: bool = False
    """Whether a trial came close to the target; later trials then ask for narrow bounds at once."""
    answers: dict[Any, Trial] = field(default_factory=dict)
    """Trials by composition: partial epochs count as whole ones, so many runs may have the same composition."""

    def try_run(self, run: Run, *, group_size: int | None = None, adjacency: str | None = None) -> Trial:
        """One certified evaluation; of one ordered change alone if `adjacency` names one.

        Raises `TooMuchWork` beyond the limit.
        """
        self._report()
        neighbours = self._neighbours(group_size, adjacency)

        def trial(tolerance: float | None) -> Trial:
            try:
                question = question_about(run, neighbours)
                asked = question.compositions, question.alternatives, tolerance
                if asked not in self.answers:
                    self.answers[asked] = answer(question, tolerance)
                return self.answers[asked]
            except LimitExceeded as error:
                self.last_error = error
                return Trial(None, passes=False, fails=False)

        def answer(question: Question, tolerance: float | None) -> Trial:
            self.trials += 1
            options = self.options if tolerance is None else replace(self.options, tolerance=tolerance)
            bounds = epsilon_of_question(question, math.log(self.delta), options)
            if bounds.provenance.engine == "exact":  # no engine was asked
                self.trials -= 1
            return self._judged(bounds)

        # What only says which way to go need not be narrow; what comes out narrow all the same is not computed again.
        unit = min(1.0, self.epsilon)
        fine = max(_SHARE * self.tolerance, _FINEST) * unit
        loose = _LOOSE * unit
        if fine >= 0.1 * loose:
            return trial(fine)
        if self.near:
            return trial(fine if fine > _FINEST else None)
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
        self.near = True
        return trial(fine if fine > _FINEST else None)

    def _report(self) -> None:
        """Refuse to go on beyond the limit; report the progress, of which only the number of trials is known."""
        if work_done() > self.most_work:
            raise TooMuchWork(
                f"the calibration did not finish within its limit of {LARGEST_SEARCH:.3g} operations: a trial takes "
                f"many where little noise meets a small sampling rate."
            )
        if self.progress is not None:
            self.progress(1.0 - 0.93**self.trials)

    def _neighbours(self, group_size: int | None, adjacency: str | None) -> Neighbours:
        neighbours = self.neighbours if group_size is None else replace(self.neighbours, group=group_size)
        if adjacency is not None and adjacency in ADJACENCIES and neighbours.adjacency != EXCHANGE:
            return replace(neighbours, adjacency=adjacency)
        return neighbours

    def _judged(self, bounds: Bounds) -> Trial:
        return Trial(bounds, passes=bounds.upper <= self.epsilon, fails=bounds.lower > self.epsilon)

    def question(self, run: Run, adjacency: str | None) -> Question | None:
        """What a trial asks, where the kernel may be asked at once; None where it has to go the ordinary way."""
        if self.options.engine != "auto":
            return None
        try:
            return question_about(run, self._neighbours(None, adjacency))
        except GroupDPError:  # the ordinary way says why
            return None

    def accept(self, bounds: Bounds) -> Trial:
        """The trial that the kernel answered among others."""
        self._report()
        self.trials += 1
        return self._judged(bounds)

    def composition(self, run: Run) -> Composition:
        """The composition of pairs that is worst most often: where to start a search."""
        return question_about(run, self.neighbours).compositions[0][1]

    def kept_places(self) -> int:
        """How many examples keep their places in both datasets while they are replaced or zeroed."""
        return total(self.neighbours.group) if self.neighbours.adjacency in SAME_SIZE else 0

    def decline(self) -> LimitExceeded:
        """The reason when no candidate could be certified."""
        return self.last_error or LimitExceeded("no value could be certified within the engines' limits.")

    def refusal(self, what: str, trial: Trial) -> GroupDPError:
        """The reason when even the safest candidate, `what`, did not pass in this trial."""
        if trial.bounds is None or not trial.fails:
            return self.decline()
        lower = trial.bounds.lower
        least = "infinite" if math.isinf(lower) else f"at least {round_down(lower, 6)}"
        requirement = f"be larger for delta={shown(self.delta)}: {what} has an epsilon that is {least}"
        return InvalidArgument("epsilon", self.epsilon, requirement)


def try_together(asked: Sequence[tuple[Target, Run, str | None]]) -> list[Trial | GroupDPError]:
    """A trial, or its error, for each (target, run, ordered change): the kernel answers what it can in one batch."""
    questions = [None if len(asked) == 1 else target.question(run, change) for target, run, change in asked]
    batch = [
        None if question is None else (question, math.log(target.delta))
        for question, (target, _, _) in zip(questions, asked, strict=True)
    ]
    trials: list[Trial | GroupDPError] = []
    for (target, run, change), bounds in zip(asked, quick_answers(batch), strict=True):
        try:
            trials.append(target.try_run(run, adjacency=change) if bounds is None else target.accept(bounds))
        except GroupDPError as error:
            trials.append(error)
    return trials


def target_of(
    run: Any, *, epsilon: Any, delta: Any, engine: Any, progress: Progress | None, **neighbours: Any
) -> Target:
    """A validated target for the group of `neighbours`, the keywords of `epsilon`, which must not be empty."""
    options = options_of(engine=engine, progress=progress)
    if "group_size" in neighbours and not isinstance(neighbours["group_size"], Mapping):
        if neighbours["group_size"] is None and neighbours.get("removed") is None and neighbours.get("added") is None:
            raise not_given("group_size")
        if neighbours["group_size"] is not None:
            require_integer("group_size", neighbours["group_size"], at_least=1, at_most=LARGEST_GROUP)
    return Target(
        epsilon=require_number("epsilon", epsilon, above=0.0, at_most=LARGEST_TARGET),
        delta=require_number("delta", delta, above=0.0, below=1.0),
        neighbours=neighbours_of(run, **neighbours),
        options=replace(options, progress=None),
        progress=progress,
    )


def read_target(
    run: Any,
    epsilon: Any,
    delta: Any,
    neighbours: tuple[Any, Any, Any, Any],
    engine: Any,
    progress: Progress | None,
    tolerance: Any = None,
) -> tuple[Any, Target]:
    """The run without pairs (mechanism, group size), and the target for (group_size, adjacency, removed, added)."""
    keywords = dict(zip(("group_size", "adjacency", "removed", "added"), neighbours, strict=True))
    run, keywords["group_size"] = with_own_groups(run, keywords["group_size"])
    target = target_of(run, epsilon=epsilon, delta=delta, engine=engine, progress=progress, **keywords)
    if tolerance is not None:
        limits = {"at_least": SMALLEST_TOLERANCE, "at_most": LARGEST_TOLERANCE}
        target.tolerance = require_number("tolerance", tolerance, **limits)
    return run, target


@dataclass(frozen=True, slots=True)
class Found:
    """A value that passes, and the evidence about riskier ones."""

    value: float
    bounds: Bounds
    failing_value: float | None
    failing_bounds: Bounds | None
    proved_optimal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The best value of one parameter for a target, with both certificates.

    `epsilon.upper <= target_epsilon` is certified at `value`. At `failing_value` the certified lower bound is
    above the target, so that value, and by monotonicity every riskier one, fails. `proved_optimal` says that the
    two are neighbours: consecutive integers, or values within `tolerance` of each other. Where `epsilon.tight` is
    false a value fails, and another is optimal, by this analysis alone: a better one may accept more.
    """

    parameter: str
    """"noise_multiplier", "noise_factor", "steps", "sampling_rate", "batch_size" or "group_size"."""

    value: float
    """An int for counts."""

    epsilon: Bounds
    """Bounds on epsilon at `value`."""

    target_epsilon: float
    delta: float
    group_size: int
    adjacency: str

    run: Mechanism | tuple[Mechanism, ...]
    """The run with `value` put in."""

    failing_value: float | None
    """A value proved to fail; None if `value` is the extreme one accepted, or no failure could be certified."""

    failing_epsilon: Bounds | None
    """Bounds on epsilon at `failing_value`: the lower one is above the target."""

    proved_optimal: bool
    """Whether every better value (by the tolerance, or by 1) is proved to fail or is not accepted at all."""

    tolerance: float | None
    """The relative tolerance of a real parameter; None for a count."""

    evaluations: int
    """How many times an engine was asked for epsilon."""

    @property
    def proved_gap(self) -> float | None:
        """How far, relatively, `value` may be from the best one: its distance to the value proved to fail."""
        if self.failing_value is None or self.value == self.failing_value:
            return None if self.failing_value is None else 0.0
        return abs(self.value - self.failing_value) / abs(self.value) if self.value else math.inf

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""

        def sides(bounds: Bounds | None) -> dict[str, float] | None:
            return None if bounds is None else {"lower": bounds.lower, "upper": bounds.upper}

        return {
            self.parameter: self.value,
            "epsilon": sides(self.epsilon),
            "tight": self.epsilon.tight,
            "target_epsilon": self.target_epsilon,
            "delta": self.delta,
            "group_size": self.group_size,
            "adjacency": self.adjacency,
            "failing_value": self.failing_value,
            "failing_epsilon": sides(self.failing_epsilon),
            "proved_optimal": self.proved_optimal,
            "tolerance": self.tolerance,
            "proved_gap": self.proved_gap,
            "evaluations": self.evaluations,
        }


def result_of(target: Target, parameter: str, found: Found, run: Run) -> Calibration:
    """The calibration of a parameter for a target."""
    return Calibration(
        parameter=parameter,
        value=found.value,
        epsilon=found.bounds,
        target_epsilon=target.epsilon,
        delta=target.delta,
        group_size=target.neighbours.group_size,
        adjacency=target.neighbours.adjacency if target.neighbours.joining is None else ADJACENCIES[0],
        run=run,
        failing_value=found.failing_value,
        failing_epsilon=found.failing_bounds,
        proved_optimal=found.proved_optimal,
        tolerance=target.tolerance or None,
        evaluations=target.trials,
    )
