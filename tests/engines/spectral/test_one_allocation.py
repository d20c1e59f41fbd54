"""One round of one allocation, from the transform of X itself, beside ball arithmetic and integrals of its own
(docs/internals/numerics.md, S-80 to S-86)."""

from __future__ import annotations

import cmath
import itertools
import math
import random

import numpy as np
import pytest
from flint import acb, arb, ctx
from mpmath import mp, mpf

from groupdp.allocations import Allocation, AllocationRound
from groupdp.engines import lattice, spectral
from groupdp.engines.spectral.engine import packed
from groupdp.errors import LimitExceeded
from kernel_inspect import kernel
from oracle import allocation as oracle

ROOT_2PI = math.sqrt(2.0 * math.pi)


def composition(places: int, shift: float, reverse: bool = False):
    return ((AllocationRound((((Allocation(places, shift, 0.0), 1),),), (0.0,), reverse), 1),)


def of(places: int, shift: float, reverse: bool = False):
    return packed(composition(places, shift, reverse))


def is_new(found) -> bool:
    """Whether the transform of X itself answered: it counts one node for each step of its contour."""
    counts = found.provenance.evaluations
    return counts["nodes"] == counts["contour steps"] and counts["evaluations of delta"] == 1


def integral(function, ends) -> acb:
    return sum((acb.integral(function, a, b) for a, b in itertools.pairwise(ends)), acb(0))


def moment_of_place(
    lam: complex, places: int, shift: float, line: float = 0.0, minus: int = 0, far: float = 14.0
) -> acb:
    """E[e^{-lam L / M}] - minus on the line Im Z = line, in balls."""

    def integrand(u, _):
        z = u + acb(0, line)
        x = acb(lam) / places * (shift * z - arb(shift) ** 2 / 2).exp()
        return (-z * z / 2).exp() * ((-x).exp() - minus) / (2 * arb.pi()).sqrt()

    return integral(integrand, np.linspace(-far, shift + far, int(2 * far)))


@pytest.mark.parametrize(("places", "shift"), [(2, 3.3), (50, 1.0), (10**6, 0.4)])
@pytest.mark.parametrize("log_tolerance", [-8.0, -20.0, -44.0])
def test_s_80_one_place_on_a_line(places, shift, log_tolerance):
    """S-80: coarse rules and short ranges are wrong by most of what is stated, fine ones by rounding."""
    strip = min(1.2, math.pi / (4 * shift))
    largest = 0.0
    reach = math.sqrt(-2.0 * log_tolerance)
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
    if log_tolerance > -40.0:
        assert largest > 1e-4  # the bound says something


def put(k: mpf, s: mpf) -> mpf:
    """E[(k - L)_+]."""
    if k <= 0:
        return mpf(0)
    z = (mp.log(k) + s * s / 2) / s
    return k * mp.ncdf(z) - mp.ncdf(z - s)


def call(k: mpf, s: mpf, cut: float = math.inf) -> mpf:
    """E[(L - k)_+; Z <= cut]."""
    z = mpf(-50) if k <= 0 else (mp.log(k) + s * s / 2) / s
    if math.isinf(cut):
        return mp.ncdf(s - z) - k * mp.ncdf(-z)
    if z >= cut:
        return mpf(0)
    return (mp.ncdf(s - z) - mp.ncdf(s - cut)) - k * (mp.ncdf(-z) - mp.ncdf(-mpf(cut)))


def over_one(function, s: float, k: float, last: float = 14.0) -> mpf:
    """E[function(L); Z <= last], with a kink where L is k."""

    def integrand(z):
        return mp.npdf(z) * function(mp.exp(s * z - mpf(s) ** 2 / 2))

    kink = (math.log(k) + s * s / 2) / s if k > 0 else -20.0
    ends = sorted({-14.0, *(x for x in (kink - 4, kink - 1, kink, s, kink / 2) if -14.0 < x < last), float(last)})
    return mp.quad(integrand, ends)


def two_places(shift: float, value: float, reverse: bool, cut: float = math.inf) -> mpf:
    """E[(X - value)_+; no place beyond the cut] of two places, or E[(value - X)_+] reversed."""
    s, k = mpf(shift), mpf(2 * value)
    if reverse:
        return over_one(lambda x: put(k - x, s) / 2, shift, 2 * value) if value > 0 else mpf(0)
    last = min(cut, 14.0 + shift)
    return over_one(lambda x: call(k - x, s, cut) / 2, shift, 2 * value, last)


