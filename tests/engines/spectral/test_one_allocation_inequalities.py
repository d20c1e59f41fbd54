"""What the transform of one allocation rests on, beside ball arithmetic and the note's formulas
(docs/internals/numerics.md, S-80 to S-86)."""

from __future__ import annotations

import cmath
import itertools
import math

import numpy as np
import pytest
from flint import acb, arb, ctx
from mpmath import mp, mpf

from engines.one_allocation_balls import (
    ROOT_2PI,
    composition,
    cut_place,
    moment_of_place,
    of,
    on_the_axis,
    short_of_two,
    two_places,
)
from groupdp.engines import spectral
from groupdp.engines.spectral import packed
from kernel_inspect import kernel


@pytest.mark.parametrize(("places", "shift"), [(2, 3.3), (50, 1.0), (10**6, 0.4)])
@pytest.mark.parametrize(("log_tolerance", "reach"), [(-6.0, 13.0), (-20.0, 13.0), (-44.0, 2.0), (-44.0, 10.0)])
def test_s_80_one_place_on_a_line(places, shift, log_tolerance, reach):
    """S-80: coarse rules and short ranges are wrong by some of what is stated, fine ones by rounding."""
    strip = min(1.2, math.pi / (4 * shift))
    largest = 0.0
    with ctx.workprec(120):
        for size, angle in [(0.1 * places, 0.0), (3.0 * places, 1.0), (30.0 * places, 1.5)]:
            gamma = shift * strip
            found = kernel.place(of(places, shift), gamma, strip, -reach, shift + reach, log_tolerance, size, angle)
            lam = cmath.rect(size, angle)
            # on a line between, lambda L is further inside of the right half plane
            phi = moment_of_place(lam, places, shift, -min(angle, gamma) / shift)
            psi = -moment_of_place(lam, places, shift, -min(angle, gamma) / shift, 1)
            for value, turned, error, true in [
                (found["psi"], found["psi_turned"], found["psi_error"], psi),
                (found["phi"], found["phi_turned"], found["phi_error"], phi),
            ]:
                off = abs(acb(value, turned) - true)
                assert off < error
                largest = max(largest, float(off / error))
    assert largest > 1e-9  # the bound says something


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shift", "log_delta"), [(0.4, -8.0), (0.5, -14.0), (0.9, -5.0)])
def test_s_81_s_82_aliases_of_a_line(shift, log_delta, reverse):
    """S-81, S-82: the aliases of a plan's period, computed one by one, are at most what is stated."""
    mp.dps = 25
    epsilon = 1.2 if not reverse else 0.9
    w = math.expm1(epsilon) if not reverse else None
    plan = kernel.one_line(of(2, shift, reverse), log_delta, 6.0, w if w is not None else 0.0)
    if plan is None:
        pytest.skip("declined: other ways answer")
    if reverse:
        w = -math.exp(-epsilon) if plan["base"] == 0.0 else -math.expm1(-epsilon)
        plan = kernel.one_line(of(2, shift, reverse), log_delta, 6.0, w)
    tilt, period = plan["tilt"], plan["period"]
    near = far = mpf(0)
    for m in range(1, 4):
        if reverse:
            near += mp.exp(-tilt * m * period) * two_places(shift, math.exp(-epsilon) + m * period, True)
            far += mp.exp(tilt * m * period) * two_places(shift, math.exp(-epsilon) - m * period, True)
        else:
            a = math.exp(epsilon)
            cut = plan["cut"]
            past = a - m * period
            value = two_places(shift, past, False, cut) if past > 0 else two_places(shift, 1e-9, False, cut) - past
            near += mp.exp(-tilt * m * period) * value
            far += mp.exp(tilt * m * period) * two_places(shift, a + m * period, False, cut)
    assert near <= plan["first_alias"]
    assert far <= mp.exp(mpf(plan["far"])) * (1 + mpf("1e-9"))
    assert near > plan["first_alias"] * 1e-6  # the bound says something


@pytest.mark.parametrize(("places", "shift"), [(2, 1.0), (30, 2.0), (1000, 0.5)])
def test_s_81_s_82_what_lies_far_out(places, shift):
    """S-81: |phi(c + it)|^M beyond a frequency; S-82: the same of cut places, with the edge of the cut."""
    c = 3.0
    with ctx.workprec(100):
        for y in (0.3 / shift, 0.9 / shift):
            for last in (0.2 * places, 2.0 * places):
                bound = kernel.far_out(of(places, shift), c, last, y, -math.inf, 1.0)
                for t in (last, 1.3 * last, 4.0 * last):
                    value = moment_of_place(complex(c, t), places, shift, -0.5 * min(1.0, math.atan2(t, c)) / shift)
                    assert places * float(abs(value).log()) <= bound
                cut = 3.0 + shift
                jump = math.exp(shift * cut - shift * shift / 2) / places
                theta = 3.0 / jump
                log_edge = theta * jump - 0.5 * cut * cut - math.log(ROOT_2PI)
                bound = kernel.far_out(of(places, shift), -theta, last, y, log_edge, jump)

                for t in (last, 2.0 * last):
                    if t * jump > 2000.0:
                        continue
                    value = cut_place(complex(theta, t), places, shift, cut)
                    assert places * float(abs(value).log()) <= bound


