"""Tightness, watched: real DP-SGD against the certified curve, at full size.

    python studies/audit_tightness.py [--trials 1000000] [--json audit.json]

1. Both samplings, k in {1, 4, 9}, three lengths, two noise levels: the measured interval of delta against the certified
   value, over all epsilons at once; and delta = 1e-6 by importance sampling.
2. The negative controls: wrong claims are rejected at 99.9 % confidence, the right ones beside them are not.
3. False alarms of true claims over many seeds, against the stated rate.

Everything is seeded. The exit status is 0 only if all of it holds.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "shared"))

import groupdp
from broken_trainers import ReusedBatchSampler
from groupdp.audit import (
    TrainingPhase,
    attack_scores,
    check_claim,
    claimed_curve,
    importance_delta,
    measured_curve,
    worst_case,
)
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.samplings import FixedBatchSampling, PoissonSampling, Sampling

SAMPLINGS: dict[str, Sampling] = {
    "poisson": PoissonSampling(rate=0.1),
    "fixed": FixedBatchSampling(batch_size=5, dataset_size=20),
}


def runs() -> Iterator[tuple[str, int, DPSGD]]:
    """The runs of part 1; noise such that the group's mean shift is `level` standard deviations."""
    for name, sampling in SAMPLINGS.items():
        for group_size in (1, 4, 9):
            shift = group_size * 0.1 if name == "poisson" else 2.0 * group_size * 5 / (20 + group_size)
            for steps in (1, 10, 100):
                for level in (0.7, 2.0):
                    noise = max(0.7 / level, round(shift * math.sqrt(steps) / level, 2))
                    yield name, group_size, DPSGD(sampling=sampling, noise_multiplier=noise, steps=steps)


