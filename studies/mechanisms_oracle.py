"""Random mixtures of mechanisms against the oracle: 0 false bounds.

    python studies/mechanisms_oracle.py [--count 2000] [--seed 1] [--results FILE]

Each mixture has black boxes, discrete Gaussian, Laplace and Gaussian releases with group sizes of their own; delta at a
random epsilon is compared with tests/oracle/known_losses.py. Every mixture has a seed of its own, so that a study that
was stopped goes on where it was: what is in the file of results is not computed again. The exit status is 0 only if no
bound is false.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections import Counter
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


def compare(seed: int, number: int) -> dict[str, Any]:
    """One mixture: "true", "false" or "declined", and how wide the bounds are."""
    chance = random.Random(f"{seed} {number}")
    run, exact = mixture(chance)
    epsilon = chance.choice([0.0, 0.1, 0.5, 1.0, 2.0])
    result: dict[str, Any] = {"seed": seed, "number": number, "run": repr(run), "epsilon": epsilon}
    try:
        found = groupdp.delta(run, epsilon=epsilon)
    except groupdp.LimitExceeded as error:
        return {**result, "outcome": "declined", "reason": str(error)}
    value = oracle.delta(epsilon, **exact)
    # The oracle has 15 digits of sums of outcomes above 1e-40.
    room = mpf(10) ** -13 * value + mpf(10) ** -30
    holds = mpf(found.lower) - room <= value <= mpf(found.upper) + room
    width = (found.upper - found.lower) / found.upper if value > mpf(10) ** -12 else 0.0
    sides = {"lower": found.lower, "exact": float(value), "upper": found.upper}
    return {**result, "outcome": "true" if holds else "false", "width": width, **sides}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, default=Path("build/mechanisms_oracle.jsonl"))
    options = parser.parse_args()
    kept = options.results.read_text(encoding="utf-8").split("\n")[:-1] if options.results.exists() else []
    results = {one["number"]: one for one in map(json.loads, kept) if one["seed"] == options.seed}
    options.results.parent.mkdir(exist_ok=True)
    with options.results.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in kept)  # without a last line that was cut off
        for number in range(options.count):
            if number not in results:
                results[number] = compare(options.seed, number)
                file.write(json.dumps(results[number]) + "\n")
                file.flush()
            if results[number]["outcome"] != "true":
                print(results[number])
    outcomes = Counter(one["outcome"] for one in results.values())
    widest = max(one.get("width", 0.0) for one in results.values())
    print(f"{dict(outcomes)}; widest relative bracket above 1e-12: {widest:.2e}")
    return 1 if outcomes["false"] else 0


if __name__ == "__main__":
    sys.exit(main())
