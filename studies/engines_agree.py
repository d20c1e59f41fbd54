"""Both engines on thousands of random questions: their intervals must always intersect.

    python studies/engines_agree.py [--questions 2400] [--seed 1] [--workers 2] [--first 0]

Questions are spread over what both engines accept: Poisson and fixed batches, one or two phases, arbitrary
mixtures, members replaced, truncated batches, several sources, balls in bins, from 2 rounds to a hundred thousand,
epsilon for a delta down to 1e-300 and log delta for an epsilon.
Every question is made from the seed and its number alone, so one of them can be asked again. Before that the
lattice engine is asked for all golden epsilons (tests/golden/epsilon.json), in both directions. Prints how many
were checked, how many an engine declined, the widest intervals, and every disagreement; exit status 1 if
there is one. Ctrl-C prints what has been found so far.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import groupdp
import groupdp.question
from groupdp.engines import lattice, spectral

GOLDEN = Path(__file__).parent.parent / "tests" / "golden" / "epsilon.json"
#: Relative width that the lattice engine is asked for.
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Question:
    """What is asked of both engines."""

    run: Any
    ask: str
    arguments: dict[str, Any]

    def answer(self, engine: str) -> groupdp.Bounds:
        asked = groupdp.epsilon if self.ask == "epsilon" else groupdp.log_delta
        return asked(self.run, engine=engine, tolerance=TOLERANCE, **self.arguments)


@dataclass(frozen=True)
class Outcome:
    """The answers, or who declined to give one."""

    number: int
    question: Question
    answers: dict[str, groupdp.Bounds]
    seconds: float
    agree: bool


@dataclass
class Tally:
    """What the study has found so far."""

    asked: int = 0
    checked: int = 0
    disagreements: int = 0
    unmet: list[int] = field(default_factory=list)
    declined: Counter[str] = field(default_factory=Counter)
    widest: dict[str, float] = field(default_factory=lambda: {"spectral": 0.0, "lattice": 0.0, "unmet": 0.0})
    slowest: tuple[float, int] = (0.0, 0)

    def add(self, outcome: Outcome) -> None:
        self.asked += 1
        self.slowest = max(self.slowest, (outcome.seconds, outcome.number))
        if len(outcome.answers) < 2:
            self.declined.update({"spectral", "lattice"} - set(outcome.answers))
            return
        self.checked += 1
        unmet = not outcome.answers["lattice"].provenance.tolerance_met
        if unmet:
            self.unmet.append(outcome.number)
        for engine, bounds in outcome.answers.items():
            kind = "unmet" if engine == "lattice" and unmet else engine
            self.widest[kind] = max(self.widest[kind], bounds.relative_width)
        if not outcome.agree:
            self.disagreements += 1
            show(f"DISAGREE: question {outcome.number}: {outcome.question} {outcome.answers}")

    def summary(self) -> str:
        return (
            f"{self.asked} questions, {self.checked} checked by both engines, {self.disagreements} disagreements\n"
            f"declined: spectral {self.declined['spectral']}, lattice {self.declined['lattice']}; slowest question: "
            f"number {self.slowest[1]}, {self.slowest[0]:.0f} s\n"
            f"widest interval relative to max(1, answer): spectral {self.widest['spectral']:.2g}, lattice "
            f"{self.widest['lattice']:.2g} (asked for {TOLERANCE:g})\n"
            f"{len(self.unmet)} times the lattice said that it did not get there, widest {self.widest['unmet']:.2g}; "
            f"questions {sorted(self.unmet)}"
        )


def question_of(seed: int, number: int) -> Question:
    """The question of a number."""
    rng = random.Random(f"{seed}/{number}")
    arguments: dict[str, Any] = {"adjacency": rng.choice(["add", "remove"])}
    ask = "epsilon" if rng.random() < 0.7 else "log_delta"
    if ask == "epsilon":
        exponent = rng.uniform(-20.0, -1.0) if rng.random() < 0.85 else rng.uniform(-300.0, -20.0)
        arguments["delta"] = 10.0**exponent
    else:
        arguments["epsilon"] = 10.0 ** rng.uniform(-2.0, 1.5)
    run: Any
    kind = rng.random()
    if kind < 0.15:
        run, arguments["rounds"] = random_mixture(rng), round(10 ** rng.uniform(0.3, 4.0))
        arguments["adjacency"] = rng.choice(["add", "remove", "substitute"])
    elif kind < 0.5:
        run, neighbours = random_pairs(rng)
        del arguments["adjacency"]
        arguments |= neighbours
    else:
        run = random_phase(rng) if rng.random() < 0.8 else [random_phase(rng), random_phase(rng)]
        arguments["group_size"] = rng.randint(1, 16) if rng.random() < 0.9 else rng.randint(17, 64)
    return Question(run, ask, arguments)


def random_phase(rng: random.Random) -> groupdp.DPSGD:
    """Poisson sampling or fixed batches, any number of steps."""
    steps = round(10 ** rng.uniform(0.3, 5.0))
    noise = 10 ** rng.uniform(-0.35, 1.7)
    sampling: groupdp.PoissonSampling | groupdp.FixedBatchSampling
    if rng.random() < 0.6:
        sampling = groupdp.PoissonSampling(rate=10 ** rng.uniform(-4.0, 0.0))
    else:
        batch = rng.randint(1, 300)
        size = round(batch * 10 ** rng.uniform(0.05, 3.0)) + 64
        sampling = groupdp.FixedBatchSampling(batch_size=batch, dataset_size=size)
        noise *= 2.0
    return groupdp.DPSGD(sampling=sampling, noise_multiplier=noise, steps=steps)


def random_pairs(rng: random.Random) -> tuple[groupdp.DPSGD, dict[str, Any]]:
    """A run whose rounds have two sides or a public coin, and which datasets are neighbours."""
    steps, noise, size = round(10 ** rng.uniform(0.5, 4.0)), 10 ** rng.uniform(-0.2, 1.3), rng.randint(1, 8)
    kind = rng.choice(["exchange", "truncated", "sources", "balls"])
    neighbours: dict[str, Any] = {"group_size": size, "adjacency": rng.choice(["remove", "add"])}
    sampling: groupdp.samplings.Sampling
    if kind == "exchange":
        sampling = groupdp.PoissonSampling(rate=10 ** rng.uniform(-3.5, -0.3))
        neighbours = {"removed": size, "added": rng.randint(1, 8)}
    elif kind == "truncated":
        dataset = rng.randint(20, 5000)
        rate = 10 ** rng.uniform(-2.0, -0.5)
        cap = max(1, round(dataset * rate * rng.uniform(0.8, 1.6)))
        sampling = groupdp.TruncatedPoissonSampling(rate=rate, largest_batch=cap, dataset_size=dataset)
        neighbours["adjacency"] = rng.choice(["remove", "add", "zero-out"])
    elif kind == "sources":
        sampling = groupdp.PoissonSources(rates={str(i): 10 ** rng.uniform(-3.5, -0.5) for i in range(3)})
        neighbours["group_size"] = {str(i): rng.randint(0, 5) + (i == 0) for i in range(3)}
    else:
        sampling = groupdp.BallsInBinsSampling(batches=rng.randint(2, 100))
        neighbours["group_size"] = min(size, 5)
        steps *= sampling.batches
    return groupdp.DPSGD(sampling, noise_multiplier=noise, steps=steps), neighbours


def random_mixture(rng: random.Random) -> groupdp.MixtureOfGaussians:
    """Up to eight sensitivities, with or without a chance of absence."""
    count = rng.randint(1, 8)
    sensitivities = [10 ** rng.uniform(-2.0, 1.0) for _ in range(count)]
    if rng.random() < 0.7:
        sensitivities[0] = 0.0
    weights = [10 ** rng.uniform(-4.0, 0.0) for _ in range(count)]
    probabilities = [weight / sum(weights) for weight in weights]
    return groupdp.MixtureOfGaussians(sensitivities, probabilities, 10 ** rng.uniform(-0.3, 1.3))


def ask_both(task: tuple[int, int]) -> Outcome:
    """Ask one question of both engines."""
    seed, number = task
    question = question_of(seed, number)
    started = time.monotonic()
    answers: dict[str, groupdp.Bounds] = {}
    for engine in ("spectral", "lattice"):
        try:
            answers[engine] = question.answer(engine)
        except groupdp.LimitExceeded:
            continue
    agree = len(answers) < 2 or answers["spectral"].intersects(answers["lattice"])
    if not agree and not answers["spectral"].tight:
        agree = _alternatives_agree(question)
    return Outcome(number, question, answers, time.monotonic() - started, agree)


def _alternatives_agree(question: Question) -> bool:
    """Whether the engines agree about every composition that dominates the run.

    A bound that is not tight is the smallest of several, and each engine takes it from those that it answers for.
    """
    given = dict(question.arguments)
    answered = {"delta": "epsilon", "epsilon": "log_delta"}[
        next(name for name in given if name in ("delta", "epsilon"))
    ]
    asked = {"log_delta": math.log(given.pop("delta"))} if "delta" in given else {"epsilon": given.pop("epsilon")}
    about = groupdp.question.question_of(question.run, **given)
    for index in range(len(about.compositions)):
        for composition in about.options(index):
            bounds = []
            for engine in (spectral, lattice):
                with contextlib.suppress(groupdp.LimitExceeded):
                    bounds.append(getattr(engine, answered)(composition, **asked))
            if len(bounds) == 2 and not bounds[0].intersects(bounds[1]):
                return False
    return True


def ask_golden(case: dict[str, Any]) -> tuple[bool, float]:
    """Whether the lattice engine encloses the golden epsilons of a case; and the wider relative width."""
    phases = [{**case, **phase} for phase in case.get("phases", [{}])]
    run = [
        groupdp.DPSGD(
            sampling=groupdp.PoissonSampling(rate=float(phase["sampling_rate"]))
            if phase["sampling"] == "poisson"
            else groupdp.FixedBatchSampling(batch_size=phase["batch_size"], dataset_size=phase["dataset_size"]),
            noise_multiplier=float(phase["noise_multiplier"]),
            steps=phase["steps"],
        )
        for phase in phases
    ]
    question = {"delta": float(case["delta"]), "group_size": case["group_size"], "tolerance": 1e-4}
    enclosed, widest = True, 0.0
    for direction in ("add", "remove"):
        try:
            found = groupdp.epsilon(run, engine="lattice", adjacency=direction, **question)
        except groupdp.LimitExceeded:
            return False, math.inf
        truth = Decimal(case[f"epsilon_{direction}"])
        enclosed = enclosed and Decimal(found.lower) <= truth <= Decimal(found.upper)
        widest = max(widest, found.relative_width)
    return enclosed, widest


def show(line: str) -> None:
    """A line of its own, also where a progress line is being rewritten."""
    print(f"\r\x1b[K{line}" if sys.stdout.isatty() else line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=2400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--first", type=int, default=0, help="number of the first question")
    arguments = parser.parse_args()
    tasks = [(arguments.seed, arguments.first + number) for number in range(arguments.questions)]
    tally, missed = Tally(), 0
    started = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(arguments.workers) as pool:
        try:
            cases = json.loads(GOLDEN.read_text())["cases"]
            golden = list(pool.imap_unordered(ask_golden, cases))
            missed = sum(not enclosed for enclosed, _ in golden)
            show(
                f"{2 * len(cases)} golden epsilons asked of the lattice engine, {missed} cases not enclosed, widest "
                f"{max(width for _, width in golden):.2g}"
            )
            for outcome in pool.imap_unordered(ask_both, tasks):
                tally.add(outcome)
                line = f"{tally.asked} of {len(tasks)} questions, {tally.checked} checked, "
                line += f"{tally.disagreements} disagreements, {time.monotonic() - started:.0f} s"
                if sys.stdout.isatty():
                    print(f"\r\x1b[K{line}", end="", flush=True)
                elif tally.asked % 50 == 0:
                    print(line, flush=True)
        except KeyboardInterrupt:
            show("interrupted")
            pool.terminate()
    show(tally.summary())
    sys.exit(1 if tally.disagreements or missed else 0)


if __name__ == "__main__":
    main()
