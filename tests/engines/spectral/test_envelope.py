"""Several rounds of one envelope in the kernel, beside the definition of its loss, the oracle and the lattice engine
(docs/internals/numerics.md, S-110 to S-116)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from groupdp import LimitExceeded
from groupdp.engines import lattice, spectral
from groupdp.engines.spectral import packed
from groupdp.pairs import SubstitutionEnvelope
from groupdp.samplings.sized_batches import _envelope
from kernel_inspect import kernel
from oracle import envelope as oracle

WHOLE = [0.0, 0.0, math.inf, math.inf]
#: Batch, dataset, group, noise.
LAWS = [(100, 10_000, 1, 1.0), (500, 5_000, 2, 2.0), (10, 10_000, 3, 2.5), (300, 1_000, 4, 3.0)]


def rounds(batch: int, dataset: int, group: int, noise: float, times: int) -> tuple[tuple[SubstitutionEnvelope, int]]:
    return ((_envelope(batch, dataset, group, noise), times),)


class Law:
    """S-110's definition on a grid of outcomes, 20 points of Gauss and Legendre's rule between kinks and grid lines."""

    def __init__(self, batch: int, dataset: int, group: int, noise: float) -> None:
        side = _envelope(batch, dataset, group, noise).side
        self.h, self.mu = side.probabilities, side.shifts
        edges = np.concatenate((np.arange(0.5 * self.mu[1], self.mu[-1] + 12.0, 0.02), 0.5 * self.mu[1:]))
        edges = np.unique(np.concatenate((edges, self.kinks(np.sort(edges)))))
        x, w = np.polynomial.legendre.leggauss(20)
        middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
        u = (middle[:, None] + half[:, None] * x).ravel()
        weight = (half[:, None] * w).ravel() * np.exp(-0.5 * u * u) / math.sqrt(2.0 * math.pi)
        loss = self.losses(u)
        positive = loss > 0.0
        self.loss, self.mass = loss[positive], (self.h[:, None] * weight)[positive]

    def log_alpha(self, u: np.ndarray) -> np.ndarray:
        """The largest over all sets of components: those with the largest ratios, one more at a time."""
        ratio = np.exp(self.mu[1:, None] * (u - 0.5 * self.mu[1:, None]))
        order = np.argsort(-ratio, axis=0)
        h, r = self.h[1:][order], np.take_along_axis(ratio, order, axis=0)
        sums = (self.h[0] + np.cumsum(h * r, axis=0)) / (self.h[0] + np.cumsum(h, axis=0))
        return np.log(np.maximum(sums.max(axis=0), 1.0))

    def losses(self, u: np.ndarray) -> np.ndarray:
        own = self.mu[:, None] * (u - 0.5 * self.mu[:, None])
        own[0] = np.inf
        return np.minimum(self.log_alpha(u), own)

    def kinks(self, edges: np.ndarray) -> np.ndarray:
        """Where a component's own loss crosses log alpha, by bisection."""
        found = []
        for m in self.mu[1:]:
            gap = m * (edges - 0.5 * m) - self.log_alpha(edges)
            for j in np.flatnonzero((gap[1:] > 1e-13) != (gap[:-1] > 1e-13)):
                low, high, sign = edges[j], edges[j + 1], gap[j + 1] > 1e-13
                for _ in range(60):
                    middle = 0.5 * (low + high)
                    above = m * (middle - 0.5 * m) - self.log_alpha(np.array([middle]))[0] > 1e-13
                    low, high = (low, middle) if above == sign else (middle, high)
                found.append(high)
        return np.array(found)

    def tails(self, x: float) -> tuple[float, float]:
        beyond = self.mass * (self.loss > x)
        return float(beyond @ np.exp(self.loss)), float(beyond.sum())

    def beyond(self, low: float, high: float) -> np.ndarray:
        """The share of each loss that is beyond two borders."""
        if high == math.inf:
            return np.zeros_like(self.loss)
        y = np.clip((self.loss - low) / (high - low), 0.0, 1.0)
        return y**6 * (462 - y * (1980 - y * (3465 - y * (3080 - y * (1386 - 252 * y)))))

    def large(self, z: complex, first: float, last: float, near: float = math.inf, far: float = math.inf) -> complex:
        share = self.beyond(first, last) - self.beyond(near, far)
        return complex(np.sum(self.mass * share * np.exp((1.0 + z) * self.loss)))

    def small(self, z: complex, first: float, last: float) -> complex:
        both = np.sum(self.mass * (np.exp((1.0 + z) * self.loss) + np.exp(-z * self.loss)))
        return complex(both) - self.large(z, first, last)

    def whole(self, z: complex) -> complex:
        return complex(np.sum(self.mass * (np.exp((1.0 + z) * self.loss) + np.exp(-z * self.loss))))


