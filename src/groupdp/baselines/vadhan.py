"""Vadhan's lemma on the exact example-level curve, and the linear reference.

These are earlier methods: certified, so that the comparison is fair, and in log space, so that they are
finite wherever the mathematics is (the intermediate delta' may be e^-100000).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from groupdp.baselines.one_example import Composition, example_composition, require_one_sided
from groupdp.baselines.renyi import best_example_epsilon
from groupdp.baselines.smallest_feasible import FORMS, Form, Growth, Problem, Values, smallest_feasible
from groupdp.bounds import Bounds, Provenance
from groupdp.compositions import epsilon_ceiling_of, log_delta_ceiling, log_delta_of
from groupdp.engines import Options, Progress, options_of
from groupdp.errors import LimitExceeded, require_choice, require_integer, require_number
from groupdp.groups import LARGEST_GROUP
from groupdp.guarantees import epsilon
from groupdp.neighbours import BACKWARD
from groupdp.pairs import ZERO, Round, Side, compose, largest_loss
from groupdp.pairs import Composition as Pairs
from groupdp.question import question_of
from groupdp.tradeoff.delta_curve import Contours, Lattices

#: The bounds differ by this much, relative to epsilon, wherever `log_delta` is narrow enough.
TOLERANCE = 1e-6
#: The search aims at less.
_AIM = 1e-9
#: Values of delta that the lattice engine may compute for one curve, and the largest epsilon it is asked about: each
#: may take seconds. Both decide how wide the bounds may be, not whether they hold.
_MOST_LATTICES = 6
_LATTICE_UP_TO = 50.0
#: Bytes that a lattice may take, how narrow it is asked to be, and one made for another epsilon must be to serve.
_LATTICE_MEMORY = 256_000_000
_LATTICE_TOLERANCE = 1e-6
_NARROW = 2e-6


def vadhan_epsilon(
    run: Any,
    *,
    delta: float,
    group_size: int,
    form: Form = "lemma",
    adjacency: str = "add-or-remove",
    engine: str = "auto",
) -> Bounds:
    """The best epsilon for groups of k that Vadhan's lemma draws from the exact curve of one example.

        k eps,  for the smallest eps with  growth(eps) delta_1(eps) <= delta

    `form` "lemma" takes growth = k e^{k eps} as stated, "geometric" the sharper 1 + e^eps + ... + e^{(k-1) eps} of its
    proof. `upper` is a valid guarantee; `lower` bounds what the lemma can give, not the true privacy. A group of
    one needs no lemma and gets epsilon itself. The adjacency is add-or-remove, add or remove.

    `provenance.tolerance_met` says whether the bounds agree to `TOLERANCE`, as they do wherever `log_delta` answers.
    Elsewhere `upper` may come from Renyi divergences (`provenance.engine` is "renyi"), and is infinite where no finite
    epsilon exists (no noise) or none could be certified.
    """
    return vadhan_epsilons(run, delta=delta, group_sizes=(group_size,), form=form, adjacency=adjacency, engine=engine)[
        0
    ]


def vadhan_epsilons(
    run: Any,
    *,
    delta: float,
    group_sizes: Sequence[int],
    form: Form = "lemma",
    adjacency: str = "add-or-remove",
    engine: str = "auto",
    progress: Progress | None = None,
) -> list[Bounds]:
    """`vadhan_epsilon` for several group sizes, sharing the values of the example's curve and the proofs.

    What is infeasible for a group is infeasible for a larger one, so a proof continues where the last one ended.
    """
    sizes = [require_integer("group_size", size, at_least=0, at_most=LARGEST_GROUP) for size in group_sizes]
    log_target = math.log(require_number("delta", delta, above=0.0, below=1.0))
    require_choice("form", form, FORMS)
    require_one_sided(adjacency)
    example = example_composition(run)
    named = question_of(run, group_size=1, adjacency=adjacency).compositions
    options = options_of(engine=engine)
    lemma = _Lemma([composition for _, composition in named], example, options, log_target)
    single = epsilon(run, delta=delta, group_size=1, adjacency=adjacency, engine=engine) if example else None
    revealed = _log_revealed(example) if adjacency != BACKWARD else -math.inf
    results: dict[int, Bounds] = {0: Bounds(0.0, 0.0)}
    for done, size in enumerate(sorted(set(sizes))):
        if progress is not None:
            progress(done / len(set(sizes)))
        if single is None or size == 0:
            results[size] = results[0]
        elif size == 1:
            results[size] = single
        elif revealed + math.log(size) - log_target > 1e-12:
            results[size] = Bounds(math.inf, math.inf)
        else:
            results[size] = lemma.epsilon(Growth(form, size), start=single.upper)
    return [results[size] for size in sizes]


class _Lemma:
    """The lemma on the curve of one example, for growing group sizes."""

    def __init__(self, compositions: list[Pairs], example: Composition, options: Options, log_target: float) -> None:
        self.compositions = compositions
        self.example = example
        self.log_target = log_target
        curves = [_Curve(composition, options) for composition in compositions]

        def worst(at: float) -> Bounds:
            return _larger([curve(at) for curve in curves])

        def roughly_worst(at: float) -> Bounds:
            return _larger([curve.roughly(at) for curve in curves])

        # The first ordered change is the worse one almost always, and what is infeasible for it is infeasible for both.
        self.first = Values(curves[0], roughly=curves[0].roughly)
        self.second = curves[1:]
        self.both = Values(worst, roughly=roughly_worst) if len(curves) > 1 else self.first
        self.proved = self.reached = 0.0

    def epsilon(self, growth: Growth, *, start: float) -> Bounds:
        """k eps for the smallest feasible eps; the group sizes of successive calls grow."""
        begin = max(self.reached, start) or self._scale()
        for values in (self.first, self.both):
            problem = Problem(values, growth, self.log_target)
            found = smallest_feasible(problem, start=begin, proved=self.proved, tolerance=_AIM)
            engine = "vadhan"
            if found.upper == math.inf:
                engine = "renyi"
                ceiling = best_example_epsilon(self.example, growth, self.log_target)
                found = Bounds(min(found.lower, ceiling), ceiling)
            self.proved = found.lower
            if engine == "renyi" or self._is_feasible(growth, found.upper):
                break
        if engine == "vadhan":
            self.reached = found.upper
        product = multiple(found, growth.group_size)
        met = product.upper == product.lower or product.width <= TOLERANCE * product.upper
        cost = {"values of delta": len(self.first.known) + (len(self.both.known) if self.both is not self.first else 0)}
        provenance = Provenance(engine=engine, evaluations=cost, tolerance=TOLERANCE, tolerance_met=met)
        return replace(product, provenance=provenance)

    def _is_feasible(self, growth: Growth, at: float) -> bool:
        """Whether the other ordered change is certainly feasible there too."""
        allowed = self.log_target - growth.value(at) - growth.rounding(at) - 1e-12 * (1.0 + abs(self.log_target))
        for composition, curve in zip(self.compositions[1:], self.second, strict=True):
            if at >= largest_loss(composition) or epsilon_ceiling_of(composition, allowed, enough=at) <= at:
                continue
            try:
                if curve(at).upper > allowed:
                    return False
            except LimitExceeded:
                return False
        return True

    def _scale(self) -> float:
        """Where to begin if delta_1(0) is below the target: log delta falls by at most about 1 before delta_1(0)."""
        return math.exp(max(self.first.at(0.0).upper, -600.0))


def _larger(found: list[Bounds]) -> Bounds:
    """Bounds on the largest of several values."""
    return Bounds(max(side.lower for side in found), max(side.upper for side in found))


class _Curve:
    """log delta of one composition, at any epsilon >= 0.

    By the contour, in milliseconds; where it declines, by lattices, each of which bounds the whole curve (L-7) and is
    close to it near the epsilon it was made for; and by B-4 where neither answers.
    """

    def __init__(self, composition: Pairs, options: Options) -> None:
        self.composition, self.options = composition, options
        self.contours = Contours(composition)
        self.lattices = Lattices(
            composition, most=_MOST_LATTICES, narrow=_NARROW, tolerance=_LATTICE_TOLERANCE, memory=_LATTICE_MEMORY
        )
        rounds = sum(times for _, times in composition)
        noisy = all(round_.has_noise and not round_.is_trivial for round_, _ in composition)
        self.is_direct = options.engine != "auto" or rounds == 1 or not noisy

    def __call__(self, at: float) -> Bounds:
        if self.is_direct:
            return log_delta_of(self.composition, at, self.options)
        found = self.contours.evaluate(at)
        if found is not None:
            return Bounds(*found[:2])
        if at > _LATTICE_UP_TO:
            return Bounds(_always_sampled(self.composition, at), 0.0)
        lower, upper = _always_sampled(self.composition, at), log_delta_ceiling(self.composition, at)
        return Bounds(*self.lattices.narrowed(at, lower, upper)[:2])

    def roughly(self, at: float) -> Bounds:
        """Certified bounds by the contours at hand, however wide."""
        return Bounds(-math.inf, 0.0) if self.is_direct else Bounds(*self.contours.at_hand(at))


def _always_sampled(composition: Pairs, at: float) -> float:
    """A lower bound on log delta: the example is sampled in every round (B-4); -inf where it does not apply.

    P >= w N(mu, 1) with w = prod q, mu^2 = sum of the squared shifts, and Q = N(0, 1), so that
    delta(eps) >= w delta_mu(eps - log w), delta_mu being that of the Gaussian mechanism.
    """
    log_weight = squares = 0.0
    for round_, times in composition:
        if not (
            isinstance(round_, Round)
            and len(round_.branches) == 1
            and round_.branches[0].left.is_zero
            and round_.has_noise
        ):
            return -math.inf
        side = round_.branches[0].right
        log_weight += times * float(side.log_probabilities[-1])
        squares += times * side.largest**2
    gaussian = Round.of(Side.merged(np.array([math.sqrt(squares)]), (np.ones(1), np.zeros(1))), ZERO)
    shifted = (at - log_weight) * (1.0 + 1e-13)
    try:
        found = log_delta_of(compose([(gaussian, 1)]), shifted, Options(engine="spectral")).lower
    except LimitExceeded:
        return -math.inf
    # mu is off by 2^-50 of itself, which moves log delta by at most 2^-48 (1 + |log delta| + eps).
    return found + log_weight - 1e-13 * (1.0 + abs(found) + abs(log_weight) + shifted)


def _log_revealed(composition: Composition) -> float:
    """log of the probability that a round without noise samples the example: delta is never smaller."""
    absent = math.fsum(
        rounds * mixture.log_probability_of_absence
        for mixture, rounds in composition
        if mixture.standard_deviation == 0.0
    )
    return math.log(-math.expm1(absent)) if absent < 0.0 else -math.inf


def linear_reference(
    run: Any, *, delta: float, group_size: int, adjacency: str = "add-or-remove", engine: str = "auto"
) -> Bounds:
    """k times the epsilon of one example at the same delta: how fast privacy would degrade if it were linear.

    A reference line, neither an upper nor a lower bound on the privacy of the group: the paper observes that the
    group's epsilon lies above it.
    """
    size = require_integer("group_size", group_size, at_least=0, at_most=LARGEST_GROUP)
    return multiple(epsilon(run, delta=delta, group_size=min(size, 1), adjacency=adjacency, engine=engine), size)


def multiple(bounds: Bounds, factor: int) -> Bounds:
    """`factor` times what lies within the bounds."""
    if factor == 0 or bounds.upper == 0.0:
        return Bounds(0.0, 0.0)
    return Bounds(math.nextafter(factor * bounds.lower, 0.0), math.nextafter(factor * bounds.upper, math.inf))