@pytest.mark.parametrize("shift", [0.3, 1.0, 2.2, 3.0])
@pytest.mark.parametrize("epsilon", [0.2, 1.5, 6.0])
@pytest.mark.parametrize("reverse", [False, True])
def test_two_places_exactly(shift, epsilon, reverse):
    """The whole answer, S-81 to S-86, beside an integral over one place of a closed form for the other."""
    mp.dps = 25
    a = math.exp(epsilon)
    true = two_places(shift, a if not reverse else 1 / a, reverse) * (a if reverse else 1)
    if true < mpf("1e-40"):
        pytest.skip("too small for this integral")
    found = spectral.log_delta(composition(2, shift, reverse), epsilon=epsilon)
    assert found.lower - 1e-12 <= float(mp.log(true)) <= found.upper + 1e-12


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


def cut_place(theta: complex, places: int, shift: float, cut: float) -> acb:
    """E[e^{theta L / M}; Z <= cut], in balls."""

    def integrand(z, _):
        x = (shift * z - arb(shift) ** 2 / 2).exp() / places
        return (-z * z / 2 + acb(theta) * x).exp() / (2 * arb.pi()).sqrt()

    return integral(integrand, np.linspace(-14.0, cut, 60))


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


def short_of_two(a: float, shift: float, cut: float) -> mpf:
    """E[(a - X)_+; some place beyond the cut] of two places."""
    s, top = mpf(shift), mp.exp(mpf(shift) * cut - mpf(shift) ** 2 / 2)

    def kept(x):
        k = 2 * mpf(a) - x
        return (put(k, s) if k <= top else k * mp.ncdf(mpf(cut)) - mp.ncdf(mpf(cut) - s)) / 2

    whole = over_one(lambda x: put(2 * mpf(a) - x, s) / 2, shift, 2 * a)
    return whole - over_one(kept, shift, float(2 * a - top), cut)


def on_the_axis(rho: float, shift: float, far: float = 14.0) -> acb:
    """phi(M rho e^{i pi}), upper side, on a line in the lower half plane of Z."""
    return moment_of_place(-rho, 1, shift, -(math.pi * 0.8) / shift, far=far)


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


def random_questions(count: int, seed: int):
    generator = random.Random(seed)
    for _ in range(count):
        places = round(10.0 ** generator.uniform(0.3, 6.0))
        shift = round(10.0 ** generator.uniform(-1.0, 0.52), 3)
        yield places, shift, generator.random() < 0.5, 10.0 ** generator.uniform(-12.0, -3.5)


@pytest.mark.parametrize(("places", "shift", "reverse", "delta"), list(random_questions(40, 5)))
def test_any_question_is_narrow_and_agrees_with_the_lattice(places, shift, reverse, delta):
    comp = composition(places, shift, reverse)
    found = spectral.epsilon(comp, log_delta=math.log(delta))
    assert found.upper - found.lower <= 1e-8 * max(1.0, found.upper)
    if places <= 10**4:
        try:
            other = lattice.epsilon(comp, log_delta=math.log(delta))
        except LimitExceeded as refusal:
            pytest.skip(str(refusal))
        assert other.lower <= found.upper
        assert found.lower <= other.upper


@pytest.mark.parametrize(
    ("places", "shift", "reverse", "delta"),
    [
        (3, 1.0, False, 1e-5),
        (20, 0.5, True, 1e-6),
        (20, 2.0, False, 1e-4),
        (300, 1.0, False, 1e-7),
        (300, 2.0, True, 1e-9),
    ],
)
def test_it_agrees_with_the_oracle(places, shift, reverse, delta):
    value = oracle.epsilon([([(1.0, [((places, shift, 1.0), 1)])], 1, reverse)], delta=delta, digits=7)
    found = spectral.epsilon(composition(places, shift, reverse), log_delta=math.log(delta))
    assert is_new(found)
    assert found.lower - 1e-7 * max(1.0, value) <= value <= found.upper + 1e-7 * max(1.0, value)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shift", [0.2, 1.0, 3.0])
def test_epsilon_falls_with_the_places_to_that_of_one_gaussian(shift, reverse):
    """More places hide more; the revealed place bounds every answer."""
    before = spectral.epsilon(composition(1, shift, reverse), log_delta=math.log(1e-6))
    for places in (2, 3, 10, 100, 1000, 10**5, 10**6):
        found = spectral.epsilon(composition(places, shift, reverse), log_delta=math.log(1e-6))
        assert found.lower <= before.upper
        assert found.upper <= before.upper
        before = found
