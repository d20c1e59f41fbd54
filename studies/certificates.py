"""Certificates at full size: every golden epsilon, and a thousand random runs, certified and verified.

    python studies/certificates.py [--runs 1000] [--seed 1] [--seconds 30] [--longest 120] [--first 0] [--no-golden]

Golden epsilons (tests/data/epsilon.json and pairs.json) are claimed to 1e-9 relatively and must be verified; the same
claims moved past the truth by 1e-9 must not be (1e-7 for the envelope, of which 8 digits are known). Random runs are
certified with the bounds that `groupdp.epsilon` gives, over every sampling and every adjacency it has: none may be
refuted; those that stay undecided are printed with what was missing. Where the checker proves less than
`groupdp.epsilon` says, the certificate claims a wider interval: its widths are summed up. A run that takes longer than
`--longest` seconds, bounds included, is given up. Exit status 1 if something is wrong. Every run is made from the seed
and its number alone, so one of them can be asked again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
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


def random_sampling(source: random.Random) -> Any:
    """Any of the samplings there are."""
    size = int(10 ** source.uniform(2, 6))
    batch = max(1, int(size * 10 ** source.uniform(-3, -0.3)))
    rate = 10 ** source.uniform(-4, -0.3)
    kind = source.choice(["poisson"] * 3 + ["fixed batch"] * 2 + ["sources", "truncated", "shuffled", "order", "balls"])
    if kind == "poisson":
        return groupdp.PoissonSampling(rate=rate)
    if kind == "fixed batch":
        return groupdp.FixedBatchSampling(batch_size=batch, dataset_size=size)
    if kind == "sources":
        return groupdp.PoissonSources(rates={name: 10 ** source.uniform(-4, -0.3) for name in ("a", "b")})
    if kind == "truncated":
        size = min(size, 20_000)
        largest = max(1, round(size * rate * source.uniform(0.8, 1.6)))
        return groupdp.TruncatedPoissonSampling(rate=rate, largest_batch=largest, dataset_size=size)
    if kind == "shuffled":
        shuffled = source.choice([groupdp.ShuffledSampling, groupdp.ShuffledOnceSampling])
        return shuffled(batch_size=batch, dataset_size=size)
    if kind == "order":
        alone = source.random() < 0.3
        return groupdp.FixedOrderSampling(batch_size=batch, dataset_size=size, one_per_batch=alone)
    return groupdp.BallsInBinsSampling(batches=int(10 ** source.uniform(0.3, 3)))


def random_phase(source: random.Random, sampling: Any) -> groupdp.DPSGD:
    noise, steps = round(10 ** source.uniform(-0.4, 1.2), 3), int(10 ** source.uniform(0, 5))
    return groupdp.DPSGD(sampling=sampling, noise_multiplier=noise, steps=steps)


def random_question(seed: int, number: int) -> tuple[Any, dict[str, Any]]:
    """A run and what is asked about it, from the seed and its number alone."""
    source = random.Random(f"{seed}-{number}")
    sampling = random_sampling(source)
    run = [random_phase(source, sampling) for _ in range(1 if source.random() < 0.8 else 2)]
    size = int(10 ** source.uniform(0, 1.8))
    asked: dict[str, Any] = {"delta": 10.0 ** -source.choice([3, 5, 6, 8, 12, 30, 100])}
    asked["adjacency"] = source.choice([name for name in sampling.adjacencies if name != "exchange"])
    if asked["adjacency"] == "add-and-remove":  # every split is proved
        size = min(size, 4)
    sources = isinstance(sampling, groupdp.PoissonSources)
    asked["group_size"] = {"a": size, "b": source.randint(0, size)} if sources else size
    if "exchange" in sampling.adjacencies and not sources and source.random() < 0.15:
        asked = {"delta": asked["delta"], "removed": size, "added": source.randint(1, 2 * size)}
    return run, asked


def give_up(*_: Any) -> None:
    """The alarm's answer."""
    raise TimeoutError


def random_runs(first: int, count: int, seed: int, seconds: float, longest: int) -> int:
    """Prints the outcomes, and every run that is not verified; how many were refuted."""
    outcomes: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    times, widths = [], []
    signal.signal(signal.SIGALRM, give_up)
    for number in range(first, first + count):
        run, asked = random_question(seed, number)
        started = time.process_time()
        try:
            signal.alarm(longest)
            made = certify(run, **asked, seconds=seconds)
            verdict = made.verdict
        except (TimeoutError, SystemError):  # the latter where the alarm rings inside a compiled integral
            outcomes["too long"] += 1
            print(f"{number}: {run} {asked}: given up after {longest} s", flush=True)
            continue
        except groupdp.InvalidArgument:
            outcomes["no such question"] += 1  # a group larger than its dataset
            continue
        except groupdp.LimitExceeded:
            outcomes["no bounds"] += 1
            continue
        finally:
            signal.alarm(0)
        times.append(time.process_time() - started)
        outcomes[verdict.outcome] += 1
        if verdict.outcome == "verified" and any(part.get("method") for part in made.document["hints"].values()):
            widths.append(made.width)
        if verdict.outcome != "verified":
            kinds[f"{verdict.outcome} {run[0].sampling.name}"] += 1
            print(f"{number}: {run} {asked}: {verdict.outcome}, {verdict.reason}; {verdict.details}", flush=True)
        if (number - first) % 50 == 49:
            print(f"after {number - first + 1}: {dict(outcomes)}", flush=True)
    times.sort()
    print(f"random: {dict(outcomes)}; seconds to certify: median {times[len(times) // 2]:.2f}, most {times[-1]:.2f}")
    print(f"not verified: {dict(kinds)}")
    widths.sort()
    if widths:
        print(f"by a lattice: {len(widths)}; widths: median {widths[len(widths) // 2]:.1e}, most {widths[-1]:.1e}")
    return outcomes["refuted"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--longest", type=int, default=120)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--no-golden", action="store_true")
    options = parser.parse_args()
    wrong = 0 if options.no_golden else golden_cases()
    if options.runs:
        wrong += random_runs(options.first, options.runs, options.seed, options.seconds, options.longest)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