@pytest.mark.parametrize("law", LAWS)
def test_s_110_the_loss_of_an_outcome_has_the_curve_of_the_envelope(law):
    """S-110: P(L > x) and Q(L > x) of the definition are the oracle's closed forms, and the atom has the rest."""
    own, known = Law(*law), oracle.Envelope(*law[:3], law[3])
    for x in (1e-4, 0.1, 1.0, 4.0):
        p, q = (float(tail[0]) for tail in known.tails(np.array([x])))
        found = own.tails(x)
        # a grid's cell is wrong where x is inside of it
        assert found == pytest.approx((p, q), rel=3e-2)
    found = kernel.envelope_sums(packed(rounds(*law, 2)), WHOLE, 0.0, 0.0, -40.0)
    assert found["atom"] == pytest.approx(own.h[0] * (2.0 * ndtr(0.5 * own.mu[1]) - 1.0), rel=1e-13)
    assert found["atom"] + found["large"] == pytest.approx(1.0, abs=1e-12)
    assert own.whole(0.0).real == pytest.approx(found["large"], rel=1e-12)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("c", "s"), [(0.7, 0.0), (1.5, 30.0), (0.3, 400.0)])
def test_s_111_sums_over_the_nodes(law, c, s):
    """S-111: both sums are within their bounds of the definition's, with coarse rules and with fine ones."""
    own, z = Law(*law), complex(c, s)
    for borders in (WHOLE, [0.3, 1.0, math.inf, math.inf]):
        for goal in (-4.0, -36.0):
            found = kernel.envelope_sums(packed(rounds(*law, 2)), borders, c, s, goal)
            if borders[1] > 0.0:
                truth = {"small": own.small(z, 0.3, 1.0), "large": own.large(z, 0.3, 1.0)}
            else:
                truth = {"small": 0.0, "large": own.whole(z)}
            for name, value in truth.items():
                off = abs(complex(found[name], found[f"{name}_turned"]) - value)
                sizes = own.whole(c).real
                assert off <= math.exp(found[f"log_{name}_error"]) + 3e-12 * sizes * (1.0 + s)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("c", [0.5, 2.0])
@pytest.mark.parametrize("borders", [WHOLE, [0.3, 1.0, math.inf, math.inf], [0.3, 1.0, 1.5, 2.0]])
def test_s_113_the_characteristic_function_falls_as_stated(law, c, borders):
    """S-113: |G_l(c + is)| is below the bound at every frequency, and the bound falls by orders of magnitude."""
    own, bounds = Law(*law), []
    for s in (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0):
        found = kernel.envelope_sums(packed(rounds(*law, 2)), borders, c, s, -30.0)
        truth = own.large(complex(c, s), *borders) if borders[1] > 0.0 else own.whole(complex(c, s))
        assert abs(truth) <= found["decay"] + 1e-11 * own.whole(c).real
        bounds.append(found["decay"])
    assert bounds[-1] < 1e-2 * bounds[0]


def test_s_114_sums_of_exponentials():
    """S-114: as stated, wherever the positions are."""
    random = np.random.default_rng(114)
    for samples in (64, 512):
        positions = np.concatenate((random.uniform(-3.0, 3.0, 40), [0.0, 0.5, 1.0 / (16 * samples)]))
        weights = random.exponential(1.0, 43)
        both = kernel.exponentials(packed(rounds(*LAWS[0], 2)), [*positions, *weights], samples)
        truth = np.exp(2j * np.pi * np.outer(np.arange(samples + 1), positions)) @ weights
        for found in both:
            off = np.abs(np.array(found[: samples + 1]) + 1j * np.array(found[samples + 1 :]) - truth)
            assert off.max() <= 2.0 * 3e-13 * weights.sum()