def tightness(trials: int, samples: int) -> list[dict[str, Any]]:
    """Part 1."""
    rows = []
    print("sampling     k  steps  noise  seconds  resolved  interval at epsilon 0  agree  delta 1e-6 by sampling")
    for name, group_size, run in runs():
        started = time.monotonic()
        budget = max(50_000, trials // run.steps)
        scores = attack_scores(worst_case(run, group_size=group_size), trials=budget, seed=2024)
        elapsed = time.monotonic() - started
        claim = claimed_curve(run, group_size=group_size, smallest_delta=1.0 / budget)
        measured = measured_curve(scores, claim, confidence=0.9999)
        agree = all(
            one.consistent_with(claim.lower_deltas[one.direction], claim.deltas[one.direction]) for one in measured
        )
        resolved = [
            (one.upper[i] - one.lower[i]) / one.estimate[i]
            for one in measured
            for i in range(len(one.epsilons))
            if one.resolved[i]
        ]
        epsilon = groupdp.epsilon(run, delta=1e-6, group_size=group_size)
        direction = epsilon.provenance.adjacency
        assert direction is not None
        certified = groupdp.delta(run, epsilon=epsilon.upper, group_size=group_size, adjacency=direction)
        estimate = importance_delta(
            run,
            group_size=group_size,
            epsilon=epsilon.upper,
            direction=direction,
            samples=max(samples // 4, samples // run.steps),
            confidence=0.9999,
            seed=2024,
        )
        covered = estimate.lower <= certified.upper and certified.lower <= estimate.upper
        error = estimate.delta / certified.upper - 1.0
        rows.append(
            {
                "sampling": name,
                "group_size": group_size,
                "steps": run.steps,
                "noise_multiplier": run.noise_multiplier,
                "trials": budget,
                "seconds": elapsed,
                "resolved": len(resolved),
                "agree": agree,
                "importance_error": error,
                "importance_covered": covered,
                "ok": bool(agree and covered and abs(error) < 0.01 and resolved),
            }
        )
        width = resolved[0] if resolved else math.inf
        print(
            f"{name:8} {group_size:5d} {run.steps:6d} {run.noise_multiplier:6.2f} {elapsed:8.2f} "
            f"{len(resolved):6d}/{sum(len(one.epsilons) for one in measured)} +-{width / 2:14.2%} "
            f"{'yes' if agree else 'NO':>12} {error:+12.3%} {'covered' if covered else 'NOT COVERED'}",
            flush=True,
        )
    return rows


def controls(trials: int) -> list[dict[str, Any]]:
    """Part 2: (name, what really trains, a wrong claim, a right one)."""
    steps = 40
    n, k, batch = 8, 1, 4
    fixed = DPSGD(sampling=FixedBatchSampling(batch_size=batch, dataset_size=n), noise_multiplier=8.0, steps=steps)
    weights = [math.comb(k, i) * math.comb(n, batch - i) / math.comb(n + k, batch) for i in range(k + 1)]
    halved = groupdp.MixtureOfGaussians([float(i) for i in range(k + 1)], weights, 8.0)
    small = DPSGD(sampling=FixedBatchSampling(batch_size=4, dataset_size=4), noise_multiplier=14.0, steps=steps)
    larger = DPSGD(sampling=FixedBatchSampling(batch_size=4, dataset_size=8), noise_multiplier=14.0, steps=steps)
    tenth = DPSGD(sampling=PoissonSampling(rate=0.1), noise_multiplier=2.0, steps=steps)
    fifth = DPSGD(sampling=PoissonSampling(rate=0.2), noise_multiplier=6.0, steps=steps)
    reused = (TrainingPhase(sampler=ReusedBatchSampler(batch_size=1), noise_multiplier=2.0, rounds=steps),)
    cases: list[tuple[str, Any, Any, Any, Any]] = [
        ("1 x Hypergeom", worst_case(fixed, group_size=1), None, claimed_curve(halved, rounds=steps), (fixed, 1)),
        ("population n + 2k", worst_case(small, group_size=4), None, claimed_curve(larger, group_size=4), (small, 4)),
        (
            "Poisson claim, one batch reused",
            worst_case(tenth, group_size=1, ordinary_examples=9),
            reused,
            claimed_curve(tenth, group_size=1),
            None,
        ),
        (
            "group of 1 for a group of 4",
            worst_case(fifth, group_size=4),
            None,
            claimed_curve(fifth, group_size=1),
            (fifth, 4),
        ),
    ]
    rows = []
    print("\nwrong claim                        rejected   measured delta   claimed   at epsilon   the right one")
    for name, instance, phases, wrong, right in cases:
        scores = attack_scores(instance, trials=trials, seed=2024, phases=phases)
        verdict = check_claim(scores, wrong, confidence=0.999)
        if right is None:  # the claim is right for a trainer that does what it declares
            scores, truth = attack_scores(instance, trials=trials, seed=2024), wrong
        else:
            truth = claimed_curve(right[0], group_size=right[1])
        spared = not check_claim(scores, truth, confidence=0.999).contradicted
        rows.append({"claim": name, "rejected": verdict.contradicted, "ok": verdict.contradicted and spared})
        print(
            f"{name:34} {'yes' if verdict.contradicted else 'NO':>8} {verdict.delta_lower:16.5f} "
            f"{verdict.claimed_delta:9.5f} {verdict.epsilon:12.3f} {'not rejected' if spared else 'REJECTED':>16}",
            flush=True,
        )
    return rows


def false_alarms(seeds: int) -> list[dict[str, Any]]:
    """Part 3."""
    rows = []
    print("\ntrue claim   confidence   false alarms   allowed rate   observed")
    for name, sampling in SAMPLINGS.items():
        run = DPSGD(sampling=sampling, noise_multiplier=4.0, steps=40)
        instance, claim = worst_case(run, group_size=4), claimed_curve(run, group_size=4)
        alarms = {0.8: 0, 0.95: 0, 0.999: 0}
        for seed in range(seeds):
            scores = attack_scores(instance, trials=1000, seed=seed)
            for confidence in alarms:
                alarms[confidence] += check_claim(scores, claim, confidence=confidence, seed=seed).contradicted
        for confidence, count in alarms.items():
            p_value = stats.binomtest(count, seeds, 1.0 - confidence, alternative="greater").pvalue
            rows.append({"sampling": name, "confidence": confidence, "alarms": count, "ok": bool(p_value > 1e-3)})
            print(
                f"{name:10} {confidence:12g} {count:8d}/{seeds} {1 - confidence:14.3f} {count / seeds:10.4f}",
                flush=True,
            )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--samples", type=int, default=4_000_000)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    results = {
        "tightness": tightness(options.trials, options.samples),
        "controls": controls(min(100_000, options.trials)),
        "false_alarms": false_alarms(options.seeds),
    }
    if options.json is not None:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    failed = [row for rows in results.values() for row in rows if not row["ok"]]
    print(f"\n{len(failed)} of {sum(map(len, results.values()))} checks failed.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
