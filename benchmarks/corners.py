"""Rare sampling and few rounds on two grids: processor time of the spectral engine, widths, and what it declines.

    python benchmarks/corners.py [--only rare] [--repetitions 3] [--all]

Rare sampling has k q T from 1e-4 to 1 and delta down to 1e-30; it is to take 20 ms and to be 1e-8 wide, relative to
epsilon itself. Few rounds are 2 to 50, at any rate; they are to take 50 ms and to be 1e-9 wide. Every question is asked
of one ordered change. A question that takes longer, is wider or is declined is printed; with --all every one is.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Iterator

from groupdp import DPSGD, LimitExceeded, PoissonSampling
from groupdp.engines import spectral
from groupdp.question import question_of

#: Milliseconds and relative width that each grid is to keep.
LIMITS = {"rare": (20.0, 1e-8), "few": (50.0, 1e-9)}


def rare() -> Iterator[tuple[DPSGD, int, float]]:
    """(run, group size, delta), where delta is below what the group's presence alone allows."""
    for rate, expected, group, noise, delta in itertools.product(
        (1e-6, 1e-5, 1e-4), (1e-4, 1e-3, 1e-2, 1e-1, 1.0), (1, 8, 32), (0.5, 1.0, 2.0), (1e-6, 1e-10, 1e-20, 1e-30)
    ):
        steps = round(expected / (rate * group))
        if steps >= 2 and delta < 0.01 * expected:
            yield DPSGD(PoissonSampling(rate=rate), noise_multiplier=noise, steps=steps), group, delta


def few() -> Iterator[tuple[DPSGD, int, float]]:
    for steps, rate, noise, group, delta in itertools.product(
        (2, 3, 5, 10, 20, 50), (1e-3, 1e-2, 0.1, 0.5, 0.9), (0.5, 1.0, 2.0), (1, 8), (1e-5, 1e-10)
    ):
        yield DPSGD(PoissonSampling(rate=rate), noise_multiplier=noise, steps=steps), group, delta


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=sorted(LIMITS))
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--all", action="store_true")
    asked = parser.parse_args()
    for name, grid in (("rare", rare()), ("few", few())):
        if asked.only in (None, name):
            measure(name, grid, asked.repetitions, asked.all)


def measure(name: str, grid: Iterator[tuple[DPSGD, int, float]], repetitions: int, show_all: bool) -> None:
    longest, widest = LIMITS[name]
    times, slow, wide, declined = [], 0, 0, 0
    for run, group, delta in grid:
        for change, composition in question_of(run, group_size=group).compositions:
            milliseconds, width, shown = math.inf, math.inf, "declined"
            for _ in range(repetitions):
                start = time.process_time()
                try:
                    found = spectral.epsilon(composition, log_delta=math.log(delta))
                except LimitExceeded as error:
                    shown = str(error)
                else:
                    width = found.width / found.upper if found.upper > 0.0 else 0.0
                    shown = f"{found.lower:.12g} {width:.1e}"
                milliseconds = min(milliseconds, 1e3 * (time.process_time() - start))
                if milliseconds <= longest:
                    break
            times.append(milliseconds)
            slow += milliseconds > longest
            declined += width == math.inf
            wide += widest < width < math.inf
            if show_all or milliseconds > longest or width > widest:
                print(
                    f"{name}: q {run.sampling.rate:g} T {run.steps} sigma {run.noise_multiplier:g} k {group} delta "
                    f"{delta:g} {change}: {milliseconds:.1f} ms, {shown}",
                    flush=True,
                )
    times.sort()
    print(
        f"{name}: {len(times)} questions, median {times[len(times) // 2]:.1f} ms, longest {times[-1]:.0f} ms; "
        f"{slow} above {longest:g} ms, {wide} wider than {widest:g}, {declined} declined"
    )


if __name__ == "__main__":
    main()
