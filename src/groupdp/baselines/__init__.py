"""Earlier methods beside the tight epsilon; and what Poisson accounting would claim of another sampling.

one_example          the composition of one example, from which all of these start, and its Renyi divergences
smallest_feasible    how the lemma inflates delta; the smallest epsilon that meets a target, proved to be the smallest
vadhan               the lemma on the exact curve; the linear reference
renyi                the lemma on a Renyi guarantee, in log space, and in doubles as TensorFlow Privacy does it
fdp                  the group bound of f-DP
adaptive             guarantees where parameters were chosen after looking: a Renyi filter, hyperparameter search

The claim of Poisson accounting is not a valid bound. Shuffled epochs are often accounted as if each example joined
every batch on its own. No theorem supports that: at 100 batches, 20 epochs, noise multiplier 4 and groups of 4 the
claim is 2.06 where 12.9 is the valid figure.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from groupdp.baselines.one_example import NoBaseline
from groupdp.baselines.renyi import old_tool_epsilon as old_tool_epsilon
from groupdp.baselines.renyi import old_tool_epsilons
from groupdp.baselines.renyi import renyi_vadhan_epsilon as renyi_vadhan_epsilon
from groupdp.baselines.vadhan import linear_reference as linear_reference
from groupdp.baselines.vadhan import multiple
from groupdp.baselines.vadhan import vadhan_epsilon as vadhan_epsilon
from groupdp.baselines.vadhan import vadhan_epsilons as vadhan_epsilons
from groupdp.bounds import Bounds
from groupdp.engines import Progress
from groupdp.guarantees import epsilon, epsilons
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.mechanisms.mechanism import mechanisms_of
from groupdp.mechanisms.wrappers import require_one_group
from groupdp.neighbours import ADD_OR_REMOVE, ONE_SIDED, ZERO_OUT
from groupdp.printing import sides
from groupdp.samplings import PoissonSampling, SpreadSampling


def poisson_claim(run: Any, *, delta: float, adjacency: str = "add-or-remove", **options: Any) -> Bounds | None:
    """The epsilon of the run with Poisson batches of the same average size; None for runs that are not mistaken so.

    It is not proved for the run, and shown beside the valid figure where it is smaller. `options`, the group among
    them, are those of `epsilon`.
    """
    phases = [one for one in mechanisms_of(run) if isinstance(one, DPSGD)]
    if len(phases) < len(mechanisms_of(run)) or not any(phase.sampling.mistaken_for_poisson for phase in phases):
        return None
    taken = [
        replace(phase, sampling=PoissonSampling(rate=float(phase.sampling.share_of_data())))
        if phase.sampling.mistaken_for_poisson
        else phase
        for phase in phases
    ]
    relation = ADD_OR_REMOVE if adjacency == ZERO_OUT else adjacency
    return replace(epsilon(taken, delta=delta, adjacency=relation, **options), tight=False)


def spread_instead(run: Any, *, delta: float, **options: Any) -> Bounds | None:
    """The epsilon of the run with spread allocation (`groupdp.loading.SpreadBatches`) in place of shuffled epochs; None
    for runs that are not shuffled. `options` are those of `epsilon`.
    """
    phases = mechanisms_of(run)
    moved = [
        replace(phase, sampling=SpreadSampling(batches=math.ceil(1 / phase.sampling.share_of_data()), evenly=True))
        if isinstance(phase, DPSGD) and phase.sampling.shuffles
        else phase
        for phase in phases
    ]
    if moved == list(phases):
        return None
    return epsilon(moved, delta=delta, **options)


#: Columns of the CSV, in order.
COLUMNS = (
    "group_size",
    "epsilon_lower",
    "epsilon_upper",
    "linear_lower",
    "linear_upper",
    "vadhan_lower",
    "vadhan_upper",
    "old_tool",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One group size: the tight epsilon and the baselines."""

    group_size: int
    epsilon: Bounds
    linear: Bounds
    """k times the epsilon of one example: a reference line, not a guarantee."""
    vadhan: Bounds | None
    """Vadhan's lemma (geometric form) on the exact curve of one example: its upper side is a guarantee, its lower side
    bounds what the lemma can give. None where there is no such analysis of the sampling."""
    old_tool: float | None
    """What TensorFlow Privacy's arithmetic ends with, possibly infinite."""
    poisson_claim: float | None = None
    """What Poisson accounting would claim for a run that does not sample like that: not a guarantee."""

    def row(self) -> tuple[float, ...]:
        """The values of `COLUMNS`."""
        return (
            self.group_size,
            self.epsilon.lower,
            self.epsilon.upper,
            self.linear.lower,
            self.linear.upper,
            *((math.nan, math.nan) if self.vadhan is None else (self.vadhan.lower, self.vadhan.upper)),
            math.nan if self.old_tool is None else self.old_tool,
        )

    def as_json(self) -> dict[str, Any]:
        """The point with both sides of every interval."""
        return {
            "group_size": self.group_size,
            "epsilon": sides(self.epsilon),
            "tight": self.epsilon.tight,
            "linear": sides(self.linear),
            "vadhan_lower": None if self.vadhan is None else self.vadhan.lower,
            "vadhan_upper": None if self.vadhan is None else self.vadhan.upper,
            "old_tool": self.old_tool,
            **({} if self.poisson_claim is None else {"poisson_claim_not_a_guarantee": self.poisson_claim}),
        }


