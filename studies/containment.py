"""Thousands of extreme questions about trade-off functions, each against ball arithmetic.

    python studies/containment.py [questions] [seed]

The deep version of tests/containment: one round of random pairs at levels from 1e-300 to 1 - 2^-53, by half-lines and
by duality, and Gaussian mechanisms of up to 100 000 rounds by duality. Ends with status 1 if any bound is false.
"""

from __future__ import annotations

import math
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import flint
from flint import arb, fmpq

import groupdp
from containment.half_line_truth import ZERO, Coin, Side, Truth, exact, mixture_side, poisson_side
from containment.test_tradeoff_many_rounds import gaussian_rates
from containment.test_tradeoff_one_round import level
from groupdp.errors import LimitExceeded
from groupdp.tradeoff import TradeOff, trade_off


def is_false(bounds: groupdp.Bounds, truth: arb) -> bool:
    return bool(arb(bounds.lower) > truth or arb(bounds.upper) < truth)


def one_round(generator: random.Random) -> tuple[TradeOff, Coin, str]:
    adjacency = generator.choice(["add", "remove"])
    engine = "lattice" if generator.random() < 0.02 else "auto"
    side: Side
    if generator.random() < 0.5:
        rate, noise = 10.0 ** generator.uniform(-8.0, 0.0), 10.0 ** generator.uniform(-1.5, 2.0)
        size = generator.choice([1, 2, 3, 10])
        run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=rate), noise_multiplier=noise, steps=1)
        function = trade_off(run, group_size=size, adjacency=adjacency, engine=engine)
        side, name = poisson_side(size, rate, noise), f"{run} k={size} {adjacency} {engine}"
    else:
        shifts = [0.0] * generator.randint(0, 1) + [generator.uniform(0, 9) for _ in range(generator.randint(1, 5))]
        weights = [10.0 ** generator.uniform(-30.0, 0.0) for _ in shifts]
        law = [weight / math.fsum(weights) for weight in weights]
        noise = 10.0 ** generator.uniform(-1.0, 1.0)
        mixture = groupdp.MixtureOfGaussians(shifts, law, noise)
        function = trade_off(mixture, rounds=1, adjacency=adjacency, engine=engine)
        side, name = mixture_side(shifts, law, noise), f"{mixture} {adjacency} {engine}"
    coin: Coin = [(fmpq(1), side, ZERO)] if adjacency == "remove" else [(fmpq(1), ZERO, side)]
    return function, coin, name


def main(questions: int, seed: int) -> int:
    generator = random.Random(seed)
    false = declined = 0
    widest = 0.0
    for _ in range(questions):
        alpha = level(generator)
        if generator.random() < 0.3:
            steps = generator.choice([1, 10, 1000, 10**5])
            noise = math.sqrt(steps) * 10.0 ** generator.uniform(-1.0, 2.0)
            run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=1.0), noise_multiplier=noise, steps=steps)
            function, name = trade_off(run, group_size=1, adjacency="remove", engine="spectral"), str(run)
            with flint.ctx.workprec(300):
                truths = gaussian_rates(alpha, arb(steps).sqrt() / arb(exact(noise)))
        else:
            function, coin, name = one_round(generator)
            truths = Truth(coin).rates(exact(alpha))
        try:
            found = function.true_positive_rate(alpha), function.false_negative_rate(alpha)
        except LimitExceeded:
            declined += 1
            continue
        for bounds, truth in zip(found, truths, strict=True):
            if is_false(bounds, truth):
                false += 1
                print(f"FALSE: {name} at {alpha!r}: {bounds!r}, truth {truth.str(20)}")
            if bounds.upper > 1e-290 and "lattice" not in name:
                widest = max(widest, (bounds.upper - bounds.lower) / bounds.upper)
    print(f"{questions} questions: {false} false, {declined} declined, widest relative interval {widest:.2g}")
    return 1 if false else 0


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:]]
    sys.exit(main(*(numbers + [2000, 1][len(numbers) :])))
