"""Thousands of random questions about hidden allocations, each against an oracle that shares nothing with the package.

    python studies/allocation.py [questions] [seed] [file]

The oracle takes seconds for a question and the package milliseconds. With a file, every value of the oracle becomes a
line of it and is not computed again: another version of the package is compared with the same values in seconds.
`allocation_values.tsv` has those of 2 000 questions with the seed 2026-11; without it they take the oracle an hour.

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
from dataclasses import dataclass
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
DECLINES = "the oracle declines"


@dataclass(frozen=True)
class Question:
    """One random question."""

    kind: str
    batches: int
    epochs: int
    noise: float
    size: int
    adjacency: str
    delta: float

    def __str__(self) -> str:
        place = f"{self.kind} N={self.batches} epochs={self.epochs} noise={self.noise}"
        return f"{place} k={self.size} {self.adjacency} delta={self.delta:g}"


def random_question(generator: random.Random) -> Question:
    kind = generator.choice(["one", "spread", "thrown"])
    batches = round(10.0 ** generator.uniform(0.4, 2.5))
    epochs = generator.choice([1, 2, 3, 5, 10, 20])
    noise = round(10.0 ** generator.uniform(-0.1, 0.8), 3)
    delta = 10.0 ** -generator.choice([4, 5, 6, 8])
    adjacency = generator.choice(["remove", "add"])
    size = 1 if kind == "one" else generator.randint(2, min(4 if kind == "thrown" else 12, batches))
    if kind == "thrown":  # the oracle takes minutes where many share a batch and noise is small
        size = min(size, max(2, int(LARGEST_SHIFT * noise)))
    return Question(kind, batches, epochs, noise, size, adjacency, delta)


def oracle_value(question: Question) -> str:
    """The oracle's epsilon, written out, or that it declines."""
    coins = allocation.thrown if question.kind == "thrown" else allocation.spread
    coin = coins(question.size, question.batches, question.noise)
    rounds = [(coin, question.epochs, question.adjacency == "add")]
    try:
        return repr(float(allocation.epsilon(rounds, delta=question.delta, digits=DIGITS)))
    except Disagreement:
        return DECLINES


def verdict(question: Question, value: str) -> tuple[str, str]:
    """How the package's answer compares with the oracle's, and both."""
    if value == DECLINES:
        return DECLINES, str(question)
    kind = groupdp.SpreadSampling if question.kind == "spread" else groupdp.BallsInBinsSampling
    sampling = kind(batches=question.batches)
    run = groupdp.DPSGD(sampling, noise_multiplier=question.noise, steps=question.batches * question.epochs)
    about = {"delta": question.delta, "group_size": question.size, "adjacency": question.adjacency}
    try:
        answer = groupdp.epsilon(run, **about, engine="spectral")
    except LimitExceeded:
        return "the engine declines", str(question)
    true = float(value)
    room = 3.0 * ERROR * max(1.0, true)
    both = f"{question}: [{answer.lower}, {answer.upper}], the oracle has {true}"
    if answer.upper > true + room and answer.lower <= true and answer.width > max(room, 1e-6 * true):
        return "wide", both
    if question.kind == "thrown":
        return ("holds" if answer.upper <= true + max(room, 1e-6 * true) else "FALSE"), both
    if answer.upper < true - room and not answer.tight:  # another bound was better (revealed)
        return "better", both
    return ("holds" if answer.lower - room <= true <= answer.upper + room else "FALSE"), both


def main() -> int:
    questions = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    seed = sys.argv[2] if len(sys.argv) > 2 else "1"
    file = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    lines = file.read_text(encoding="utf-8").splitlines() if file is not None and file.exists() else []
    known = dict(line.split("\t") for line in lines)
    tally: Counter[str] = Counter()
    for number in range(questions):
        question = random_question(random.Random(f"{seed}/{number}"))
        value = known.get(str(question)) or oracle_value(question)
        if file is not None and str(question) not in known:
            with file.open("a", encoding="utf-8") as values:
                values.write(f"{question}\t{value}\n")
        result, both = verdict(question, value)
        tally[result] += 1
        if result in ("FALSE", "wide", "the engine declines"):
            print(f"{result}: {both}", flush=True)
    print(", ".join(f"{name}: {count}" for name, count in sorted(tally.items())))
    return 1 if tally["FALSE"] else 0


if __name__ == "__main__":
    sys.exit(main())
