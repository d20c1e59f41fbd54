"""Random mixtures of mechanisms against the oracle: 0 false bounds.

    python studies/mechanisms_oracle.py [--count 2000] [--seed 1]

Each mixture has black boxes, discrete Gaussian, Laplace and Gaussian releases with group sizes of their own; delta at a
random epsilon is compared with tests/oracle/known_losses.py. Everything is seeded. The exit status is 0 only if no
bound is false.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from pathlib import Path
from typing import Any

from mpmath import mpf

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import groupdp
from oracle import known_losses as oracle


def mixture(chance: random.Random) -> tuple[list[tuple[Any, int]], dict[str, Any]]:
    """A run of pairs (mechanism, group size), and the same for the oracle."""
    run: list[tuple[Any, int]] = []
    laws, shifts, mu = [], [], 0.0
    for _ in range(chance.randint(0, 2)):
        epsilon, delta = math.exp(chance.uniform(-4.0, 0.5)), chance.choice([0.0, 1e-9, 1e-4])
        size, person = chance.randint(1, 3), chance.random() < 0.5
        run.append((groupdp.ApproximateDP(epsilon, delta, per_person=person), size))
        laws.append(oracle.black_box(*oracle.group_of_black_boxes(epsilon, delta, 1 if person else size)))
    if chance.random() < 0.4:
        sigma, size = chance.uniform(0.6, 5.0), chance.randint(1, 4)
        run.append((groupdp.DiscreteGaussianRelease(sigma), size))
        laws.append(oracle.discrete_gaussian(sigma, size))
    if chance.random() < 0.6:
        noise, size = math.exp(chance.uniform(-0.5, 2.5)), chance.randint(1, 4)
        run.append((groupdp.GaussianRelease(noise), size))
        mu = size / noise
    # A Laplace mechanism beside a Gaussian is an integral for every atom: not beside many atoms.
    if not run or (len(laws) <= 1 and chance.random() < 0.5):
        noise, size = math.exp(chance.uniform(0.0, 3.0)), chance.randint(1, 3)
        run.append((groupdp.LaplaceRelease(noise), size))
        shifts.append(size / noise)
    return run, {"laws": laws, "shifts": shifts, "mu": mu}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    false, declined, widest, count = 0, 0, 0.0, 0
    for number in range(options.count):
        run, exact = mixture(chance)
        epsilon = chance.choice([0.0, 0.1, 0.5, 1.0, 2.0])
        value = oracle.delta(epsilon, **exact)
        try:
            found = groupdp.delta(run, epsilon=epsilon)
        except groupdp.LimitExceeded as error:
            declined += 1
            print(f"{number}: declined: {error}")
            continue
        count += 1
        # The oracle has 15 digits of sums of outcomes above 1e-40.
        room = mpf(10) ** -13 * value + mpf(10) ** -30
        if not mpf(found.lower) - room <= value <= mpf(found.upper) + room:
            false += 1
            print(f"{number}: FALSE: {run} at epsilon {epsilon}: {float(value)} is not in {found!r}")
        if value > mpf(10) ** -12:
            widest = max(widest, (found.upper - found.lower) / found.upper)
    print(f"{count} answered, {declined} declined, {false} false; widest relative bracket above 1e-12: {widest:.2e}")
    return 1 if false else 0


if __name__ == "__main__":
    sys.exit(main())