def test_s_114_many_positions_next_to_each_other():
    """S-114: the error grows with the number of terms at one point of the grid by 2.2 U for each, and no faster."""
    random = np.random.default_rng(1140)
    positions, weights = 0.3 + 1e-7 * random.uniform(size=20_000), random.exponential(1.0, 20_000)
    both = kernel.exponentials(packed(rounds(*LAWS[0], 2)), [*positions, *weights], 64)
    truth = [
        complex(*(math.fsum(weights * part) for part in (np.cos(angle), np.sin(angle))))
        for angle in (2.0 * np.pi * j * positions for j in range(65))
    ]
    for found in both:
        off = np.abs(np.array(found[:65]) + 1j * np.array(found[65:]) - truth)
        assert off.max() <= 2.0 * (3e-13 + 2.2 * 2.0**-53 * 20_000) * weights.sum()


@pytest.mark.parametrize("first", [0.3, 0.9])
def test_s_111_shares_next_to_a_border(first):
    """S-111: what is beyond a border is right to its rounding, also where losses are next to the border's end."""
    own = Law(*LAWS[1])
    found = kernel.envelope_sums(packed(rounds(*LAWS[1], 2)), [0.0, 0.0, first, 1.0], 0.5, 0.0, -40.0)
    assert found["p_beyond"] == pytest.approx(own.large(0.0, first, 1.0).real, rel=1e-11)


@pytest.mark.parametrize("law", LAWS)
def test_s_115_one_round(law):
    """S-115: the oracle's profile."""
    known = oracle.Envelope(*law[:3], law[3])
    for epsilon in (1e-3, 0.2, 1.0, 3.0):
        value, error, _ = kernel.envelope_round(packed(rounds(*law, 2)), [], epsilon)
        assert value == pytest.approx(known.profile(epsilon), rel=1e-7)
        assert 0.0 < error < 1e-10 * value


@pytest.mark.parametrize(
    ("batch", "dataset", "group", "noise", "times", "delta"),
    [
        (100, 10_000, 1, 1.0, 2, 1e-6),
        (500, 5_000, 2, 2.0, 10, 1e-6),
        (100, 100_000, 1, 1.0, 50, 1e-8),
        (3_000, 10_000, 1, 3.0, 20, 1e-9),
        (50, 5_000, 2, 10.0, 20, 1e-5),
        (300, 1_000, 4, 4.0, 8, 1e-7),
    ],
)
def test_answers_agree_with_the_oracle(batch, dataset, group, noise, times, delta):
    """S-112, S-116: with small losses left out of the contour, large ones, or one round in closed form."""
    bounds = spectral.epsilon(rounds(batch, dataset, group, noise, times), log_delta=math.log(delta))
    truth = oracle.epsilon(oracle.Envelope(batch, dataset, group, noise), times, delta=delta)
    assert bounds.upper - bounds.lower <= 1e-8 * bounds.upper
    assert bounds.upper == pytest.approx(truth, rel=3e-8)


def test_random_answers_intersect_those_of_the_lattice():
    """S-110 to S-116: no bound is on the wrong side of the other engine's; most questions are answered, to 1e-8."""
    random, answered = np.random.default_rng(116), 0
    for _ in range(24):
        rate, group = 10.0 ** random.uniform(-3.5, -0.3), int(random.choice([1, 1, 2, 5]))
        dataset = int(10.0 / rate) + 50
        noise, times = float(np.exp(random.uniform(-0.3, 2.0))), int(np.exp(random.uniform(math.log(2), math.log(300))))
        composition = rounds(max(1, round(rate * dataset)), dataset, group, noise, times)
        log_delta = -float(random.uniform(10.0, 28.0))
        try:
            bounds = spectral.epsilon(composition, log_delta=log_delta)
        except LimitExceeded:
            continue
        answered += 1
        other = lattice.epsilon(composition, log_delta=log_delta)
        assert bounds.lower <= other.upper
        assert bounds.upper >= other.lower
        assert bounds.upper - bounds.lower <= 1.01e-8 * bounds.upper
        there = spectral.log_delta(composition, epsilon=bounds.upper)
        assert there.lower <= log_delta
        assert there.upper >= log_delta - 1e-4
    assert answered >= 12


def test_what_is_beside_an_envelope_is_left_to_the_lattice_engine():
    (part,) = rounds(100, 10_000, 1, 1.0, 2)
    for composition in ((part, (_envelope(100, 10_000, 1, 2.0), 3)), ((part[0], 1),)):
        with pytest.raises(LimitExceeded):
            spectral.epsilon(composition, log_delta=-12.0)
