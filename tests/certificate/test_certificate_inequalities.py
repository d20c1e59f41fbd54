"""Every inequality of docs/internals/certificate.md, attacked: bad hints make bounds wide, never wrong.

The truth is golden: delta(epsilon) is known to ten digits at the golden epsilons. Each test makes one error large, so
that bounds without its charge would not contain the truth; studies/mutations.py checks that they indeed would not.
"""

from __future__ import annotations

import copy
import math
import random
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from flint import acb, arb, ctx, fmpq

from certificate_claims import golden, named
from groupdp.certificate.checker.contour import Contour, Quadrature, gaussian_line, mixture_line
from groupdp.certificate.checker.laws import Gaussians, changes, hypergeometric
from groupdp.certificate.checker.lines import Place
from groupdp.certificate.checker.reading import Clock, Undecided, number
from groupdp.certificate.checker.runs import composition
from groupdp.certificate.prover.hints import hints_for

TRUTHS = {named(truth): truth for truth in golden()}
CASES = [
    "poisson-sigma1-remove-k4-1e-6",
    "poisson-sigma1-add-k4-1e-6",
    "poisson-sigma4-removed-and-added-k(4, 4)-1e-6",
    "fixed-batch-sigma10-remove-k12-1e-5",
    "truncated-poisson-sigma4-remove-k3-1e-5",
    "truncated-poisson-sigma4-add-k3-1e-5",
    "shuffled-sigma4-zero-out-k4-1e-6",
]
_KNOWN: dict[str, Any] = {}


def parts_and_hints(name: str) -> tuple[Any, dict[str, Any], fmpq, fmpq]:
    if name not in _KNOWN:
        truth = TRUTHS[name]
        epsilon, delta = number(truth["epsilon"], "epsilon", 0, 1000), number(truth["claim"]["delta"], "delta", 0, 1)
        parts = composition(truth["claim"]["run"], changes(truth["claim"])[0])
        logarithm = math.log(float(Decimal(truth["claim"]["delta"])))
        hints = hints_for(parts, epsilon=float(epsilon.p) / float(epsilon.q), log_delta=logarithm, accuracy=1e-11)
        _KNOWN[name] = parts, hints, epsilon, delta
    parts, hints, epsilon, delta = _KNOWN[name]
    return parts, copy.deepcopy(hints), epsilon, delta


def bounds(name: str, change: Any) -> tuple[arb, arb, arb]:
    """(lower, upper, truth) with hints that `change` has spoilt."""
    parts, hints, epsilon, delta = parts_and_hints(name)
    change(hints)
    with ctx.workprec(hints["precision"]):
        lower, upper = Contour(parts, hints, Clock(60)).delta(epsilon)
        return lower, upper, arb(delta)


def assert_encloses(found: tuple[arb, arb, arb]) -> None:
    lower, upper, truth = found
    assert lower <= truth * (1 + arb("1e-10"))
    assert upper >= truth * (1 - arb("1e-10"))


def narrowed(hints: dict[str, Any], **factors: float) -> None:
    for name, factor in factors.items():
        hints[name] = type(hints[name])(hints[name] * factor)


@pytest.mark.parametrize("name", CASES)
def test_good_hints_give_narrow_bounds(name):
    # C-12
    lower, upper, truth = bounds(name, lambda hints: None)
    assert_encloses((lower, upper, truth))
    assert upper - lower < truth * arb("1e-9")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("share", [0.02, 0.1, 0.2, 0.3, 0.5])
def test_a_contour_cut_short_is_charged_for(name, share):
    # C-13 with C-10, C-7
    found = bounds(name, lambda hints: hints.update(points=max(3, int(hints["points"] * share))))
    assert_encloses(found)
    if share < 0.15:
        assert found[1] - found[0] > found[2] * arb("1e-6")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("factor", [1.5, 2.0, 3.0, 5.0])
def test_a_short_period_is_charged_for(name, factor):
    # C-14, C-15: aliases from the left and from the right
    assert_encloses(bounds(name, lambda hints: narrowed(hints, step=factor)))


@pytest.mark.parametrize("name", CASES[:3])
def test_aliases_from_either_side_alone_are_charged_for(name):
    # C-14: left of the saddle the left aliases dominate; C-15: right of it the right ones
    for shift in (0.5, 0.7, 1.4, 2.0):
        for factor in (2.0, 4.0):

            def change(hints: dict[str, Any], shift: float = shift, factor: float = factor) -> None:
                narrowed(hints, abscissa=shift, beyond=max(shift, 1.0) * 1.05, step=factor)

            with suppress(Undecided):
                assert_encloses(bounds(name, change))


@pytest.mark.parametrize("name", CASES[:6])
@pytest.mark.parametrize("factor", [2.0, 3.0, 4.0, 6.0, 9.0])
def test_a_coarse_quadrature_is_charged_for(name, factor):
    # C-8
    def change(hints: dict[str, Any]) -> None:
        part = hints["rounds"][0]
        part.update(
            step=part["step"] * factor, first=int(part["first"] / factor) - 1, last=int(part["last"] / factor) + 1
        )

    with suppress(Undecided):
        assert_encloses(bounds(name, change))


@pytest.mark.parametrize("name", CASES[:6])
@pytest.mark.parametrize(("left", "right"), [(0.3, 1.0), (0.15, 1.0), (1.0, 0.6), (1.0, 0.45), (0.2, 0.5)])
def test_a_short_range_is_charged_for(name, left, right):
    # C-9
    def change(hints: dict[str, Any]) -> None:
        part = hints["rounds"][0]
        part.update(first=int(part["first"] * left), last=int(part["last"] * right))

    with suppress(Undecided):
        assert_encloses(bounds(name, change))


