"""The checker's lattice (C-21 to C-25), attacked: coarse cells, short windows and wrong thresholds make bounds wide.

Two rounds are an integral of one round's closed form, taken here in floats; more rounds are golden
(tests/golden/oracle_pairs.json, and the golden epsilons of thousands of rounds).
"""

from __future__ import annotations

import copy
import math
import random
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from scipy.optimize import brentq
from scipy.special import ndtr

from certificate_claims import golden, named, read
from certificate_two_rounds import in_floats, loss_of, two_rounds
from groupdp.certificate.checker import closed_forms as tails_module
from groupdp.certificate.checker import lattice as lattice_module
from groupdp.certificate.checker.closed_forms import HalfLines, Tails, one_round, tails_of
from groupdp.certificate.checker.lattice import Lattice
from groupdp.certificate.checker.laws import Change, Gaussians, Mixtures, Profile, changes, hypergeometric
from groupdp.certificate.checker.reading import Clock, Undecided, number
from groupdp.certificate.checker.runs import composition
from groupdp.certificate.prover.hints import lattice_hints

HALF = [fmpq(1, 2), fmpq(1, 2)]
RARE = [fmpq(99, 100), fmpq(1, 100)]
NONE = [fmpq(1)]
LAW = hypergeometric(5, 20, 3)
ROUNDS = {
    "remove": Mixtures([(RARE, NONE)], fmpq(1)),
    "add": Mixtures([(NONE, RARE)], fmpq(1)),
    "pair": Mixtures([(LAW, HALF)], fmpq(1, 2)),
    "coin": Mixtures([([p / 3 for p in LAW], [fmpq(1, 3)]), ([p * 2 / 3 for p in HALF], [fmpq(2, 3)])], fmpq(3, 4)),
}


def hints_of(parts: Any, epsilon: float, delta: float, cells: int = 800) -> dict[str, Any]:
    return lattice_hints(parts, epsilon=epsilon, log_delta=math.log(delta), accuracy=1e-12, most=cells)


def bounds(parts: Any, hints: dict[str, Any], epsilon: float) -> tuple[float, float]:
    with ctx.workprec(hints["precision"]):
        lower, upper = Lattice(parts, hints, Clock(60)).delta(arb(epsilon))
        return float(lower), float(upper)


EPSILONS = {"remove": (0.05, 1.0), "add": (0.008, 0.017), "pair": (1.0, 3.0), "coin": (0.5, 3.0)}
ASKED = [(name, epsilon) for name, some in EPSILONS.items() for epsilon in some]


@pytest.mark.thinned(6)
@pytest.mark.parametrize(("name", "epsilon"), ASKED)
def test_two_rounds_are_enclosed_however_coarse_the_lattice_is(name, epsilon):
    # C-22, C-23: every width is an error of second order, where the lattice resolves the losses
    parts = [(ROUNDS[name], 2)]
    truth, widths = two_rounds(ROUNDS[name], epsilon), []
    for cells in (20, 50, 100, 200, 400, 800, 1600):
        lower, upper = bounds(parts, hints_of(parts, epsilon, truth, cells), epsilon)
        assert lower <= truth * (1 + 1e-9) + 1e-16
        assert upper >= truth * (1 - 1e-9) - 1e-16
        widths.append(upper - lower)
    assert widths[-1] < 0.02 * truth
    assert widths[-1] < widths[0] / 20


@pytest.mark.parametrize("name", ROUNDS)
def test_both_measures_of_one_round_are_on_their_sides_everywhere(name):
    # C-22, C-23: one round at every epsilon, with offsets that suit the law and others
    parts = [(ROUNDS[name], 1)]
    for epsilon in EPSILONS[name][: 1 if name == "add" else 2]:  # two rounds have twice the largest loss
        hints = hints_of(parts, epsilon, float(one_round(ROUNDS[name], arb(epsilon))[1]), 60)
        for offset in (0.0, 0.2, 0.77):
            changed = copy.deepcopy(hints)
            changed["rounds"][0]["offset"] += offset * hints["step"]
            with ctx.workprec(192):
                found = Lattice(parts, changed, Clock(60))
                for n in range(-4, 12):
                    x = arb(epsilon) + n * arb(hints["step"]) * arb("0.37")
                    truth = one_round(ROUNDS[name], x)
                    lower, upper = found.delta(x)
                    assert lower <= truth[1]
                    assert upper >= truth[0]


