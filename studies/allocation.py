"""Thousands of random questions about hidden allocations, each against an oracle that shares nothing with the package.

    python studies/allocation.py [questions] [seed] [file]

With a file, what became of every question is a line of it, and questions that have a line are not asked again.

One example in one of N batches and spread groups: the certified interval must contain the oracle's value. Balls in bins
for groups: the answer must be at most the oracle's value of the coin of P-15, whose blocks are a little worse.
Questions that the oracle's two contours disagree about, or that no engine answers, are counted apart, and so are
intervals that contain the oracle's value and are wider than 1e-6. Ends with status
1 if any answer is false.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import groupdp
from groupdp.errors import LimitExceeded
from oracle import allocation
from oracle.contour import Disagreement

#: Digits that the oracle's two contours agree to.
DIGITS = 7
#: Members thrown, in units of the noise.
LARGEST_SHIFT = 2.0
#: The oracle's own error, relative to max(1, epsilon).
ERROR = 10.0**-DIGITS


def verdict(generator: random.Random) -> tuple[str, str]:
    """What became of a random question, and the question."""
    kind = generator.choice(["one", "spread", "thrown"])
    batches = round(10.0 ** generator.uniform(0.4, 2.5))
    epochs = generator.choice([2, 3, 5, 10, 20])
    noise = round(10.0 ** generator.uniform(-0.1, 0.8), 3)
    delta = 10.0 ** -generator.choice([4, 5, 6, 8])
    adjacency = generator.choice(["remove", "add"])
    size = 1 if kind == "one" else generator.randint(2, min(4 if kind == "thrown" else 12, batches))
    if kind == "thrown":  # the oracle takes minutes where many share a batch and noise is small
        size = min(size, max(2, int(LARGEST_SHIFT * noise)))
    asked = f"{kind} N={batches} epochs={epochs} noise={noise} k={size} {adjacency} delta={delta:g}"
    sampling: groupdp.Sampling = groupdp.BallsInBinsSampling(batches=batches)
    if kind == "spread":
        sampling = groupdp.SpreadSampling(batches=batches)
    run = groupdp.DPSGD(sampling, noise_multiplier=noise, steps=batches * epochs)
    coin = (allocation.thrown if kind == "thrown" else allocation.spread)(size, batches, noise)
    try:
        true = allocation.epsilon([(coin, epochs, adjacency == "add")], delta=delta, digits=DIGITS)
        found = groupdp.epsilon(run, delta=delta, group_size=size, adjacency=adjacency, engine="spectral")
    except Disagreement:
        return "the oracle declines", asked
    except LimitExceeded:
        return "the engine declines", asked
    room = 3.0 * ERROR * max(1.0, true)
    asked += f": [{found.lower}, {found.upper}], the oracle has {true}"
    if found.upper > true + room and found.lower <= true and found.width > max(room, 1e-6 * true):
        return "wide", asked
    if kind == "thrown":
        return ("holds" if found.upper <= true + max(room, 1e-6 * true) else "FALSE"), asked
    smaller = found.upper < true - room and not found.tight  # another bound was better (revealed)
    return ("better" if smaller else "holds" if found.lower - room <= true <= found.upper + room else "FALSE"), asked


def main() -> int:
    questions = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    seed = sys.argv[2] if len(sys.argv) > 2 else "1"
    file = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    known = file.read_text(encoding="utf-8").splitlines() if file is not None and file.exists() else []
    tally: Counter[str] = Counter(line.partition("\t")[0] for line in known)
    for number in range(len(known), questions):
        result, asked = verdict(random.Random(f"{seed}/{number}"))
        tally[result] += 1
        if file is not None:
            with file.open("a", encoding="utf-8") as lines:
                lines.write(f"{result}\t{asked}\n")
        if result == "FALSE":
            print(asked, flush=True)
    print(", ".join(f"{name}: {count}" for name, count in sorted(tally.items())))
    return 1 if tally["FALSE"] else 0


if __name__ == "__main__":
    sys.exit(main())
