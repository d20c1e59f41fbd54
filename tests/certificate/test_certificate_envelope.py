"""The envelope of fixed batches with examples replaced: against the supremum that defines it (C-18 to C-20, C-101)."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
from flint import acb, arb, ctx, fmpq
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from groupdp.certificate.checker.contour import Contour
from groupdp.certificate.checker.envelope import Envelope, Rule, profile_line
from groupdp.certificate.checker.laws import Profile, hypergeometric
from groupdp.certificate.checker.lines import Place
from groupdp.certificate.checker.reading import Clock, Undecided
from groupdp.certificate.prover.float_rounds import FloatProfile
from groupdp.certificate.prover.hints import hints_for

PROFILES = {
    "one": Profile(hypergeometric(5, 19, 1), fmpq(1)),
    "two": Profile(hypergeometric(5, 18, 2), fmpq(4, 5)),
    "four": Profile(hypergeometric(5, 36, 4), fmpq(3, 5)),
}


def supremum(one: Profile, x: float) -> float:
    """R(e^x) for x >= 0, by maximising what defines it over g_0 (pairs of thresholds are brute force)."""
    h = [float(p.p) / float(p.q) for p in one.law]
    unit, alpha = float(one.unit.p) / float(one.unit.q), math.exp(x)

    def value(t0: float) -> float:
        total = (1 - alpha) * h[0] * ndtr(t0)
        for i in range(1, len(h)):
            mu = i * unit
            t = min(t0, -x / mu - mu / 2)
            total += h[i] * (ndtr(t + mu) - alpha * ndtr(t))
        return float(total)

    grid = np.linspace(-12.0, 1.0, 80)
    best = max(grid, key=value)
    found = minimize_scalar(
        lambda t: -value(t), bounds=(best - 0.2, best + 0.2), method="bounded", options={"xatol": 1e-10}
    )
    return max(-float(found.fun), 0.0)


def envelope_of(one: Profile, end: float = -16.0) -> tuple[Envelope, dict[str, Any]]:
    events = [event for event in FloatProfile(one).events() if event[0] > end]
    hints = {"events": events, "end": end, "cells": 500, "nodes": 24, "reach": 1.0}
    return Envelope(one, hints, Clock(60)), hints


def moment(one: Profile, hints: dict[str, Any], z: acb) -> acb:
    """E[e^{zL}] at Re z >= 0."""
    place = Place(z.real, z.real + 1, z.imag, 2 if z.imag > 0 else 1, Clock(60))
    return profile_line(one, hints, place).samples[-1]


@pytest.mark.parametrize("name", PROFILES)
def test_the_moments_are_those_of_the_supremum(name):
    # C-19: M(c) - M(0) = c (c + 1) int_0^inf (e^{cx} + e^{-(1+c)x}) R(e^x) dx
    one = PROFILES[name]
    with ctx.workprec(128):
        _, hints = envelope_of(one)
        for c in (0.5, 2.0):

            def integrand(x: float, c: float = c) -> float:
                return (math.exp(c * x) + math.exp(-(1 + c) * x)) * supremum(one, x)

            expected = c * (c + 1) * quad(integrand, 0.0, 25.0, epsabs=1e-8, epsrel=1e-6, limit=100)[0]
            found = moment(one, hints, acb(c)) - 1
            assert float(found.real) == pytest.approx(expected, rel=1e-5)


def integral(one: Profile, hints: dict[str, Any], z: acb) -> acb:
    """E[e^{zL}; L != 0] up to the end of the hints, by Arb's own integrals over the pieces and over own thresholds."""
    curve, total = Envelope(one, hints, Clock(60)), acb(0)
    for piece in curve.pieces:

        def alpha(t: Any, active: set[int] = piece.active) -> Any:
            return acb(curve.alpha(active, t))

        def both(t: Any, log: Any) -> Any:
            return (((1 + z) * log).exp() + (-z * log).exp()) * (-t * t / 2).exp() / (2 * arb.pi()).sqrt()

        low, high = acb(piece.low.mid()), acb(piece.high.mid())

        def on_piece(t: Any, analytic: bool = False, alpha: Any = alpha) -> Any:
            ratio = alpha(t)
            return acb("nan") if analytic and not ratio.real > 0 else both(t, ratio.log())

        total += curve.weight(piece.active) * acb.integral(on_piece, low, high)
        for i in set(range(1, curve.top + 1)) - piece.active:
            mu = curve.mu[i]
            ends = [-alpha(t).log() / mu - mu / 2 for t in (low, high)]
            total += curve.h[i] * acb.integral(lambda v, _, mu=mu: both(v, -mu * v - mu * mu / 2), *ends)
    return total


