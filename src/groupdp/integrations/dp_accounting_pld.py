"""Privacy loss distributions to and from dp_accounting's own.

Exported is the upper measure: a pessimistic estimate in dp_accounting's sense. Distributions compose there only on
equal grids, bit for bit, so make its own with `value_discretization_interval=ours.grid_step`.

Imported is a pessimistic estimate as an upper measure; nothing is known from below, so every lower side is trivial.

Compose on this side: dp_accounting composes with a transform whose rounding nothing bounds. At a rate of 0.001, noise
0.7 and 1000 rounds it reports an epsilon of 3.8323 at delta = 1e-12, where no guarantee below 3.8457 holds.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords, require_choice, require_number, shown
from groupdp.integrations import require_package
from groupdp.losses import AtomsRound
from groupdp.mechanisms.black_box import ABOUT, ImportedLosses
from groupdp.neighbours import ADD_OR_REMOVE, BACKWARD, DIRECTIONS, FORWARD, SAME_SIZE, SUBSTITUTE, require_direction
from groupdp.pairs import Round
from groupdp.pld import LARGEST_GRID, PrivacyLossDistribution
from groupdp.pld.measures import Measure
from groupdp.question import question_of

_theirs: Any = require_package(
    "dp_accounting.pld.privacy_loss_distribution", extra="dp_accounting", tool="dp_accounting"
)
_pmf: Any = require_package("dp_accounting.pld.pld_pmf", extra="dp_accounting", tool="dp_accounting")

#: A mass that stands for none in a logarithm.
_SMALLEST = 1e-300
#: Masses may miss a total of 1 by this much; more is not a law of losses.
_ROOM = 1e-6


def to_dp_accounting(remove: PrivacyLossDistribution, add: PrivacyLossDistribution | None = None) -> Any:
    """dp_accounting's PrivacyLossDistribution with the upper measures of both directions.

    Without `add` the distribution is its own mirror image, as when records are replaced. Formal guarantee: delta of the
    result is at least that of the mechanism at every epsilon, up to the rounding of dp_accounting's own sums.
    """
    measures = []
    for direction, half in zip(DIRECTIONS, (remove, add), strict=True):
        if half is None and direction == BACKWARD:
            continue
        if not isinstance(half, PrivacyLossDistribution):
            raise InvalidArgument(direction, half, "be a PrivacyLossDistribution of groupdp")
        if add is not None and half.direction != direction:
            raise InvalidArgument(direction, InWords(half.direction), f"have direction {direction}")
        if add is None and half.direction in DIRECTIONS:
            needed = f"be given: a distribution with direction {half.direction} is one half"
            raise InvalidArgument(BACKWARD, NOT_SHOWN, needed)
        if half.grid_step != remove.grid_step:
            raise InvalidArgument(direction, half.grid_step, f"have grid_step {remove.grid_step!r}")
        measures.append(_exported(half))
    return _theirs.PrivacyLossDistribution(*measures)


def run_to_dp_accounting(
    run: Any,
    *,
    group_size: int,
    adjacency: str = "add-or-remove",
    grid_step: float = 1e-3,
    tail_mass: float = 1e-30,
) -> Any:
    """The upper measures of a whole run for a group, composed here, as dp_accounting's PrivacyLossDistribution.

    Adjacencies: add-or-remove and those that keep the dataset's size; every round has to be one of pairs, not of
    an envelope.
    """
    require_choice("adjacency", adjacency, (ADD_OR_REMOVE, *SAME_SIZE))
    question = question_of(run, group_size=group_size, adjacency=adjacency)
    if question.is_empty:
        needed = "have steps and group_size be at least 1"
        raise InvalidArgument("run", InWords("a run with no steps or an empty group"), needed)
    halves = []
    for index in range(len(question.compositions)):
        parts = []
        for law, times in question.of_mixtures(index):
            if not (isinstance(law, Round) and law.has_noise):
                needed = "have noise and a law by pairs to be a distribution of dp_accounting"
                raise InvalidArgument("run", InWords(f"adjacency {adjacency!r} for {shown(run)}"), needed)
            kept = {"grid_step": grid_step, "tail_mass": tail_mass}
            parts.append(PrivacyLossDistribution.from_round(law, direction="pair", **kept).self_compose(times))
        halves.append(_exported(functools.reduce(PrivacyLossDistribution.compose, parts)))
    return _theirs.PrivacyLossDistribution(*halves)


def _exported(distribution: PrivacyLossDistribution) -> Any:
    upper = distribution.upper
    return _pmf.DensePLDPmf(upper.step, upper.first, np.array(upper.masses), upper.infinite_mass, True)


def from_dp_accounting(
    distribution: Any, *, direction: str, grid_step: float | None = None, tail_mass: float = 1e-30
) -> PrivacyLossDistribution:
    """One direction of a pessimistic PrivacyLossDistribution of dp_accounting, as an upper measure.

    `grid_step` is that of the distributions it will be composed with; losses that are no multiples of it are rounded
    up, which only adds to every delta. It is as good as what is imported: import single mechanisms and compose here.
    """
    chosen = require_direction(direction)
    dense = _pessimistic(distribution, chosen)
    masses, infinite = np.asarray(dense._probs, dtype=np.float64), float(dense._infinity_mass)
    theirs = require_number("value_discretization_interval", dense._discretization, at_least=1e-9, at_most=10.0)
    step = _short(theirs) if grid_step is None else require_number("grid_step", grid_step, at_least=1e-9, at_most=10.0)
    if step != _short(step):
        raise InvalidArgument(
            "grid_step", step, "be that of a distribution of groupdp (24 significant bits)", f"{_short(step)!r} is"
        )
    first, masses = _regridded(int(dense._lower_loss), masses, theirs, step)
    # What is missing of a total of 1 is counted as revealed outright.
    missing = max(1.0 - math.fsum(masses) - infinite, 0.0)
    upper = Measure(step, first, masses, min(infinite + missing * (1.0 + 1e-12), 1.0))
    return PrivacyLossDistribution(
        direction=chosen,
        lower=Measure(step, 0, np.ones(1)),
        upper=upper,
        mean_bounds=(0.0, math.inf),
        variance_bounds=(0.0, math.inf),
        tail_mass=require_number("tail_mass", tail_mass, at_least=1e-250, at_most=1e-3),
    )


def release_from_dp_accounting(
    distribution: Any, *, group_size: int, adjacency: str = ADD_OR_REMOVE, releases: int = 1
) -> ImportedLosses:
    """A pessimistic PrivacyLossDistribution of dp_accounting as a release that composes with groupdp's mechanisms.

    `group_size` and `adjacency` say what the distribution is about, which it does not say itself. It is as right as
    what is imported: import single mechanisms, and compose here. An event is better read by `from_dp_event`, which
    knows what a group does.
    """
    laws = [_atoms(_pessimistic(distribution, direction)) for direction in DIRECTIONS]
    if require_choice("adjacency", adjacency, ABOUT) == SUBSTITUTE and laws[0] != laws[1]:
        needed = "be symmetric where records are replaced"
        raise InvalidArgument("distribution", InWords("two different halves"), needed)
    return ImportedLosses(laws[0], laws[1], group_size, adjacency, releases)


def _pessimistic(distribution: Any, direction: str) -> Any:
    """The probabilities of one direction, on a lattice, checked."""
    if not isinstance(distribution, _theirs.PrivacyLossDistribution):
        raise InvalidArgument("distribution", distribution, "be a PrivacyLossDistribution of dp_accounting")
    pmf = distribution._pmf_remove if direction == FORWARD else distribution._pmf_add
    if not pmf._pessimistic_estimate:
        needed = "be a pessimistic estimate"
        raise InvalidArgument("distribution", InWords("an optimistic one, which is no upper bound"), needed)
    dense = pmf.to_dense_pmf()
    _refuse_no_law(np.asarray(dense._probs, dtype=np.float64), float(dense._infinity_mass))
    return dense


def _atoms(dense: Any) -> AtomsRound:
    """The law of atoms with these masses; what is missing of a total of 1 has no atom."""
    masses = np.asarray(dense._probs, dtype=np.float64)
    losses = (int(dense._lower_loss) + np.arange(len(masses), dtype=np.float64)) * float(dense._discretization)
    lost = float(dense._infinity_mass)
    lost += max(1.0 - math.fsum(masses) - lost, 0.0)
    is_sparse = 2 * np.count_nonzero(masses) < len(masses)  # then losses without a mass are dropped
    if is_sparse:
        losses, masses = losses[masses > 0.0], masses[masses > 0.0]
    return AtomsRound(
        losses,
        np.log(np.maximum(masses, _SMALLEST)),
        spacing=0.0 if is_sparse else float(dense._discretization),
        loss_error=2.0**-51 * float(np.max(np.abs(losses))),
        mass_error=1e-13,
        log_lost=min(math.log(lost * (1.0 + 1e-12)), 0.0) if lost > 0.0 else -math.inf,
        log_lost_mirrored=0.0,
    )


def _refuse_no_law(masses: Any, infinite: float) -> None:
    if not (np.all(np.isfinite(masses)) and math.isfinite(infinite) and 0.0 <= infinite <= 1.0):
        raise InvalidArgument("distribution", InWords("infinite or NaN ones"), "have finite probabilities")
    if len(masses) == 0 or len(masses) > LARGEST_GRID:
        raise InvalidArgument("distribution", len(masses), f"have 1 to {LARGEST_GRID} losses")
    if np.any(masses < 0.0):
        reason = "rounding of a composition there, which nothing bounds; import single mechanisms and compose here"
        raise InvalidArgument("distribution", float(masses.min()), "have probabilities of at least 0", reason)
    total = math.fsum(masses) + infinite
    if not abs(total - 1.0) <= _ROOM:
        raise InvalidArgument("distribution", total, "have a total probability of 1")


def _regridded(first: int, masses: Any, theirs: float, step: float) -> tuple[int, Any]:
    """Masses at the multiples of `step` that are not below the losses they had."""
    if step == theirs:
        return first, masses
    index = first + np.arange(len(masses), dtype=np.float64)
    places = index * (theirs / step)
    # The quotient and the product are off by two roundings: with the room added no loss is rounded down.
    places = np.ceil(places + 4.0 * 2.0**-53 * np.abs(places))
    start = int(places[0])
    if places[-1] - start >= LARGEST_GRID:
        needed = f"be coarser: {int(places[-1] - start)} losses, more than {LARGEST_GRID}"
        raise InvalidArgument("grid_step", NOT_SHOWN, needed)
    moved = np.zeros(int(places[-1]) - start + 1)
    np.add.at(moved, (places - start).astype(np.int64), masses)
    together = math.ceil(step / theirs) + 4  # so many masses were added up at one place, at most
    return start, moved * (1.0 + together * 2.0**-52)


def _short(step: float) -> float:
    """The smallest number of 24 significant bits that is not below `step`: multiples of it are exact for a long way."""
    mantissa, exponent = math.frexp(step)
    return math.ldexp(math.ceil(math.ldexp(mantissa, 24)), exponent - 24)
