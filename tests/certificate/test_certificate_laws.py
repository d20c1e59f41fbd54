"""The laws are counted by brute force, one round is compared with closed forms (C-1 to C-4, C-16, C-27)."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter, defaultdict

import pytest
from flint import arb, ctx, fmpq, fmpq_poly

import groupdp
from certificate_claims import read
from groupdp.certificate.checker import verify
from groupdp.certificate.checker.allocations import (
    crowded_batch,
    dealt,
    larger_squares,
    law_in_balls,
    many_joinings,
    squares,
)
from groupdp.certificate.checker.closed_forms import one_round
from groupdp.certificate.checker.contour import largest_loss
from groupdp.certificate.checker.laws import Change, Gaussians, Mixtures, cut_batch, hypergeometric, rounds
from groupdp.certificate.checker.reading import number
from groupdp.certificate.checker.runs import composition
from groupdp.certificate.prover import certificate_of, claim_of
from groupdp.laws.allocation import dealt_squares_law


@pytest.mark.parametrize("case", read("one_round_delta.json"))
@pytest.mark.parametrize("way", ["remove", "add"])
def test_one_round_is_exact(case, way):
    # C-4
    phase = {name: case[name] for name in ("sampling", "sampling_rate", "noise_multiplier", "steps")}
    size = case["group_size"]
    change = Change(way, size, 0) if way == "remove" else Change(way, 0, size)
    with ctx.workprec(200):
        lower, upper = one_round(rounds(phase, change)[0][0], number(case["epsilon"], "epsilon", 0, 100))
        truth = arb(case[f"delta_{way}"])
        assert abs(lower - truth) <= truth * arb("1e-18") + arb("1e-60")
        assert abs(upper - truth) <= truth * arb("1e-18") + arb("1e-60")
        assert lower <= upper


def test_one_gaussian_round_is_the_closed_form():
    # C-4; Balle and Wang 2018, Theorem 8: delta = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) at mu = 1, eps = 1
    with ctx.workprec(100):
        lower, upper = one_round(Gaussians([(fmpq(1), fmpq(1))]), fmpq(1))
        assert abs(lower - arb("0.126936737507")) < arb("1e-11")
        assert lower <= upper
        same = one_round(Mixtures([([0, fmpq(1)], [fmpq(1)])], fmpq(1)), fmpq(1))
        assert abs(same[0] - lower) < arb("1e-25")


def test_a_coin_of_one_round_is_an_average():
    # C-4 with C-7: a public coin averages delta
    with ctx.workprec(100):
        halves = [one_round(Gaussians([(fmpq(1), square)]), fmpq(1))[0] for square in (fmpq(1), fmpq(4))]
        both = one_round(Gaussians([(fmpq(1, 2), fmpq(1)), (fmpq(1, 2), fmpq(4))]), fmpq(1))
        assert both[0] <= (halves[0] + halves[1]) / 2 + arb("1e-25")
        assert both[1] >= (halves[0] + halves[1]) / 2 - arb("1e-25")


def test_no_loss_exceeds_the_largest():
    # C-16: adding, the loss is at most -T log(1 - q)^k, and finite only there
    phase = {"sampling": "poisson", "sampling_rate": "0.25", "noise_multiplier": "1", "steps": 3}
    parts = composition([phase], Change("add", 0, 2))
    assert abs(largest_loss(parts) + 6 * arb("0.75").log()) < arb("1e-12")
    assert not largest_loss(composition([phase], Change("remove", 2, 0))).is_finite()
    assert not largest_loss(composition([phase], Change("both", 1, 1))).is_finite()
    assert not largest_loss(composition([{**phase, "sampling_rate": "1"}], Change("add", 0, 2))).is_finite()


@pytest.mark.parametrize(("upper", "outcome"), [("1.7261", "verified"), ("1.7260", "undecided")])
def test_at_and_beyond_the_largest_loss_delta_is_zero(upper, outcome):
    # C-16: -6 log 0.75 = 1.72609...; just below it three rounds are too few for the contour
    run = [{"sampling": "poisson", "sampling_rate": "0.25", "noise_multiplier": "1", "steps": 3}]
    claim = {"run": run, "adjacency": "add", "group_size": 2, "delta": "1e-300", "tight": True}
    claim["epsilon"] = {"lower": "0", "upper": upper}
    document = {"format": "groupdp certificate", "version": 1, "claim": claim, "hints": {}}
    assert verify(json.dumps(document)).outcome == outcome


def test_hypergeometric_probabilities_are_counts():
    # C-1
    for drawn, others, marked in ((3, 7, 4), (7, 7, 3), (1, 9, 2)):
        whole = math.comb(others + marked, drawn)
        counts = [math.comb(marked, i) * math.comb(others, drawn - i) for i in range(min(marked, drawn) + 1)]
        assert hypergeometric(drawn, others, marked) == [fmpq(count, whole) for count in counts]


def test_squares_count_every_allocation():
    # C-3: five dealt to batches of 3, 3, 3 and 2, by brute force over subsets
    batch = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3]
    counts: Counter[int] = Counter()
    for chosen in itertools.combinations(batch, 5):
        counts[sum(c * c for c in Counter(chosen).values())] += 1
    law = squares(lambda _, c: math.comb(3, c), 3, [math.comb(2, c) for c in range(6)], 5, math.comb(11, 5))
    assert {int(r.p): p for p, r in law} == {r: fmpq(n, math.comb(11, 5)) for r, n in counts.items()}


def test_squares_count_every_throw():
    # C-3: four thrown into three batches
    counts: Counter[int] = Counter()
    for thrown in itertools.product(range(3), repeat=4):
        counts[sum(c * c for c in Counter(thrown).values())] += 1
    law = squares(math.comb, 3, [1, 0, 0, 0, 0], 4, 3**4)
    assert {int(r.p): p for p, r in law} == {r: fmpq(n, 3**4) for r, n in counts.items()}


def beyond(law, value):
    """P(r > value)."""
    return sum((p for p, r in law if r > value), fmpq(0))


@pytest.mark.parametrize(("size", "batches"), [(3, 100_000), (10, 100_000), (20, 5), (30, 10), (40, 300), (48, 2)])
def test_c_27_larger_sums_of_squares_are_larger(size, batches):
    # C-27, thrown: by the counts of all allocations; and dealt to batches of seven, the last one smaller
    thrown = squares(math.comb, batches, [1] + [0] * size, size, batches**size)
    larger = larger_squares(size, fmpq(1, batches), fmpq(1, batches), batches)
    assert sum(p for p, _ in larger) == 1
    assert all(beyond(larger, r) >= beyond(thrown, r) for _, r in thrown)
    n = 7 * batches + 3
    last = [math.comb(3, c) for c in range(size + 1)]
    cut = squares(lambda _, c: math.comb(7, c), batches, last, size, math.comb(n, size)) if size <= n else []
    if cut:
        larger = larger_squares(size, fmpq(6, n - size + 1), fmpq(7, n), batches + 1)
        assert all(beyond(larger, r) >= beyond(cut, r) for _, r in cut)


@pytest.mark.parametrize(("size", "batches", "rest"), [(3, 100, 0), (20, 30, 3), (20, 5, 3), (30, 10, 0)])
def test_c_3_in_balls_contains_what_is_counted(size, batches, rest):
    # C-3 in balls, also where terms of both signs cancel: by the counts of all allocations to batches of seven
    n, last = 7 * batches + rest, [math.comb(rest, c) for c in range(size + 1)]
    counted = {int(r.p): p for p, r in squares(lambda _, c: math.comb(7, c), batches, last, size, math.comb(n, size))}
    with ctx.workprec(200):
        law = law_in_balls(size, batches, 7, rest, 60, lambda: None)
        assert all(p.contains(counted.get(size + 2 * w, fmpq(0))) and p.rad() < 1e-30 for w, p in enumerate(law))
        assert sum(law, arb(0)) > sum((p for r, p in counted.items() if r <= size + 120), fmpq(0)) - arb("1e-30")


def test_c_3_beyond_64_encloses_the_laws_of_the_engines():
    # C-3 and P-20 share no code: survival functions of the two laws that the engines use, against balls
    law, larger = dealt(80, 37, 37 * 90 + 5)
    assert not larger
    engines = dealt_squares_law(80, 37, 37 * 90 + 5)
    for (values, (p, _)), sign in ((engines.upper, 1.0), (engines.lower, -1.0)):
        for value in range(80, 600, 20):
            truth = float(beyond(law, value))
            assert sign * (math.fsum(p[values > value]) - truth) >= -1e-15 * truth - 1e-50
            assert math.fsum(p[values > value]) == pytest.approx(truth, rel=1e-11, abs=1e-50)


@pytest.mark.parametrize(("size", "batches", "bits"), [(10, 40, 4), (20, 5, 4), (20, 5, 6), (30, 10, 6)])
def test_c_27_balls_that_overlap_are_not_taken_for_smaller_ones(size, batches, bits):
    # C-27 with wide balls: a bound that may or may not be the smaller one must not lose its joinings
    thrown = squares(math.comb, batches, [1] + [0] * size, size, batches**size)
    with ctx.workprec(bits):
        larger = larger_squares(size, fmpq(1, batches), fmpq(1, batches), batches)
    assert all(beyond(larger, r) >= beyond(thrown, r) for _, r in thrown)


def test_c_27_bounds_on_crowded_batches_and_on_joinings():
    # C-27: all of a group in one batch is what the union bound counts; of 40 thrown into 4, by binomials
    assert crowded_batch(5, fmpq(1, 9), 9, 4).contains(fmpq(1, 9**4))
    for limit in range(12, 39):
        p = [math.comb(40, c) * fmpq(1, 4) ** c * fmpq(3, 4) ** (40 - c) for c in range(41)]
        assert crowded_batch(40, fmpq(1, 4), 4, limit) >= sum(p[limit + 1 :])  # one of the batches alone
    for mean, least in ((fmpq(1, 1000), 1), (fmpq(3), 9), (fmpq(50), 60)):
        tail = 1 - sum((arb(mean) ** i / math.factorial(i) for i in range(least)), arb(0)) * arb(-mean).exp()
        assert tail < many_joinings(mean, least) < 40 * tail
    assert many_joinings(fmpq(0), 1) == 0
    assert many_joinings(fmpq(7), 7) == 1


@pytest.mark.parametrize(("s", "room"), [(20, 0), (14, 0), (13, 1), (8, 6), (3, 9)])
def test_batches_that_are_cut_keep_hypergeometric_numbers(s, room):
    # C-2: P(m) = sum_h P(h) C(h, m) C(s, B - m) / C(s + h, B) over the h that do not all find room, B = 14
    present = list((fmpq_poly([fmpq(2, 3), fmpq(1, 3)]) ** 9).coeffs())
    kept = [
        sum(
            (
                present[h] * math.comb(h, m) * math.comb(s, 14 - m) / fmpq(math.comb(s + h, 14))
                for h in range(room + 1, 10)
            ),
            fmpq(0),
        )
        for m in range(10)
    ]
    with ctx.workprec(200):
        found = dict(cut_batch(present, 14, s, room))
        for m in range(10):
            assert kept[m] == 0 if m not in found else abs(arb(kept[m]) - found[m]) < 1e-40
            assert m not in found or found[m].contains(kept[m])


@pytest.mark.parametrize(("batches", "upper"), [(1, "134.6"), (2, "95.7"), (50, "23.3")])
def test_c_27_a_larger_law_proves_nothing_from_below(batches, upper, monkeypatch):
    # C-27: neither that epsilon.lower is needed nor that epsilon.upper is wrong
    monkeypatch.setattr("groupdp.certificate.checker.allocations._MOST_PRODUCTS", 0)
    run = groupdp.DPSGD(sampling=groupdp.BallsInBinsSampling(batches=batches), noise_multiplier=8.0, steps=2 * batches)
    claim = claim_of(run, delta=1e-6, group_size=70, adjacency="remove")
    claim |= {"epsilon": {"lower": "0", "upper": upper}, "tight": False}
    made = certificate_of(claim)
    assert made.verdict.outcome == "verified"
    for epsilon, outcome in (
        ({"lower": str(0.9 * float(upper)), "upper": upper}, "undecided"),
        ({"lower": "0", "upper": str(0.9 * float(upper))}, "undecided"),
        ({"lower": str(1.1 * float(upper)), "upper": str(1.2 * float(upper))}, "refuted"),
    ):
        changed = {**made.document, "claim": {**claim, "epsilon": epsilon}}
        assert verify(json.dumps(changed)).outcome == outcome


def test_truncated_batches_by_brute_force():
    # C-2: every sampled set of 6 others and 2 of the group, every way to cut it to 3
    q, n, k, largest = fmpq(1, 3), 6, 2, 3
    classes: dict[int, dict[tuple[int, int], fmpq]] = defaultdict(lambda: defaultdict(lambda: fmpq(0)))
    for sampled in itertools.product((0, 1), repeat=n + k):
        s, h = sum(sampled[:n]), sum(sampled[n:])
        p = q ** (s + h) * (1 - q) ** (n + k - s - h)
        everyone = [0] * s + [1] * h
        ways = list(itertools.combinations(everyone, min(largest, s + h)))
        for way in ways:
            m = sum(way)
            classes[min(k, max(0, largest - s))][m, max(0, m - max(0, largest - s))] += p / len(ways)
    phase = {"sampling": "truncated-poisson", "sampling_rate": "0x1.5555555555555p-2", "largest_batch": largest}
    phase.update(dataset_size=n, noise_multiplier="1", steps=1)
    with ctx.workprec(100):
        found = rounds(phase, Change("remove", k, 0))[0][0]
        expected = sorted(
            tuple(float(sum((arb(p) for (m, d), p in law.items() if m + d == i), arb(0))) for i in range(2 * k + 1))
            for law in classes.values()
        )
        laws = sorted(tuple(float(p) for p in right) for right, _ in found.branches)
        assert len(laws) == len(expected)
        for one, other in zip(laws, expected, strict=True):
            assert one == pytest.approx(other, abs=1e-14)
        kept = rounds(phase, Change("zero-out", k, 0, True))[0][0]
        displaced = sorted(
            tuple(float(sum((arb(p) for (_, d), p in law.items() if d == i), arb(0))) for i in range(k + 1))
            for law in classes.values()
        )
        for one, other in zip(
            sorted(tuple(float(p) for p in left) for _, left in kept.branches), displaced, strict=True
        ):
            assert one == pytest.approx(other, abs=1e-14)
