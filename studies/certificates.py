"""Certificates at full size: every golden epsilon, and a thousand random runs, certified and verified.

    python studies/certificates.py [--runs 1000] [--seed 1] [--seconds 30] [--first 0]

Golden epsilons (tests/data/epsilon.json and pairs.json) are claimed to 1e-9 relatively and must be verified; the same
claims moved past the truth by 1e-9 must not be (1e-7 for the envelope, of which 8 digits are known). Random runs are
certified with the bounds that `groupdp.epsilon` gives: none may be refuted; how many stay undecided is printed. Exit
status 1 if something is wrong. Every run is made from the seed and its number alone, so one of them can be asked again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import groupdp
from certificate_claims import claim, golden, margin, named
from groupdp.certificate.checker import verify
from groupdp.certificate.writer import certificate_of, certify


def golden_cases() -> int:
    """Prints the times; how many went wrong."""
    wrong, times = 0, []
    for truth in golden():
        by = margin(truth)
        made = certificate_of(claim(truth, f"-{by}", by))
        started = time.process_time()
        outcomes = [verify(made.text).outcome]
        times.append(time.process_time() - started)
        for lower, upper in (("-1", f"-{by}"), (by, "1")):
            outcomes.append(verify(json.dumps({**made.document, "claim": claim(truth, lower, upper)})).outcome)
        if outcomes != ["verified", "refuted", "refuted"]:
            wrong += 1
            print(f"{named(truth)}: {outcomes}", flush=True)
    times.sort()
    middle, most = times[len(times) // 2], times[-1]
    print(f"golden: {len(times)} claims, {wrong} wrong; seconds to verify: median {middle:.2f}, most {most:.2f}")
    return wrong


def random_phase(source: random.Random) -> groupdp.DPSGD:
    sampling: Any
    if source.random() < 0.6:
        sampling = groupdp.PoissonSampling(rate=10 ** source.uniform(-4, -0.3))
    else:
        size = int(10 ** source.uniform(2, 6))
        batch = max(1, int(size * 10 ** source.uniform(-3, -0.3)))
        sampling = groupdp.FixedBatchSampling(batch_size=batch, dataset_size=size)
    noise, steps = round(10 ** source.uniform(-0.4, 1.2), 3), int(10 ** source.uniform(0, 5))
    return groupdp.DPSGD(sampling=sampling, noise_multiplier=noise, steps=steps)


def random_runs(first: int, count: int, seed: int, seconds: float) -> int:
    """Prints the outcomes; how many were refuted."""
    outcomes: Counter[str] = Counter()
    times = []
    for number in range(first, first + count):
        source = random.Random(f"{seed}-{number}")
        run = [random_phase(source) for _ in range(1 if source.random() < 0.8 else 2)]
        size, delta = int(10 ** source.uniform(0, 1.8)), 10.0 ** -source.choice([3, 5, 6, 8, 12, 30, 100])
        adjacency = source.choice(["add", "remove", "add-or-remove"])
        started = time.process_time()
        try:
            verdict = certify(run, delta=delta, group_size=size, adjacency=adjacency, seconds=seconds).verdict
        except groupdp.LimitExceeded:
            outcomes["no bounds"] += 1
            continue
        times.append(time.process_time() - started)
        outcomes[verdict.outcome] += 1
        if verdict.outcome == "refuted":
            print(f"{number}: {run} k={size} delta={delta} {adjacency}: {verdict}", flush=True)
    times.sort()
    print(f"random: {dict(outcomes)}; seconds to certify: median {times[len(times) // 2]:.2f}, most {times[-1]:.2f}")
    return outcomes["refuted"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    wrong = golden_cases()
    wrong += random_runs(options.first, options.runs, options.seed, options.seconds) if options.runs else 0
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