def test_the_tails_of_the_quadrature_are_there():
    # C-9: the nodes beyond either end add up to less than what is said, and not far less
    law, tried = hypergeometric(5, 20, 3), 0
    hints = {"step": 0.25, "strip": 0.5, "first": -60, "last": 80}
    for z in (arb("0.5"), arb(3)):
        for right, left in ((law, [fmpq(1)]), ([fmpq(1)], law), (law, law)):
            weights, _ = Quadrature(right, left, arb("0.7"), hints, Clock(60)).weights(z)
            for first, last in ((-2, 80), (-60, 28), (-60, 36), (-8, 40)):
                part = Quadrature(right, left, arb("0.7"), {**hints, "first": first, "last": last}, Clock(60))
                with suppress(Undecided):
                    _, tails = part.weights(z)
                    beyond = sum(weights[: first + 60] + weights[last + 61 :], arb(0))
                    assert beyond <= tails < 60 * beyond
                    tried += 1
    assert tried > 12


def test_the_strip_bound_holds_and_is_not_far_off():
    # C-8: against a quadrature that is far finer
    law = hypergeometric(5, 20, 3)
    for right, left in ((law, [fmpq(1)]), ([fmpq(1)], law), (law, law)):
        for c, s, strip in ((0.5, 0.0, 1.0), (0.5, 2.0, 1.0), (4.0, 1.0, 1.0), (30.0, 0.0, 1.4)):
            values = []
            for step in (1 / 64, 1.0, 1.5, 2.0):
                hints = {"step": step, "strip": strip, "first": int(-30 / step), "last": int(90 / step)}
                branch = Quadrature(right, left, arb("0.7"), hints, Clock(60))
                weights, _ = branch.weights(arb(c))
                terms = (w * acb(0, arb(s) * (n[1] - n[2])).exp() for w, n in zip(weights, branch.nodes, strict=True))
                values.append((sum(terms, acb(0)), branch.error(arb(c), arb(s)), sum(weights, arb(0))))
            exact, _, size = values[0]
            for value, error, _ in values[1:]:
                assert abs(value - exact) <= error * size


@pytest.mark.parametrize("name", CASES[:6])
def test_dropped_shifts_are_charged_for(name):
    # C-5 on P's side, C-6 on Q's
    hints = parts_and_hints(name)[1]
    for side in ("right_to", "left_to"):
        for largest in range(hints["rounds"][0][side]):

            def change(hints: dict[str, Any], side: str = side, largest: int = largest) -> None:
                hints["rounds"][0][side] = largest

            with suppress(Undecided):
                assert_encloses(bounds(name, change))


@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", [*CASES, "fixed-batch-sigma8-add-k4-1e-6"])
def test_the_decay_bound_holds_beyond_the_last_point(name):
    # C-7, C-10: |G(c + i s)| / G(c) for s well beyond, from a contour that goes there
    parts, hints, _, _ = parts_and_hints(name)
    with ctx.workprec(hints["precision"]):
        one, far = parts[0][0], 60
        hints.update(points=far)
        step = 3 * hints["step"] * parts_and_hints(name)[1]["points"] / far
        for count in (2, 5, 15, 30):
            lines = []
            for points in (far, count):
                place = Place(arb(hints["abscissa"]), arb(hints["beyond"]), arb(step), points, Clock(60))
                part = {**hints["rounds"][0]}
                if part:
                    part.update(step=part["step"] / 2, first=2 * part["first"], last=2 * part["last"])
                made = gaussian_line(one, place) if isinstance(one, Gaussians) else mixture_line(one, part, place)
                lines.append(made)
            sizes = [abs(sample) / lines[0].samples[0].real for sample in lines[0].samples[count:]]
            assert all(size.lower() <= lines[1].decay for size in sizes)
            assert max(float(size) for size in sizes) > 0.5 * (2 * float(lines[1].decay) - 1)


def test_random_hints_never_make_bounds_that_miss_the_truth():
    # all of C-5 to C-15 at once
    source = random.Random(16)
    for _ in range(60):
        name = source.choice(CASES)

        def change(hints: dict[str, Any]) -> None:
            narrowed(hints, abscissa=source.uniform(0.6, 1.5), step=source.uniform(0.5, 3.0))
            hints["beyond"] = hints["abscissa"] * source.uniform(1.01, 3.0)
            hints["points"] = max(2, int(hints["points"] * source.uniform(0.1, 1.5)))
            for part in hints["rounds"]:
                if part:
                    narrowed(part, step=source.uniform(0.7, 3.0), strip=source.uniform(0.3, 1.2))
                    narrowed(part, first=source.uniform(0.2, 1.2), last=source.uniform(0.5, 1.5))
                    part["right_to"] = max(0, part["right_to"] - source.choice([0, 0, 0, 1]))
                    part["left_to"] = max(0, part["left_to"] - source.choice([0, 0, 0, 1]))

        with suppress(Undecided):
            assert_encloses(bounds(name, change))


@pytest.mark.parametrize("name", CASES)
def test_chernoff_is_above_the_truth_and_within_a_factor(name):
    # C-11
    lower, upper, truth = bounds(name, lambda hints: hints.update(points=0))
    assert lower == 0
    assert truth < upper < 100 * truth