@pytest.mark.parametrize("name", ROUNDS)
def test_thresholds_that_are_off_are_charged_for(name, monkeypatch):
    # C-24: every edge of a cell is moved, and with it the losses of the cell
    solved = tails_module.solved
    for epsilon in EPSILONS[name]:
        parts, truth = [(ROUNDS[name], 2)], two_rounds(ROUNDS[name], epsilon)
        hints = hints_of(parts, epsilon, truth, 400)
        for by in ("0.03", "-0.03"):

            def wrong(function: Any, x: arb, u: arb, reach: Any, by: str = by) -> tuple[arb, arb]:
                near = solved(function, x, u, reach)[0] + arb(by).mid()
                return near, function(near, x)[0]

            monkeypatch.setattr(tails_module, "solved", wrong)
            lower, upper = bounds(parts, hints, epsilon)
            monkeypatch.setattr(tails_module, "solved", solved)
            assert lower <= truth * (1 + 1e-9)
            assert upper >= truth * (1 - 1e-9)


@pytest.mark.thinned(6)
@pytest.mark.parametrize(("name", "epsilon"), ASKED)
def test_a_round_that_is_cut_short_is_charged_for(name, epsilon):
    # C-22: what is below the first point, and what is above the last one
    parts, truth = [(ROUNDS[name], 2)], two_rounds(ROUNDS[name], epsilon)
    for share in (0.1, 0.4, 0.7):
        for field in ("first", "last"):
            hints = hints_of(parts, epsilon, truth, 150)
            part = hints["rounds"][0]
            part[field] = int(part[field] * share)
            with suppress(Undecided):  # too few cells
                lower, upper = bounds(parts, hints, epsilon)
                assert lower <= truth * (1 + 1e-9)
                assert upper >= truth * (1 - 1e-9)


@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_loss_just_outside_of_its_cell_is_charged_for(times, monkeypatch):
    # C-24: all of P has the loss 3/8 + gap, and is said to be in the cell below 3/8
    gap = arb("0.01")

    def outside(*_: Any) -> Tails:
        heights = [arb(1)] * 8 + [arb(0)] * 5  # at -5/8, ..., 1/4 and at 3/8, ..., 7/8
        return Tails(heights, [p * (-arb(3) / 8 - gap).exp() for p in heights], arb(1), moved=gap)

    monkeypatch.setattr(lattice_module, "tails_of", outside)
    hints = {"abscissa": 1.0, "beyond": 2.0, "before": 0.0, "step": 0.125, "low": -1000, "high": 1000}
    hints["rounds"] = [{"offset": 0.375, "first": -8, "last": 4, "right_to": 0, "left_to": 0}]
    with ctx.workprec(128):
        found = Lattice([(ROUNDS["add"], times)], hints, Clock(60))
        for share in ("0.2", "0.6", "0.9"):
            epsilon = times * (arb(3) / 8 + gap * arb(share))
            lower, upper = found.delta(epsilon)
            truth = 1 - (epsilon - times * (arb(3) / 8 + gap)).exp()
            assert lower <= truth <= upper