@pytest.mark.parametrize("name", PROFILES)
def test_the_rule_is_as_far_from_the_integral_as_it_says(name):
    # C-101: few nodes and narrow ellipses as well
    one = PROFILES[name]
    with ctx.workprec(160):
        for nodes, reach in ((3, 0.7), (6, 2.5), (12, 1.5), (30, 0.3)):
            curve, hints = envelope_of(one)
            rule = Rule(curve, {**hints, "nodes": nodes, "reach": reach})
            for c in (0.0, 1.0, 3.0):
                losses, weights = rule.weights(arb(c))
                error, beyond = rule.error(arb(c)), rule.beyond(arb(c)).abs_upper()  # the integral stops at the end
                for s in (0.0, 1.0, 8.0):
                    z = acb(c, s)
                    total = sum((w * acb(0, s * x).exp() for x, w in zip(losses, weights, strict=True)), acb(0))
                    off = abs(total - integral(one, hints, z))
                    assert off.lower() <= error(arb(s)) - beyond
                    assert nodes < 24 or error(arb(s)) - beyond < 1e-12 * (abs(total) + beyond)


@pytest.mark.parametrize("changed", [{"nodes": 1}, {"nodes": 999}, {"reach": 0.0}, {"reach": 3.2}, {"reach": 1e-5}])
def test_rules_that_prove_nothing_are_refused(changed):
    # C-101
    curve, hints = envelope_of(PROFILES["two"])
    with ctx.workprec(96), pytest.raises(Undecided):
        Rule(curve, {**hints, **changed})


@pytest.mark.parametrize("name", PROFILES)
def test_active_sets_solve_the_equation_of_the_supremum(name):
    # C-18: (1 - alpha) h_0 + sum h_i (LR_i - alpha)_+ = 0 on every piece
    one = PROFILES[name]
    with ctx.workprec(128):
        curve, _ = envelope_of(one)
        for piece in curve.pieces:
            for share in ("0.01", "0.3", "0.7", "0.99"):
                t = piece.low + (piece.high - piece.low) * arb(share)
                alpha = curve.alpha(piece.active, t)
                excess = (1 - alpha) * curve.h[0]
                for i in range(1, len(curve.h)):
                    excess += curve.h[i] * (curve.ratio(i, t) - alpha).max(arb(0))
                assert abs(excess) < alpha * arb("1e-25")
                assert alpha > 1


@pytest.mark.parametrize("name", ["two", "four"])
def test_wrong_active_sets_are_not_believed(name):
    # C-18
    one = PROFILES[name]
    _, hints = envelope_of(one)
    events = hints["events"]
    wrong: list[Any] = [
        [],
        events[1:],
        events[:-1],
        events[::-1],
        [*events, [-15.0, 1]],
        [*events, events[-1], events[-1]],
        None,
        [[0, 0]],
        [[-1.0]],
        "x",
    ]
    wrong += [[[events[0][0] - 0.01, events[0][1]], *events[1:]], [[events[0][0], 10**9], *events[1:]]]
    for changed in wrong:
        with ctx.workprec(128), pytest.raises(Undecided):
            Envelope(one, {**hints, "events": changed}, Clock(60))


@pytest.mark.parametrize("name", PROFILES)
def test_an_early_end_is_charged_for(name):
    # C-19: what lies beyond the end is in the ball
    one = PROFILES[name]
    with ctx.workprec(128):
        for z in (acb("0.1"), acb(1), acb(1, 2)):
            exact = moment(one, envelope_of(one, -25.0)[1], z)
            for end in (-3.0, -5.0, -8.0):
                assert moment(one, envelope_of(one, end)[1], z).overlaps(exact)


@pytest.mark.thinned
@pytest.mark.parametrize("name", PROFILES)
def test_the_decay_bound_holds_beyond_the_last_point(name):
    # C-20
    one = PROFILES[name]
    with ctx.workprec(96):
        _, hints = envelope_of(one)
        lines = [
            profile_line(one, hints, Place(arb(1), arb("1.1"), arb("0.8"), points, Clock(60))) for points in (12, 3, 6)
        ]
        sizes = [abs(sample) / lines[0].samples[0].real for sample in lines[0].samples]
        for line, count in ((lines[1], 3), (lines[2], 6)):
            assert all(size.lower() <= line.decay for size in sizes[count:])
            assert line.decay < arb("0.999")


def test_the_end_must_be_beyond_everything():
    one = PROFILES["two"]
    hints = hints_for([(one, 500)], epsilon=3.0, log_delta=math.log(1e-5), accuracy=1e-8)
    for end in (-0.1, 1.0, None, "x"):
        changed = copy.deepcopy(hints["rounds"][0])
        changed["end"] = end
        with pytest.raises(Undecided):
            profile_line(one, changed, Place(arb(1), arb(2), arb(1), 2, Clock(60)))


def test_certificates_without_a_rule_are_still_verified():
    # C-101: those of 0.2, whose moments were integrals
    hints = hints_for([(PROFILES["two"], 500)], epsilon=3.0, log_delta=math.log(1e-5), accuracy=1e-8)
    old = copy.deepcopy(hints)
    del old["rounds"][0]["nodes"], old["rounds"][0]["reach"]
    with ctx.workprec(int(hints["precision"])):
        sides = [Contour([(PROFILES["two"], 500)], some, Clock()).delta(arb(3)) for some in (hints, old)]
    assert sides[0][0] <= sides[1][1]
    assert sides[1][0] <= sides[0][1]
    assert sides[1][1] - sides[1][0] <= 1e-6 * sides[1][1]