def test_s_82_the_edge_of_a_cut_decides_far_out():
    """S-82: far out the way down at the cut is most of the transform, and the bound has it."""
    places, shift, cut, last = 2, 1.0, 3.0, 150.0
    jump = math.exp(shift * cut - shift * shift / 2) / places
    theta = 10.0 / jump
    log_edge = theta * jump - 0.5 * cut * cut - math.log(ROOT_2PI)
    with ctx.workprec(100):
        value = places * float(abs(cut_place(complex(theta, last), places, shift, cut)).log())
    for y in (0.8, 1.2, 1.45):
        assert value <= kernel.far_out(of(places, shift), -theta, last, y, log_edge, jump)


@pytest.mark.parametrize(("shift", "around"), [(0.4, 2.0), (0.8, 6.0)])
def test_s_83_what_a_cut_leaves_beyond(shift, around):
    """S-83: E[(a - X)_+; some place beyond the cut] of two places."""
    mp.dps = 25
    for share in (1.0, 1.3, 2.0):
        a = share * around
        plan = kernel.one_line(of(2, shift), -10.0, around, a - 1.0)
        if plan is not None:
            short = short_of_two(a, shift, plan["cut"])
            assert short <= mp.exp(mpf(plan["short"])) + mpf("1e-22")


@pytest.mark.parametrize("shift", [0.5, 1.0, 3.0])
def test_s_85_beside_the_axis(shift):
    """S-85: -Im phi on the axis by a parabola, beside a line in ball arithmetic, where it is tiny, too."""
    with ctx.workprec(1100):
        for rho in (3.0, 0.5, 0.03, 1e-3, 1e-6):
            value, error = kernel.place_jump(shift, rho)
            true = -on_the_axis(rho, shift, 36.0).imag
            assert abs(arb(value) - true) <= error
            if 0.5 * shift**2 > math.log(rho):  # beyond, it declines
                assert error <= 1e-9 * value


@pytest.mark.parametrize(("places", "shift"), [(3, 1.0), (40, 2.0), (2000, 2.5)])
def test_s_84_the_negative_axis(places, shift):
    """S-84: what the axis up to c leaves out is at most the rest, whatever c is."""
    a = 1.0 + 40.0 / places
    comp = composition(places, shift)
    found = spectral.log_delta(comp, epsilon=math.log(a))
    delta = math.exp(0.5 * (found.lower + found.upper))
    with ctx.workprec(80):
        nodes, weights = np.polynomial.legendre.leggauss(12)
        for c in (6.0 / a, 12.0 / a):
            total = 0.0
            edges = np.linspace(math.log(1e-4 * c), math.log(c), 8)
            for low, high in itertools.pairwise(edges):
                for x, w in zip(nodes, weights, strict=True):
                    u = 0.5 * (low + high) + 0.5 * (high - low) * x
                    r = math.exp(u)
                    phi = on_the_axis(r / places, shift)
                    total -= 0.5 * (high - low) * w * math.exp(-r * a) * float((phi**places).imag) / r / math.pi
            rest = math.exp(-c * a) * float(abs(on_the_axis(c / places, shift))) ** places / (2 * c)
            assert abs(total - delta) <= rest * (1 + 1e-6) + 1e-7 * delta
            plan = kernel.jumps(packed(comp), math.log(a), math.log(delta))
            if plan is not None:
                summed = sum(g * math.exp(-r * (a - 1.0)) for g, r in zip(plan["real"], plan["along"], strict=True))
                assert abs(summed - delta) <= plan["left_out"] + 1e-8 * delta


@pytest.mark.parametrize(("places", "shift"), [(3, 1.0), (40, 2.0), (200, 0.6)])
def test_s_86_the_integrand_beside_the_axis(places, shift):
    """S-86: |f(log r + iy)| in balls is at most its bound, for every number of moments."""
    with ctx.workprec(400):
        for r in (0.01, 0.3, 2.0):
            for y in (0.0, 0.4, 0.9):
                rho = cmath.rect(r / places, y)
                line = -(math.pi * 0.5 + y + 0.2) / shift
                upper = moment_of_place(-rho, 1, shift, line, far=26.0) ** places
                lower = moment_of_place(-rho, 1, shift, (math.pi * 0.5 + 0.2) / shift, far=26.0) ** places
                log_f = float(abs((upper - lower) / 2 / rho / places).log()) - 1.5 * r * math.cos(y)
                for k in (1, 2, 5, 12):
                    assert log_f <= kernel.beside(of(places, shift), 1.5, r, y, float(k))[0]