def test_tails_are_those_of_the_loss():
    # C-21: thresholds by another root finder
    with ctx.workprec(128):
        for one in ROUNDS.values():
            losses = [-0.4, -0.02, 0.001, 0.009, 0.3, 1.1]
            found = tails_of(one, [arb(x) for x in losses], (9, 9), Clock(60))
            assert float(found.whole) == pytest.approx(1.0)
            for x, p, q in zip(losses, found.p, found.q, strict=True):
                expected = np.zeros(2)
                for right, left in in_floats(one):
                    ends = [float(loss_of((right, left), u)) for u in (-35.0, 35.0)]
                    u = -35.0 if ends[0] > x else 35.0 if ends[1] < x else 0.0
                    if u == 0.0:
                        u = brentq(lambda u, b=(right, left), x=x: float(loss_of(b, u)) - x, -35.0, 35.0, xtol=1e-13)
                    expected += [sum(w * ndtr(s - u) for w, s in right), sum(w * ndtr(-s - u) for w, s in left)]
                assert [float(p), float(q)] == pytest.approx(expected, rel=1e-8, abs=1e-12)


def test_tails_of_gaussian_rounds_and_of_the_envelope_are_slopes_of_their_curves():
    # C-21: delta(x) = P(L > x) - e^x Q(L > x), and Q(L > x) = -d delta / d e^x
    rounds = [Gaussians([(fmpq(1, 3), fmpq(1)), (fmpq(2, 3), fmpq(4))]), Profile(hypergeometric(5, 36, 4), fmpq(3, 5))]
    with ctx.workprec(128):
        for one in rounds:
            losses = [arb(x) for x in ("-1.5", "-0.2", "0.1", "0.9", "2.5")]
            found = tails_of(one, losses, (9, 9), Clock(60))
            for x, p, q in zip(losses, found.p, found.q, strict=True):
                assert abs(p - x.exp() * q - one_round(one, x)[0]) < arb("1e-12")
                h = arb("1e-6")
                ends = [one_round(one, (x.exp() + sign * h).log())[0] for sign in (-1, 1)]
                assert float(q) == pytest.approx(float((ends[0] - ends[1]) / (2 * h)), rel=1e-6)


@pytest.mark.parametrize("name", ROUNDS)
def test_wide_cells_anywhere_are_charged_for(name):
    # C-22, C-23: also where they make the bounds wide
    parts = [(ROUNDS[name], 2)]
    for epsilon in EPSILONS[name]:
        truth, whole = (
            two_rounds(ROUNDS[name], epsilon),
            hints_of(parts, epsilon, two_rounds(ROUNDS[name], epsilon), 300),
        )
        for share in (0.05, 0.4, 0.8):
            for stride in (3, 7, 21):
                hints = copy.deepcopy(whole)
                part = hints["rounds"][0]
                fine = part["first"] + 4 + int(share * (part["last"] - part["first"]))
                part |= {"fine": fine + 1 - fine % 2, "stride": stride}
                lower, upper = bounds(parts, hints, epsilon)
                assert lower <= truth * (1 + 1e-9) + 1e-16
                assert upper >= truth * (1 - 1e-9) - 1e-16


def test_wide_cells_far_above_epsilon_cost_nothing():
    law = [fmpq(9, 10), fmpq(0), fmpq(0), fmpq(1, 10)]
    parts = [(Mixtures([(law, NONE)], fmpq(1)), 2)]
    truth = two_rounds(parts[0][0], 3.0)
    hints = hints_of(parts, 3.0, truth, 4000)
    part = hints["rounds"][0]
    assert part["stride"] > 1
    every_cell = copy.deepcopy(hints)
    for field in ("fine", "stride"):
        del every_cell["rounds"][0][field]
    lower, upper = bounds(parts, hints, 3.0)
    low, high = bounds(parts, every_cell, 3.0)
    assert lower <= truth * (1 + 1e-4)  # the curve of one round has a kink, where the trapezoid rule loses digits
    assert upper >= truth * (1 - 1e-4)
    assert upper - lower < 1.001 * (high - low)


@pytest.mark.parametrize(
    "wrong", [{"stride": 2}, {"fine": 10}, {"fine": -(10**6) + 1}, {"fine": 10**6 + 1}, {"stride": 0}]
)
def test_wide_cells_that_do_not_fit_are_refused(wrong):
    parts = [(ROUNDS["remove"], 2)]
    hints = hints_of(parts, 1.0, two_rounds(ROUNDS["remove"], 1.0), 200)
    hints["rounds"][0] |= {"fine": 11, "stride": 3, **wrong}
    with pytest.raises(Undecided):
        bounds(parts, hints, 1.0)