def compare(
    run: Any,
    *,
    delta: float,
    group_sizes: Sequence[int],
    adjacency: str = "add-or-remove",
    progress: Progress | None = None,
) -> list[Point]:
    """The tight epsilon and the baselines for every group size.

    TensorFlow Privacy knows add-or-remove adjacency only; samplings with a public coin, substituted and zeroed examples
    have no such baselines.
    """
    require_one_group(run)
    report = progress if progress is not None else (lambda _: None)
    sizes = list(group_sizes)
    one = epsilon(run, delta=delta, group_size=1, adjacency=adjacency)
    ours = []
    asked = [(run, {"delta": delta, "group_size": size, "adjacency": adjacency}) for size in sizes]
    for done, found in enumerate(epsilons(asked)):
        report(0.2 * done / len(sizes))
        if not isinstance(found, Bounds):
            raise found
        ours.append(found)
    vadhan = _vadhan(run, delta, sizes, adjacency, lambda fraction: report(0.2 + 0.7 * fraction))
    old_tool = None if vadhan is None else old_tool_epsilons(run, delta=delta, group_sizes=sizes)
    points = []
    for done, size in enumerate(sizes):
        report(0.9 + 0.1 * done / len(sizes))
        claim = poisson_claim(run, delta=delta, group_size=size, adjacency=adjacency)
        points.append(
            Point(
                group_size=size,
                epsilon=ours[done],
                linear=multiple(one, size),
                vadhan=None if vadhan is None else vadhan[done],
                old_tool=None if old_tool is None else old_tool[done],
                poisson_claim=None if claim is None else claim.upper,
            )
        )
    return points


def _vadhan(run: Any, delta: float, sizes: list[int], adjacency: str, progress: Progress) -> list[Bounds] | None:
    """Vadhan's lemma for every group size; None where one example has no analysis to start from."""
    if adjacency not in ONE_SIDED:
        return None
    try:
        return vadhan_epsilons(
            run, delta=delta, group_sizes=sizes, form="geometric", adjacency=adjacency, progress=progress
        )
    except NoBaseline:
        return None


def as_csv(points: Sequence[Point], *, leading: Sequence[tuple[str, str]] = ()) -> str:
    """The points as CSV with a header, in full precision; `leading` columns are the same in every row."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([name for name, _ in leading] + list(COLUMNS))
    for point in points:
        writer.writerow([value for _, value in leading] + [repr(value) for value in point.row()])
    return text.getvalue()