def log_integrand_bound(places: int, shift: float, a: float, r: float, y: float, k: int) -> float:
    """S-86's formula at the best mu of many."""
    rho = r / places
    q = shift**2 / 2 - math.log(rho)
    best = math.inf
    for log_mu in np.linspace(0.0, 7.0, 2000):
        if log_mu + q >= 0.0:
            mu = math.exp(log_mu)
            squares = (log_mu + q) ** 2 - (math.pi + y) ** 2
            best = min(best, mu + 0.5 * math.log(math.pi / mu) - squares / (2 * shift**2))
    moments = [rho**j * math.exp(j * (j - 1) * shift**2 / 2) / math.factorial(j) for j in range(k + 1)]
    lifted = math.exp(((math.pi / 2 + y) / shift) ** 2 / 2)
    rest = (places - 1) * math.log(sum(moments[:k]) + lifted * moments[k]) - r * a * math.cos(y)
    return best + rest - math.log(ROOT_2PI * shift * rho)


@pytest.mark.parametrize(("places", "shift"), [(3, 1.0), (40, 2.0), (200, 0.6)])
def test_s_86_is_what_the_note_says(places, shift):
    """S-86: the bound on the integrand is not below its formula, nor far above it."""
    for r, y, k in [(0.1, 0.0, 1), (0.3, 0.5, 2), (2.0, 0.9, 6)]:
        found = kernel.beside(of(places, shift), 1.5, r, y, float(k))[0]
        formula = log_integrand_bound(places, shift, 1.5, r, y, k)
        assert formula - 1e-5 <= found <= formula + 1.5


@pytest.mark.parametrize(("places", "shift", "epsilon"), [(100, 2.0, 7.0), (5, 1.0, 4.0), (10**4, 2.0, 3.5)])
def test_s_84_is_what_the_note_says(places, shift, epsilon):
    """S-84: what a plan leaves out is not below the rest where its axis ends."""
    plan = kernel.jumps(of(places, shift), epsilon, -12.0)
    step = math.log(plan["along"][0] / plan["along"][1])
    last, a = plan["along"][0] * math.exp(0.5 * step), math.exp(plan["nearest"])
    with ctx.workprec(80):
        size = float(abs(on_the_axis(last / places, shift)))
    rest = math.exp(-last * a) * size**places / (2 * last)
    assert rest * (1.0 - 1e-6) <= plan["left_out"] <= math.exp(-12.0 - 20.0)


@pytest.mark.parametrize(("shift", "around"), [(0.4, 2.0), (0.8, 6.0), (0.3, 1.4)])
def test_s_83_is_what_the_note_says(shift, around):
    """S-83: the bound is not below its formula at the best c."""
    places = 40
    plan = kernel.one_line(of(places, shift), -10.0, around, 1.5 * around - 1.0)
    gap = 1.5 * around - math.exp(shift * plan["cut"] - shift**2 / 2) / places
    best = math.log(gap)
    for c in np.geomspace(0.5, 1e4, 40):
        log_phi = float(moment_of_place(c, places, shift).real.log())
        best = min(best, c * gap + (places - 1) * log_phi - 1 - math.log(c))
    log_many = math.log(places) + float(mp.log(mp.ncdf(-mpf(plan["cut"]))))
    assert best + log_many - 0.02 <= plan["short"]


@pytest.mark.parametrize(("places", "shift", "log_delta"), [(50, 1.0, -12.0), (1000, 0.5, -20.0)])
def test_s_81_is_what_the_note_says(places, shift, log_delta):
    """S-81: the bounds on aliases are not below their formulas."""
    plan = kernel.one_line(of(places, shift, True), log_delta, 0.0, 0.0)
    tilt, period, base = plan["tilt"], plan["period"], plan["base"]
    assert plan["first_alias"] >= sum((1 + m * period) * math.exp(-tilt * m * period) for m in range(1, 50))
    best = math.inf
    for c in tilt * np.linspace(1.02, 4.5, 40):
        log_phi = float(moment_of_place(c, places, shift).real.log())
        grown = places * log_phi + base * c - 1 - math.log(c)
        best = min(best, grown - math.log(math.expm1((c - tilt) * period)))
    assert best - 0.05 * abs(best) <= plan["far"]


def test_s_86_all_below():
    """S-86: the integral over all log r below one, of the bound with mu = 1, is at most what is stated."""
    for places, shift, r, y in [(10, 1.0, 0.05, 0.0), (10, 1.0, 0.05, 0.8), (1000, 2.0, 0.5, 0.5)]:
        total, width = 0.0, 0.02
        for i in range(2000):
            log_r = math.log(r) - width * (i + 0.5)
            with ctx.workprec(200):
                rho = cmath.rect(math.exp(log_r) / places, y)
                if i % 100 == 0:
                    upper = moment_of_place(-rho, 1, shift, -(math.pi * 0.5 + y + 0.2) / shift) ** places
                    lower = moment_of_place(-rho, 1, shift, (math.pi * 0.5 + 0.2) / shift) ** places
                    value = float(abs((upper - lower) / 2 / rho / places))
                    total += 100 * width * value
        assert total <= math.exp(kernel.beside(of(places, shift), 1e-9, r, y, 1.0)[1])