def test_cells_by_quadrature_have_the_masses_of_closed_forms():
    # C-100: the widest cells that it takes, narrow ones, and shifts that bend the densities most
    source = random.Random(11)
    with ctx.workprec(300):
        for _ in range(60):
            sizes = source.randint(1, 16), source.randint(0, 16)
            right, left = ([fmpq(source.randint(1, 99), 400) for _ in range(size + 1)] for size in sizes)
            half_lines = HalfLines(right, left, arb(source.choice(["0.05", "0.7", "1", "1.5"])))
            u = arb(source.uniform(-12.0, 20.0))
            v = u + arb(2.0 ** -source.choice([4.5, 6.1, 7, 9, 14]))
            for mass, above, beyond in zip(
                half_lines.between(u, v), half_lines.beyond(u), half_lines.beyond(v), strict=True
            ):
                exact = above - beyond
                assert mass.overlaps(exact)
                assert mass.rad() < 1e-7 * abs(exact) + 1e-60
            ends = [u + arb(n) / source.choice([2, 200]) for n in range(5)]
            for found, end in zip(half_lines.tails(ends, Clock(60)), ends, strict=True):
                assert all(one.overlaps(other) for one, other in zip(found, half_lines.beyond(end), strict=True))


def test_shifts_that_are_left_out_are_charged_for():
    # C-5 and C-6 on the lattice, of the envelope too (C-21)
    cases: list[Any] = [(Mixtures([(LAW, NONE)], fmpq(1)), 1.0), (Mixtures([(NONE, LAW)], fmpq(1)), 0.4)]
    cases += [(Mixtures([(LAW, LAW)], fmpq(1)), 1.0)]
    for one, epsilon in cases:
        truth = two_rounds(one, epsilon)
        hints = hints_of([(one, 2)], epsilon, truth, 200)
        for right_to in range(4):
            for left_to in range(4):
                hints["rounds"][0].update(right_to=right_to, left_to=left_to)
                lower, upper = bounds([(one, 2)], hints, epsilon)
                assert lower <= truth * (1 + 1e-9)
                assert upper >= truth * (1 - 1e-9)
    one = Profile(hypergeometric(5, 36, 4), fmpq(3, 5))
    with ctx.workprec(128):
        truth = one_round(one, arb(2))
        hints = hints_of([(one, 1)], 2.0, float(truth[0]))
        for right_to in (1, 2, 3):
            hints["rounds"][0].update(right_to=right_to)
            lower, upper = Lattice([(one, 1)], hints, Clock(60)).delta(arb(2))
            assert lower <= truth[1]
            assert upper >= truth[0]


def few_rounds() -> list[tuple[Any, float, float, float]]:
    """(composition, epsilon, delta, relative error of delta) of two to five rounds, by the oracle."""
    found = []
    for case in read("oracle_pairs.json"):
        if "log_delta" not in case or not 2 <= case.get("steps", 0) <= 9:
            continue
        fields = ("sampling_rate", "batch_size", "dataset_size", "noise_multiplier", "steps")
        phase = {name: case[name] for name in fields if name in case}
        size = case.get("group_size")
        phase["sampling"] = "fixed-batch" if size else "poisson"
        change = Change("substitute", size, size) if size else Change("both", case["removed"], case["added"])
        log_delta = float(case["log_delta"])
        error = 10.0 ** (2 - case["digits"])
        found.append((composition([phase], change), float(case["epsilon"]), math.exp(log_delta), error))
    return found


