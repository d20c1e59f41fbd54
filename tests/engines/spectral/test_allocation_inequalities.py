"""Every inequality on which random allocations rest, beside the true quantity (numerics.md, section 11)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import acb, arb, arb_poly, ctx
from scipy.special import gammaincc, gammaln
from scipy.stats import norm

from groupdp.engines.spectral import packed
from groupdp.pairs import Allocation, AllocationRound
from kernel_inspect import kernel
from oracle import allocation as oracle
from oracle import few_places as truth

U = 2.0**-53


def packed_round(places: int, shift: float, p: float = 1.0, *, reverse: bool = False):
    """The composition, as a coin so that one place is an allocation too."""
    product = ((Allocation(places, shift, math.log(p)), 1),)
    return packed(((AllocationRound((product, product), (math.log(0.5),) * 2, reverse), 1),))


def bounds(places: int, shift: float, n: int, w: float, **given: float) -> dict[str, float]:
    values = {"step": 0.1, "place_step": 0.2, "frequency": 0.0, "z": 5.0, "u": 3.0, "log_most": 0.0} | given
    found = kernel.allocation_bounds(packed_round(places, shift), n, w, *values.values())
    assert found is not None
    return found


@pytest.mark.parametrize("frequency", [0.0, 6.0, 12.0])
@pytest.mark.parametrize("step", [0.2, 0.25])
@pytest.mark.parametrize("offset", [0.0, 0.1])
def test_s_29_the_step_in_the_rate(step, frequency, offset):
    """S-29: for X = 1 the sum is a trapezoid rule for Gamma(a - is), in closed form."""
    n, w = 33, 2.0
    u = np.arange(-30, 30) * step + offset + math.log(31.0)
    terms = np.exp((n - w) * u - np.exp(u) - gammaln(n - w) - 1j * frequency * u)
    with ctx.workprec(200):
        exact = complex((acb(n - w, -frequency).lgamma() - acb(n - w).lgamma()).exp())
    error = abs(step * terms.sum() - exact)
    log_bound = bounds(5, 1.0, n, w, step=step, frequency=frequency)["log_step_error"]
    assert math.log(error) <= log_bound
    assert log_bound <= math.log(error) + 6.0  # not a bound that anything would satisfy


@pytest.mark.parametrize(("place_step", "shift"), [(1.0, 0.5), (1.4, 0.05), (1.6, 0.1)])
def test_s_30_the_step_in_a_place(place_step, shift):
    """S-30: second moments of the discretised law in closed form, M = 1, 3 and 100."""
    z = np.arange(-60, 61) * place_step
    weight = place_step * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    for places in (1, 3, 100):
        w = 2.0
        once, twice = (np.sum(weight * np.exp(k * (shift * z - shift**2 / 2))) for k in (1, 2))
        exact = (math.exp(shift**2) + (places - 1)) / places
        mass = weight.sum()
        found = (twice * mass ** (places - 1) + (places - 1) * once**2 * mass ** (places - 2)) / places
        log_bound = bounds(places, shift, 26, w, place_step=place_step)["log_place_error"]
        assert abs(found / exact - 1) <= math.exp(log_bound)


@pytest.mark.parametrize("w", [1.0, 2.5, 6.0])
@pytest.mark.parametrize("z", [2.0, 4.0, 6.0])
def test_s_31_what_is_left_out_above(w, z):
    """S-31: M E[X^w; Z_1 > z] / G(w), in closed form with one place and by a sum with two."""
    shift = 0.8
    assert norm.logsf(z - w * shift) <= bounds(1, shift, 40, w, z=z)["log_above"]
    assert math.log(2 * share_beyond(shift, w, z, above=True)) <= bounds(2, shift, 40, w, z=z)["log_above"]


def test_s_31_the_other_places_count_too():
    """S-31: a place beyond z adds a fifth to the 99 others, whose term (1 - alpha)^(1 - w) was seen by no test.

    Below, the others are replaced by their mean (Jensen); G(30) is 30! times a coefficient of a power of a polynomial.
    """
    places, shift, w, z = 100, 0.3, 30, 10.0
    k = np.arange(w + 1)
    one = np.exp(k * (k - 1) * shift**2 / 2 - gammaln(k + 1) - k * math.log(places))
    power = np.ones(1)
    for _ in range(places):
        power = np.convolve(power, one)[: w + 1]
    log_moment = math.log(power[w]) + gammaln(w + 1)
    nodes = np.arange(z, z + 12.0, 1e-3)
    x = 1 - 1 / places + np.exp(shift * nodes - shift**2 / 2) / places
    beyond = np.sum(x**w * norm.pdf(nodes)) * 1e-3 * (1 - 0.006)  # a left sum, less half of its first term
    true = math.log(places * beyond) - log_moment
    log_bound = bounds(places, shift, 60, float(w), z=z)["log_above"]
    assert true <= log_bound <= true + 8.0
    assert math.log(places) + 0.5 - z * z / 2 < true, "the bound on the nodes beyond z would hide it"


@pytest.mark.parametrize("w", [-0.5, -3.0, -9.0, 2.0])
@pytest.mark.parametrize("z", [3.0, 6.0])
def test_s_31_what_is_left_out_below(w, z):
    """S-31: the same below -z, and above it for powers that decrease."""
    shift = 0.8
    distance = z + w * shift
    assert norm.logsf(distance) <= bounds(1, shift, 40, w, z=z)["log_below"] + 1e-12
    assert math.log(2 * share_beyond(shift, w, z, above=False)) <= bounds(2, shift, 40, w, z=z)["log_below"]
    if w < 1.0:
        assert math.log(2 * share_beyond(shift, w, z, above=True)) <= bounds(2, shift, 40, w, z=z)["log_above"]


@pytest.mark.parametrize(("places", "c"), [(20_000, 300.0), (100_000, 1600.0)])
def test_s_31_below_with_many_places(places, c):
    """S-31: on Z_1 < -z the mean of X^-c is at least G(-c), by the oracle; the layers stay near it, where the geometric
    mean is e^{c / 2}."""
    z = 9.0
    least = math.log(places) + norm.logsf(z) + oracle.log_moment((places, 1.0, 1.0), complex(-c)).real
    assert least <= bounds(places, 1.0, 30, -c, z=z)["log_below"] <= least + 0.05 * c + 12.0


def share_beyond(shift: float, w: float, z: float, *, above: bool) -> float:
    """E[X^w; Z_1 > z] / E[X^w] with two places (or Z_1 < -z)."""
    step = 0.05
    nodes = np.arange(-20, 20 + step / 2, step)
    weight = np.exp(-(nodes**2) / 2)
    ratio = np.exp(shift * nodes - shift**2 / 2)
    terms = weight[:, None] * weight[None, :] * ((ratio[:, None] + ratio[None, :]) / 2) ** w
    beyond = nodes > z if above else nodes < -z
    return float(terms[beyond].sum() / terms.sum())


@pytest.mark.parametrize(("w", "n"), [(3.0, 30), (-8.0, 20), (12.0, 40)])
@pytest.mark.parametrize("more", [0.3, 0.8, 1.5])
def test_s_32_rates_beyond_the_nodes(w, n, more):
    """S-32: the nodes beyond log lambda = u hold E[X^w Q(a, lambda X)] / G(w) of the integral; with two places."""
    shift, step, shape = 0.7, 0.05, n - w
    u = math.log(shape) + more
    loss, probability = truth.law(2, shift, 1.0)
    weight = probability * np.exp(w * loss)
    beyond = (weight * gammaincc(shape, np.exp(u + loss))).sum() / weight.sum()
    assert math.log(beyond) <= bounds(2, shift, n, w, step=step, u=u)["log_rates_above"]
    for most in (0.0, 0.5):  # X = e^most itself is the worst below
        below = u - 2 * more - most
        y = np.exp(below + most - step * np.arange(400))
        held = math.log(step) + np.log(np.sum(np.exp(shape * np.log(y) - y - gammaln(shape))))
        assert held <= bounds(2, shift, n, w, step=step, u=below, log_most=most)["log_rates_below"]


#: The last four have coefficients beyond 1e200, or far below their largest: by recurrence, and by squaring.
TABLES = [
    (40, 1.0, 1.0, 30, 2.0),
    (4, 0.6, 1.0, 26, 2.0),
    (60, 1.5, 0.25, 28, 2.0),
    (2000, 0.5, 1.0, 300, -300.0),
    (2000, 0.5, 0.5, 300, -600.0),
    (16, 0.4, 0.02, 26, -3000.0),
    (5, 0.1, 1.0, 400, -200.0),
]


@pytest.mark.parametrize(("places", "shift", "p", "n", "w"), TABLES)
def test_s_33_the_table_is_right_to_its_rounding(places, shift, p, n, w):
    """S-33: p_n on the same grid in ball arithmetic, by recurrence and by squaring."""
    found = kernel.allocation(packed_round(places, shift, p), n, w, 0.0, -40.0)
    assert found is not None
    fine = round(found["step"] / (shift * found["place_step"]))
    mantissa, exponent = math.frexp(0.5 * (found["step"] / fine / shift) ** 2)
    half_square = math.ldexp(round(math.ldexp(mantissa, 20)), exponent - 20)
    with ctx.workprec(160):
        step = (2 * arb(half_square)).sqrt()
        low, high = (
            math.ceil(found[name] * shift / (found["step"] / fine) - 1e-9) for name in ("place_low", "place_high")
        )
        weights = [step / (2 * arb.pi()).sqrt() * (-arb(half_square) * i * i).exp() for i in range(-low, high + 1)]
        ratios = [(arb(shift) * step * i - arb(shift) ** 2 / 2).exp() for i in range(-low, high + 1)]
        worst = 0.0
        for j in range(0, len(found["log_count"]), 41 if n < 100 else 31):
            rate = (arb(shift) * step * fine * int(found["first"] + j)).exp()
            truth_there = exact_count(rate, weights, ratios, places, arb(p), n)
            if found["log_count"][j] == -math.inf:
                assert float(truth_there.log()) <= found["log_lost"][j]
                continue
            error = abs(float(truth_there.log() - arb(found["log_count"][j])))
            room = U * (found["rounding"][j] + found["point_rounding"] * (n + 2 * float(rate)))
            assert error <= room + math.exp(min(found["log_lost"][j] - found["log_count"][j], 0.0))
            worst = max(worst, error)
        assert worst > 0.0


def exact_count(rate, weights, ratios, places, p, n):
    """[t^n] e^{-rate (1 - p) (1 - t)} B(t)^M."""
    points = [rate * p * ratio / places for ratio in ratios]
    terms = [weight * (-x).exp() for weight, x in zip(weights, points, strict=True)]
    b = []
    for k in range(n + 1):
        b.append(sum(terms, arb(0)))
        terms = [term * x / (k + 1) for term, x in zip(terms, points, strict=True)]
    absent = rate * (1 - p)
    poisson = [(-absent).exp()]
    for k in range(1, n + 1):
        poisson.append(poisson[-1] * absent / k)
    result, power = arb_poly(poisson), arb_poly(b)
    for bit in reversed(bin(places)[2:]):
        if bit == "1":
            result = up_to(result * power, n)
        power = up_to(power * power, n)
    return result[n]


def up_to(polynomial, n):
    return arb_poly(polynomial.coeffs()[: n + 1])


def test_s_33_where_the_exponential_underflows():
    """S-33: with one place, p_63 lacks its terms with x > 746, whose e^{-x} is 0."""
    n, shift = 63, 1.0
    found = kernel.allocation(packed_round(1, shift), n, 2.0, 0.0, -30.0)
    assert found is not None
    z = np.arange(-math.floor(found["place_low"] / found["place_step"]), found["place_high"] / found["place_step"])
    z = z[:-1] * found["place_step"]
    seen = 0
    for j, log_lost in enumerate(found["log_lost"]):
        log_x = found["step"] * (found["first"] + j) + shift * z - shift**2 / 2
        terms = norm.logpdf(z) + math.log(found["place_step"]) + n * log_x - np.exp(log_x) - gammaln(n + 1)
        lost = terms[log_x > math.log(746.0)]
        seen += lost.size > 0
        assert np.max(lost, initial=-math.inf) <= log_lost
    assert seen > 10


@pytest.mark.parametrize("a", [24.0, 60.5, 2400.0])
@pytest.mark.parametrize("s", [0.0, 1e-6, 3.0, 77.0, 4000.0])
def test_s_34_the_ratio_of_gamma_functions(a, s):
    """S-34: log Gamma(a) - log Gamma(a - is) - is log a, within 40 U of the size of its parts; and log Gamma(a)."""
    real, imaginary, size, log_gamma = kernel.gamma_ratio(a, s)
    with ctx.workprec(200):
        exact = acb(a).lgamma() - acb(a, -s).lgamma() - acb(0, s) * arb(a).log()
        assert abs(float(exact.real - arb(real))) <= 40 * U * size
        assert abs(float(exact.imag - arb(imaginary))) <= 40 * U * size
        assert abs(float(arb(a).lgamma() - arb(log_gamma))) <= 16 * U * (a * math.log(a) + a + 2)


@pytest.mark.parametrize(("places", "p"), [(1, 1.0), (2, 1.0), (3, 1.0), (2, 0.3)])
@pytest.mark.parametrize("c", [0.5, 2.0])
@pytest.mark.parametrize("reverse", [False, True])
def test_s_35_the_decay_of_the_characteristic_function(places, p, c, reverse):
    """S-35: |G(c + is)| <= G(c) e^{-s^2 shift^2 / (2 M)} where everybody takes part; the Gaussian attains it."""
    shift = 0.9
    found = kernel.allocation(packed_round(places, shift, p, reverse=reverse), 40, -c if reverse else 1 + c, 0.0, -20.0)
    rate = found["rate"]
    assert rate <= (shift / math.sqrt(places) if p == 1.0 else 0.0)
    at = (lambda z: -z) if reverse else (lambda z: 1 + z)
    for s in (0.5, 2.0, 5.0, 8.0):
        ratio = abs(truth.moment(places, shift, p, at(complex(c, s)))) / truth.moment(places, shift, p, at(c)).real
        assert ratio <= math.exp(-0.5 * (s * rate) ** 2) + 1e-11
        if places == 1:
            assert ratio == pytest.approx(math.exp(-0.5 * (s * rate) ** 2), abs=1e-11)


@pytest.mark.parametrize("log_tolerance", [-3.0, -6.0, -12.0, -30.0])
@pytest.mark.parametrize(
    ("places", "shift", "p"), [(1, 0.5, 1.0), (3, 0.8, 1.0), (7, 1.2, 1.0), (1000, 1.0, 0.5), (2, 0.3, 1.0)]
)
@pytest.mark.parametrize("w", [2, 3, 5])
def test_s_29_to_s_33_integer_moments_are_enclosed(places, shift, p, w, log_tolerance):
    """S-29 to S-33: E[X^w] in closed form; with coarse steps and ranges their errors are what the bound is made of."""
    found = kernel.allocation(packed_round(places, shift, p), 26 + w, float(w), 0.0, log_tolerance)
    if found is None or not math.isfinite(found["log_moment_error"]):
        assert log_tolerance >= -7.0  # no bound is claimed where the steps are that coarse
        return
    assert abs(found["log_moment"] - math.log(integer_moment(places, shift, p, w))) <= found["log_moment_error"]


def integer_moment(places: int, shift: float, p: float, w: int) -> float:
    """w! [t^w] e^{(1 - p) t} (sum_k e^{k (k - 1) s^2 / 2} (p t / M)^k / k!)^M."""
    one = [math.exp(k * (k - 1) * shift**2 / 2) * (p / places) ** k / math.factorial(k) for k in range(w + 1)]
    result = [(1 - p) ** k / math.factorial(k) for k in range(w + 1)]
    for _ in range(places):
        result = [math.fsum(result[i] * one[m - i] for i in range(m + 1)) for m in range(w + 1)]
    return result[w] * math.factorial(w)


RAYS = [(2, 0.06, 1.0), (3, 0.1, 1.0), (2, 0.3, 0.2)]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("places", "shift", "p"), RAYS)
def test_s_41_high_frequencies_on_rays(places, shift, p, reverse):
    """S-41, S-42: phi up to a frequency whose square is far more than the number of terms, by sums over all places."""
    tilt, step, samples = 8.0, 5.0, 34
    found = kernel.characteristic(packed_round(places, shift, p, reverse=reverse), tilt, step, -30.0, samples)
    assert found is not None
    at = (lambda z: -z) if reverse else (lambda z: 1 + z)
    whole = truth.moment(places, shift, p, at(tilt))
    for i in range(samples):
        exact = truth.moment(places, shift, p, at(complex(tilt, i * step))) / whole
        turned = np.exp(complex(found["log_modulus"][i], found["angle"][i] + i * step * found["centre"]))
        error = abs(turned) * math.expm1(min(found["log_error"][i], 30.0))
        assert abs(turned - exact) <= error + 1e-12
        assert abs(exact) < 1e-6 or error < 1e-8
        assert math.log(max(abs(exact), 1e-11)) <= max(found["log_largest"][i], math.log(1e-11)) + 1e-9


@pytest.mark.parametrize(("places", "tilt"), [(3000, 10.0), (20_000, 12.0)])
@pytest.mark.parametrize("reverse", [False, True])
def test_s_42_many_places_on_rays(places, tilt, reverse):
    """S-42: phi of thousands of places, beside the oracle's rays, whose places are turned and not its rates."""
    shift, step, samples = 1.0, 11.0, 20
    found = kernel.characteristic(packed_round(places, shift, reverse=reverse), tilt, step, -30.0, samples)
    assert found is not None
    at = (lambda z: -z) if reverse else (lambda z: 1 + z)
    whole = oracle.log_moment((places, shift, 1.0), complex(at(tilt)))
    for i in range(0, samples, 3):
        exact = np.exp(oracle.log_moment((places, shift, 1.0), at(complex(tilt, i * step))) - whole)
        turned = np.exp(complex(found["log_modulus"][i], found["angle"][i] + i * step * found["centre"]))
        error = abs(turned) * math.expm1(found["log_error"][i])
        assert abs(turned - exact) <= error + 1e-11
        assert error < 1e-8


def test_s_42_underflow_next_to_small_probabilities():
    """S-42: b_k / b_0 loses 2^-1075 / |b_0|^2; next to X = 1, |b_0| <= e^{-lambda / M} (1 + s^2 (lambda / M)^2)."""
    places, shift, n, w = 2, 0.02, 300, 2.0
    found = kernel.rays(packed_round(places, shift), n, w, 10.0, -30.0)
    assert found is not None
    u = np.array(found["u"])
    rate = np.exp(u)
    log_none = -rate / places + np.log1p((shift * rate / places) ** 2)
    log_likely = n * u - rate - gammaln(n + 1)
    lost = -1075 * math.log(2) - 2 * log_none - w * u + log_likely + math.log(places * found["step"])
    assert max(lost) <= found["log_underflow"][0]


def test_s_42_points_whose_exponential_underflows():
    """S-42: half of Gamma(690) is where e^{-x} may be 0, and phi(0) would be 1 + 9e-7; Gamma(400) ends before."""
    assert kernel.rays(packed_round(2, 0.5), 692, 2.0, 10.0, -30.0) is None
    found = kernel.rays(packed_round(2, 0.5), 402, 2.0, 10.0, -30.0)
    assert max(found["error"]) < 1e-9
