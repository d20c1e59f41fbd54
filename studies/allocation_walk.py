"""Walks along the group size and along the number of batches of balls in bins, and reports what is not smooth.

    python studies/allocation_walk.py [epochs] [noise] [delta]

Along k = 1 to 1000 the answer must not fall, along N = 10 to 10^6 it must not rise. Marked are answers that are wide
(above 1e-6, relatively) or took more than two seconds of processor time, and jumps: a change between neighbours that is
three times those beside it. Ends with status 1 if an answer contradicts another.
"""

from __future__ import annotations

import itertools
import math
import sys
import time

import groupdp
from groupdp.errors import LimitExceeded

GROUPS = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 100, 200, 400, 1000)
BATCHES = (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
#: Relative width, seconds, and how much faster than beside it a logarithm may change.
WIDE, SLOW, JUMP = 1e-6, 2.0, 3.0

Answer = tuple[groupdp.Bounds | None, float]


def answered(batches: int, epochs: int, noise: float, k: int, adjacency: str, delta: float) -> Answer:
    run = groupdp.DPSGD(groupdp.BallsInBinsSampling(batches=batches), noise_multiplier=noise, steps=batches * epochs)
    start = time.process_time()
    try:
        found = groupdp.epsilon(run, delta=delta, group_size=k, adjacency=adjacency)
    except LimitExceeded:
        return None, time.process_time() - start
    return found, time.process_time() - start


def reported(name: str, places: tuple[int, ...], answers: list[Answer], sign: float) -> int:
    """Prints one walk; returns how many pairs of answers contradict each other."""
    known = [(place, found, seconds) for place, (found, seconds) in zip(places, answers, strict=True) if found]
    for place, found, seconds in known:
        marks = (" wide" if found.relative_width > WIDE else "") + (" slow" if seconds > SLOW else "")
        width = f"{found.relative_width:.0e} {found.provenance.engine}"
        print(f"  {name} {place}: {found.upper:.9g}, width {width}, {seconds:.2f} s{marks}", flush=True)
    for place, (found, _) in zip(places, answers, strict=True):
        if found is None:
            print(f"  {name} {place}: declined", flush=True)
    logs = [math.log(max(found.upper, 1e-12)) / math.log(place + 1.0) for place, found, _ in known]
    steps = [abs(later - before) for before, later in itertools.pairwise(logs)]
    for i in range(1, len(steps) - 1):
        if steps[i] > JUMP * max(steps[i - 1], steps[i + 1], 0.01):
            print(f"  a jump between {name} {known[i][0]} and {known[i + 1][0]}")
    pairs = itertools.pairwise(found for _, found, _ in known)
    return sum(
        1 for before, later in pairs if before.tight == later.tight and sign * (later.upper - before.lower) < -1e-12
    )


def main() -> int:
    epochs, noise, delta = (kind(text) for kind, text in zip((int, float, float), _arguments(), strict=True))
    false = 0
    for adjacency in ("remove", "add"):
        for batches in (100, 10_000, 1_000_000):
            print(f"{adjacency}, N = {batches}, along k")
            answers = [answered(batches, epochs, noise, k, adjacency, delta) for k in GROUPS]
            false += reported("k =", GROUPS, answers, 1.0)
        for k in (1, 4, 16):
            print(f"{adjacency}, k = {k}, along N")
            answers = [answered(batches, epochs, noise, k, adjacency, delta) for batches in BATCHES]
            false += reported("N =", BATCHES, answers, -1.0)
    print(f"{false} contradictions")
    return 1 if false else 0


def _arguments() -> list[str]:
    return [*sys.argv[1:4], *("5", "1", "1e-6")[len(sys.argv) - 1 :]]


if __name__ == "__main__":
    sys.exit(main())
