"""Both engines on thousands of random runs: their intervals must always intersect.

    python studies/engines_agree.py [--runs 2000] [--seed 1]

Prints how many runs were checked, how many an engine declined, the widest interval of each, and every disagreement.
Exit status 1 if there is one.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

import groupdp


def random_question(rng: random.Random) -> tuple[groupdp.DPSGD, dict[str, object]]:
    """A run and a question over the whole range that both engines accept."""
    steps = round(10 ** rng.uniform(0.3, 4.5))
    noise = 10 ** rng.uniform(-0.25, 1.7)
    sampling: groupdp.PoissonSampling | groupdp.FixedBatchSampling
    if rng.random() < 0.6:
        sampling = groupdp.PoissonSampling(rate=10 ** rng.uniform(-3.5, 0.0))
    else:
        batch = rng.randint(1, 300)
        size = round(batch * 10 ** rng.uniform(0.05, 3.0)) + 20
        sampling = groupdp.FixedBatchSampling(batch_size=batch, dataset_size=size)
        noise *= 2.0
    run = groupdp.DPSGD(sampling=sampling, noise_multiplier=noise, steps=steps)
    question: dict[str, object] = {
        "delta": 10 ** rng.uniform(-20.0, -1.0),
        "group_size": rng.randint(1, 16),
        "adjacency": rng.choice(["add", "remove"]),
    }
    return run, question


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    checked = declined = disagreements = 0
    widest = {"spectral": 0.0, "lattice": 0.0}
    started = time.monotonic()
    for number in range(1, arguments.runs + 1):
        run, question = random_question(rng)
        try:
            answers = {
                engine: groupdp.epsilon(run, engine=engine, tolerance=1e-5, **question)  # type: ignore[arg-type]
                for engine in ("spectral", "lattice")
            }
        except groupdp.LimitExceeded:
            declined += 1
            continue
        checked += 1
        for engine, bounds in answers.items():
            widest[engine] = max(widest[engine], bounds.relative_width)
        if not answers["spectral"].intersects(answers["lattice"]):
            disagreements += 1
            print(f"DISAGREE: {run} {question} {answers}", flush=True)
        if number % 100 == 0:
            print(f"{number} runs, {checked} checked, {time.monotonic() - started:.0f} s", flush=True)
    print(
        f"{checked} runs checked ({declined} declined by an engine), {disagreements} disagreements; widest interval, "
        f"relative to max(1, epsilon): spectral {widest['spectral']:.2g}, lattice {widest['lattice']:.2g}"
    )
    sys.exit(1 if disagreements else 0)


if __name__ == "__main__":
    main()