@pytest.mark.thinned
@pytest.mark.parametrize(("parts", "epsilon", "delta", "error"), few_rounds(), ids=lambda value: "")
def test_a_few_rounds_are_those_of_the_oracle(parts, epsilon, delta, error):
    # C-22, C-23
    for cells in (60, 300, 3000):
        lower, upper = bounds(parts, hints_of(parts, epsilon, delta, cells), epsilon)
        assert lower <= delta * (1 + error)
        assert upper >= delta * (1 - error)
    assert upper - lower < 2e-3 * delta


MANY = [
    "poisson-sigma1-remove-k4-1e-6",
    "poisson-sigma1-add-k4-1e-6",
    "shuffled-sigma4-zero-out-k4-1e-6",
    "fixed-batch-sigma2-substitute-k2-1e-6",
]
TRUTHS = {named(truth): truth for truth in golden()}


def many_rounds(name: str) -> tuple[Any, float, float]:
    truth = TRUTHS[name]
    epsilon, delta = (number(x, "x", 0, 1000) for x in (truth["epsilon"], truth["claim"]["delta"]))
    parts = composition(truth["claim"]["run"], changes(truth["claim"])[0])
    return parts, float(epsilon.p) / float(epsilon.q), float(delta.p) / float(delta.q)


@pytest.mark.thinned(6)
@pytest.mark.parametrize("name", MANY)
def test_windows_that_cut_are_charged_for(name):
    # C-25: thousands of rounds in windows that are ever shorter, below and above
    parts, epsilon, delta = many_rounds(name)
    hints = hints_of(parts, epsilon, delta, 1000)
    whole = bounds(parts, hints, epsilon)
    assert whole[0] <= delta * (1 + 1e-6)
    assert whole[1] >= delta * (1 - 1e-6)
    assert whole[1] < 5 * delta
    offset = sum(times * part["offset"] for (_, times), part in zip(parts, hints["rounds"], strict=True))
    at = int((epsilon - offset) / hints["step"])
    windows = [(hints["low"], high) for high in (at + 2, (at + hints["high"]) // 2)]
    windows += [(hints["low"] // 2, hints["high"]), (hints["low"] // 8, hints["high"]), (0, hints["high"])]
    for low, high in windows:
        lower, upper = bounds(parts, {**hints, "low": low, "high": high}, epsilon)
        assert lower <= delta * (1 + 1e-6)
        assert upper >= delta * (1 - 1e-6)


def test_random_hints_never_make_bounds_that_miss_the_truth():
    # all of C-21 to C-25 at once
    source = random.Random(21)
    decided = 0
    for _ in range(40):
        name, epsilon = source.choice(ASKED)
        parts, truth = [(ROUNDS[name], 2)], two_rounds(ROUNDS[name], epsilon)
        hints = hints_of(parts, epsilon, truth, source.choice([30, 100, 300]))
        for field in ("abscissa", "beyond", "before", "step"):
            hints[field] *= source.uniform(0.5, 1.6)
        hints["low"], hints["high"] = (
            int(hints["low"] * source.uniform(0, 1.2)),
            int(hints["high"] * source.uniform(0, 1.2)),
        )
        part = hints["rounds"][0]
        part["first"], part["last"] = (
            int(part["first"] * source.uniform(0.2, 1.2)),
            int(part["last"] * source.uniform(0.2, 1.2)),
        )
        part["offset"] += source.uniform(-1, 1) * hints["step"]
        with suppress(Undecided):
            lower, upper = bounds(parts, hints, epsilon)
            assert lower <= truth * (1 + 1e-9) + 1e-16
            assert upper >= truth * (1 - 1e-9) - 1e-16
            decided += 1
    assert decided > 20


def test_a_threshold_that_cannot_be_enclosed_is_undecided():
    # C-21: the probability of no shift is known to 1e-3 only, and so is every loss
    rough = Mixtures([([arb(0.99, 1e-3), arb(0.01, 1e-3)], NONE)], fmpq(1))
    with ctx.workprec(64), pytest.raises(Undecided):
        tails_of(rough, [arb(0.5), arb(1)], (9, 9), Clock(60))
