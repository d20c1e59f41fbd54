"""Random questions about rare sampling and about few rounds: the contour beside the lattice, and how long and how wide.

    python studies/rare_and_few.py [--count 300] [--seed 1] [--lattice 0.1]

Draws runs with k q T from 1e-4 to 1 (rates 1e-6 to 1e-3, up to 10^6 steps) and runs of 2 to 50 steps at any rate, asks
the spectral engine for epsilon and for log delta at both sides of the answer, which must agree, and the lattice engine
for a share of them. Every disagreement is printed, and makes the exit status 1.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time

from groupdp import DPSGD, LimitExceeded, PoissonSampling
from groupdp.engines import lattice, spectral
from groupdp.question import question_of


def draw(generator: random.Random) -> tuple[str, DPSGD, int, float]:
    """(regime, run, group size, delta)."""
    noise, group = math.exp(generator.uniform(math.log(0.5), math.log(4.0))), generator.choice([1, 1, 2, 4, 8, 16, 32])
    if generator.random() < 0.5:
        rate = 10.0 ** generator.uniform(-6.0, -3.0)
        expected = 10.0 ** generator.uniform(-4.0, 0.0)
        steps = min(max(round(expected / (rate * group)), 1), 10**6)
        log_delta = generator.uniform(math.log(1e-30), math.log(min(1e-3, 0.1 * rate * group * steps)))
        regime = "rare"
    else:
        rate, steps = (
            10.0 ** generator.uniform(-4.0, -0.2),
            round(math.exp(generator.uniform(math.log(2), math.log(50)))),
        )
        log_delta = generator.uniform(math.log(1e-12), math.log(min(1e-3, 0.01 * rate * group * steps)))
        regime = "few"
    return regime, DPSGD(PoissonSampling(rate=rate), noise_multiplier=noise, steps=max(steps, 2)), group, log_delta


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lattice", type=float, default=0.1, help="share that the lattice engine is asked as well")
    asked = parser.parse_args()
    generator = random.Random(asked.seed)
    false, seconds, widths, declined, compared = 0, {}, {}, {}, 0
    for _ in range(asked.count):
        regime, run, group, log_delta = draw(generator)
        also = generator.random() < asked.lattice
        for name, composition in question_of(run, group_size=group).compositions:
            kind = f"{regime}, {name}"
            start = time.process_time()
            try:
                found = spectral.epsilon(composition, log_delta=log_delta)
            except LimitExceeded:
                declined.setdefault(kind, []).append(f"{run!r}, k = {group}, log delta = {log_delta:.3f}")
                continue
            finally:
                seconds.setdefault(kind, []).append(time.process_time() - start)
            widths.setdefault(kind, []).append(found.relative_width)
            agree = True
            for epsilon, lower_side in ((found.lower, True), (found.upper, False)):
                if epsilon > 0.0:
                    try:
                        near = spectral.log_delta(composition, epsilon=epsilon)
                    except LimitExceeded:
                        continue
                    agree = agree and (near.upper >= log_delta if lower_side else near.lower <= log_delta)
            if also:
                try:
                    other = lattice.epsilon(composition, log_delta=log_delta, tolerance=1e-4)
                    compared += 1
                    agree = agree and found.intersects(other)
                except LimitExceeded:
                    pass
            if not agree:
                false += 1
                print(f"FALSE: {run!r}, k = {group}, {name}, log delta = {log_delta!r}: {found!r}", flush=True)
    for kind in sorted(seconds):
        times, wide = sorted(seconds[kind]), sorted(widths.get(kind, [math.nan]))
        middle, far, most = len(times) // 2, int(0.95 * len(times)), int(0.95 * len(wide))
        print(
            f"{kind}: {len(times)} asked, {len(declined.get(kind, []))} declined, "
            f"{1e3 * times[middle]:.1f} ms (median), {1e3 * times[far]:.1f} ms (95 %), "
            f"width {wide[len(wide) // 2]:.1e} (median), {wide[most]:.1e} (95 %), {wide[-1]:.1e} (most)"
        )
        for line in declined.get(kind, [])[:5]:
            print(f"    declined: {line}")
    print(f"{compared} compared with the lattice engine; {false} false")
    return 1 if false else 0


if __name__ == "__main__":
    sys.exit(main())
