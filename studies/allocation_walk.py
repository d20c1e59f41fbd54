"""Walks along the group size and the number of batches of allocations, and reports what is not smooth.

    python studies/allocation_walk.py [sampling] [epochs] [noise] [delta]
    python studies/allocation_walk.py grid

The second asks a grid of balls in bins twice each, for the faster of two times and the width relative to
max(1, epsilon), so that two versions of the package can be compared line by line.

`sampling` is balls-in-bins, spread or allocation (two batches for each example). Along k = 1 to 1000 the upper side
must not fall, along N = 2 to 10^6 it must not rise, and it is at most that of the allocation revealed. Marked are
answers that are wide (above 1e-6, relatively) or took more than 0.2 seconds of processor time, and jumps: a change
between neighbours that is three times those beside it. Ends with status 1 if an answer breaks a rule.
"""

from __future__ import annotations

import itertools
import math
import sys
import time

import groupdp
from groupdp.errors import InvalidArgument, LimitExceeded

GROUPS = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 100, 200, 400, 1000)
BATCHES = (2, 4, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
SAMPLINGS = {
    "balls-in-bins": lambda batches: groupdp.BallsInBinsSampling(batches=batches),
    "spread": lambda batches: groupdp.SpreadSampling(batches=batches),
    "allocation": lambda batches: groupdp.AllocationSampling(batches=batches, participations=2),
}
#: Relative width, seconds, how much faster than beside it a logarithm may change, and what an upper side may be off by.
WIDE, SLOW, JUMP, ROOM = 1e-6, 0.2, 3.0, 1e-9

Question = tuple[str, int, float, float, str]


def answered(question: Question, batches: int, k: int) -> tuple[groupdp.Bounds | None, float]:
    name, epochs, noise, delta, adjacency = question
    run = groupdp.DPSGD(SAMPLINGS[name](batches), noise_multiplier=noise, steps=batches * epochs)
    start = time.process_time()
    try:
        found = groupdp.epsilon(run, delta=delta, group_size=k, adjacency=adjacency)
    except (LimitExceeded, InvalidArgument):
        return None, time.process_time() - start
    return found, time.process_time() - start


def revealed(question: Question, k: int) -> float:
    """The epsilon of N(k / noise) against N(0) in every epoch: all members in one batch, which is known."""
    name, epochs, noise, delta, _ = question
    shift = k * (math.sqrt(2.0) if name == "allocation" else 1.0)
    return groupdp.epsilon(groupdp.MixtureOfGaussians([shift], [1.0], noise), delta=delta, rounds=epochs).upper


def walked(question: Question, name: str, places: list[tuple[int, int]], sign: float) -> int:
    """Prints one walk along (N, k); returns how many answers break a rule."""
    found = [(batches, k, *answered(question, batches, k)) for batches, k in places]
    known = [(batches, k, bounds) for batches, k, bounds, _ in found if bounds is not None]
    for batches, k, bounds, seconds in found:
        if bounds is None:
            print(f"  {name} {batches}, {k}: declined, {seconds:.2f} s", flush=True)
            continue
        marks = (" wide" if bounds.relative_width > WIDE else "") + (" slow" if seconds > SLOW else "")
        width = f"{bounds.relative_width:.0e} {bounds.provenance.engine}"
        print(f"  {name} {batches}, {k}: {bounds.upper:.9g}, width {width}, {seconds:.2f} s{marks}", flush=True)
    false = 0
    for (before, k, one), (after, more, other) in itertools.pairwise(known):
        if sign * (other.upper - one.upper) < -ROOM * one.upper:
            false += 1
            print(f"  FALSE from N = {before}, k = {k} to N = {after}, k = {more}: {one.upper:.9g}, {other.upper:.9g}")
    for batches, k, bounds in known:
        if bounds.upper > revealed(question, k) * (1.0 + ROOM):
            false += 1
            print(f"  FALSE beside the allocation revealed at N = {batches}, k = {k}")
    logs = [math.log(max(bounds.upper, 1e-12)) / math.log(batches * k + 1.0) for batches, k, bounds in known]
    steps = [abs(later - before) for before, later in itertools.pairwise(logs)]
    for i in range(1, len(steps) - 1):
        if steps[i] > JUMP * max(steps[i - 1], steps[i + 1], 0.01):
            print(f"  a jump between {known[i][:2]} and {known[i + 1][:2]}")
    return false


def grid() -> int:
    """One example and small groups over batches, epochs, noise and delta."""
    small = itertools.product((100, 1000, 10_000, 100_000, 1_000_000), (1, 2, 5, 20, 100), (0.5, 1.0, 2.0, 4.0), (1,))
    groups = itertools.product((300, 1000, 3000, 10_000), (1, 5, 20), (1.0, 2.0, 4.0), (4, 16))
    total = 0.0
    for (batches, epochs, noise, k), adjacency in itertools.product((*small, *groups), ("remove", "add")):
        for delta in (1e-4, 1e-10) if k == 1 else (1e-6,):
            asked = [answered(("balls-in-bins", epochs, noise, delta, adjacency), batches, k) for _ in range(2)]
            found, seconds = asked[0][0], min(time for _, time in asked)
            total += seconds
            said = (
                "declined" if found is None else f"{found.upper:.9g}, width {found.width / max(1.0, found.upper):.0e}"
            )
            print(f"{batches} {epochs} {noise} {delta:g} {k} {adjacency}: {said}, {1e3 * seconds:.1f} ms", flush=True)
    print(f"{total:.1f} s")
    return 0


def main() -> int:
    if sys.argv[1:2] == ["grid"]:
        return grid()
    given = [*sys.argv[1:5], *("balls-in-bins", "5", "1", "1e-6")[len(sys.argv) - 1 :]]
    name, epochs, noise, delta = given[0], int(given[1]), float(given[2]), float(given[3])
    false = 0
    for adjacency in ("remove", "add"):
        question = (name, epochs, noise, delta, adjacency)
        for batches in (100, 10_000, 1_000_000):
            print(f"{name}, {adjacency}, along k")
            false += walked(question, "N, k =", [(batches, k) for k in GROUPS], 1.0)
        for k in (2, 4, 16):
            print(f"{name}, {adjacency}, along N")
            false += walked(question, "N, k =", [(batches, k) for batches in BATCHES], -1.0)
    print(f"{false} answers break a rule")
    return 1 if false else 0


if __name__ == "__main__":
    sys.exit(main())
