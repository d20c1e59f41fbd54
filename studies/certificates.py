"""Certificates at full size: every golden epsilon, groups of a thousand and a thousand random runs are certified.

    python studies/certificates.py [--runs 1000] [--seed 1] [--first 0] [--seconds 30] [--longest 120] [--jobs 1]
                                   [--results FILE] [--no-golden]

Golden epsilons (tests/golden/epsilon.json and pairs.json) are claimed to 1e-9 relatively and must be verified; the same
claims moved past the truth by 1e-9 must not be (1e-7 for the envelope, of which 8 digits are known). Random runs are
certified with the bounds that `groupdp.epsilon` gives, over every sampling and every adjacency it has: none may be
refuted; those that stay undecided are printed with what was missing. Where the checker proves less than
`groupdp.epsilon` says, the certificate claims a wider interval: its widths are summed up. A run that takes longer than
`--longest` seconds of its processor, bounds included, is given up. Exit status 1 if something is wrong. Every run is
made from the seed and its number alone, so one of them can be asked again; with `--results` each is written down as it
ends, as a line of JSON, and those in the file are not asked again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "shared"))

import groupdp
from certificate_claims import claim, golden, margin, named
from groupdp.certificate.checker import verify
from groupdp.certificate.prover import certificate_of, certify


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
    print(f"golden: {len(times)} claims, {wrong} wrong; seconds to verify: {middle_and_most(times, '.2f')}")
    return wrong


def large_groups() -> int:
    """A thousand examples in a thousand batches must be verified with the upper side of `epsilon`; how many are not."""
    wrong = 0
    for sampling, noise, adjacency in (
        (groupdp.BallsInBinsSampling(batches=1000), 2.0, "remove"),
        (groupdp.ShuffledSampling(batch_size=100, dataset_size=100_000), 3.0, "substitute"),
        (groupdp.ShuffledOnceSampling(batch_size=100, dataset_size=100_050), 30.0, "zero-out"),
    ):
        run = groupdp.DPSGD(sampling, noise_multiplier=noise, steps=2000)
        asked: dict[str, Any] = {"delta": 1e-6, "group_size": 1000, "adjacency": adjacency}
        made = certify(run, **asked)
        claimed = float(made.document["claim"]["epsilon"]["upper"])
        # Where an upper side alone can be claimed (C-30), the claim keeps a little room.
        right = made.verdict.outcome == "verified" and claimed <= groupdp.epsilon(run, **asked).upper * (1 + 1e-8)
        print(f"{sampling.name}, 1000 examples: {made.verdict.outcome}, at most {claimed}", flush=True)
        wrong += not right
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
    """The timer's answer."""
    raise TimeoutError


def method(hints: dict[str, Any]) -> str:
    """How it was proved: the slowest method of any pair of datasets."""
    found = {part.get("method") or ("contour" if part["points"] else "Chernoff") for part in hints.values()}
    return next((name for name in ("lattice", "contour", "Chernoff") if name in found), "closed form")


def outcome_of(number: int, seed: int, seconds: float, longest: int) -> dict[str, Any]:
    """One random run, certified: what became of it, as it is written down."""
    run, asked = random_question(seed, number)
    found: dict[str, Any] = {"seed": seed, "number": number, "sampling": run[0].sampling.name}
    signal.signal(signal.SIGPROF, give_up)
    started = time.process_time()
    try:
        signal.setitimer(signal.ITIMER_PROF, longest)
        made = certify(run, **asked, seconds=seconds)
        found |= {
            "outcome": made.verdict.outcome,
            "method": method(made.document["hints"]),
            "width": made.relative_width,
        }
        if made.verdict.outcome != "verified":
            found["missing"] = [made.verdict.reason, *made.verdict.details]
    except (TimeoutError, SystemError):  # the latter where the timer rings inside a compiled integral
        found["outcome"] = "too long"
    except groupdp.InvalidArgument:  # a group larger than its dataset
        found["outcome"] = "no such question"
    except groupdp.LimitExceeded as error:
        found |= {"outcome": "no bounds", "missing": [str(error)]}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    if found["outcome"] not in ("verified", "no such question"):
        found["asked"] = f"{run} {asked}"
    return {**found, "seconds": round(time.process_time() - started, 2)}


def told(one: dict[str, Any]) -> str:
    """A line about a run, and more about one that is not verified."""
    line = f"{one['number']}: {one['outcome']}, {one['seconds']:.1f} s, {one.get('method', 'nothing')}"
    line += f", width {one['width']:.1e}" if "width" in one else ""
    return "\n    ".join([line, *([one["asked"]] if "asked" in one else []), *one.get("missing", [])])


def random_runs(options: argparse.Namespace) -> int:
    """Prints the outcomes, and every run that is not verified; how many were refuted."""
    file = options.results
    lines = file.read_text().splitlines() if file is not None and file.exists() else []
    asked = range(options.first, options.first + options.runs)
    known = [one for one in map(json.loads, lines) if one["seed"] == options.seed and one["number"] in asked]
    left = sorted(set(asked) - {one["number"] for one in known})
    ask = partial(outcome_of, seed=options.seed, seconds=options.seconds, longest=options.longest)
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for one in pool.imap_unordered(ask, left):
            known.append(one)
            print(told(one), flush=True)
            if file is not None:
                with file.open("a") as out:
                    out.write(json.dumps(one) + "\n")
    return summed_up(known)


def summed_up(known: list[dict[str, Any]]) -> int:
    """Counts, times and widths of all runs; how many were refuted."""
    outcomes = Counter(one["outcome"] for one in known)
    times = sorted(one["seconds"] for one in known if "method" in one) or [0.0]
    print(f"random: {dict(outcomes)}; seconds to certify: {middle_and_most(times, '.2f')}")
    others = Counter(f"{one['outcome']}, {one['sampling']}" for one in known if one["outcome"] != "verified")
    print(f"not verified: {dict(others)}")
    verified = [one for one in known if one["outcome"] == "verified"]
    for name, number in Counter(one["method"] for one in verified).items():
        widths = sorted(one["width"] for one in verified if one["method"] == name)
        print(f"by {name}: {number}; relative widths: {middle_and_most(widths, '.1e')}")
    return outcomes["refuted"]


def middle_and_most(values: list[float], spelled: str) -> str:
    """Of sorted values."""
    return f"median {values[len(values) // 2]:{spelled}}, most {values[-1]:{spelled}}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--longest", type=int, default=120)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--no-golden", action="store_true")
    options = parser.parse_args()
    wrong = large_groups() + (0 if options.no_golden else golden_cases())
    return 1 if wrong + random_runs(options) else 0


if __name__ == "__main__":
    sys.exit(main())
