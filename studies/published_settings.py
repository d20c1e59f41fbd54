"""200 questions in the ranges of published settings: how long each takes, and how wide its bounds are.

    python studies/published_settings.py [NAME=PYTHON ...] [--out FILE.json]

asks them with each interpreter, each with its own groupdp (none: the one that runs this), and prints the versions side
by side: seconds of processor time (the least of three calls, one where it takes over a second), width over epsilon, and
every question above 0.2 s or wider than 1e-8. The ranges are those that the papers train in, rounded; a question is
drawn from them, not copied: it says what a reader of the paper would plausibly ask, for one example and for groups.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

SECONDS, WIDTH = 0.2, 1e-8
GROUPS = (1, 1, 2, 4, 8, 16, 32)


class Source(NamedTuple):
    """A paper's ranges: rates and noise multipliers from and to; steps, deltas and group sizes to choose from."""

    kind: str
    citation: str
    rates: tuple[float, float]
    noises: tuple[float, float]
    steps: tuple[int, ...]
    deltas: tuple[float, ...]
    groups: tuple[int, ...] = GROUPS


SOURCES = (
    Source("vision", "Abadi et al. 2016, Deep Learning with Differential Privacy (MNIST, CIFAR-10)",
           (0.004, 0.04), (1.0, 8.0), (500, 2_000, 10_000, 40_000), (1e-5,)),
    Source("vision", "Tramer and Boneh 2021, Differentially Private Learning Needs Better Features (CIFAR-10)",
           (0.01, 0.16), (1.0, 6.0), (200, 1_000, 3_000), (1e-5,)),
    Source("vision", "De et al. 2022, Unlocking High-Accuracy Differentially Private Image Classification",
           (0.013, 0.33), (1.5, 12.0), (250, 1_000, 3_000), (1e-5, 8e-7)),
    Source("fine-tuning", "Li et al. 2022, Large Language Models Can Be Strong Differentially Private Learners",
           (0.0025, 0.06), (0.5, 1.5), (400, 1_200, 7_000), (1.3e-6, 8e-6)),
    Source("fine-tuning", "Yu et al. 2022, Differentially Private Fine-tuning of Language Models",
           (0.0025, 0.02), (0.6, 1.3), (1_000, 4_000, 20_000), (1e-5, 1e-6)),
    Source("fine-tuning", "Charles et al. 2024, Fine-Tuning Large Language Models with User-Level Differential Privacy",
           (1e-4, 0.01), (0.5, 8.0), (2_000, 10_000), (1e-7, 1e-9)),
    Source("language", "Anil et al. 2021, Large-Scale Differentially Private BERT",
           (1e-4, 0.006), (0.4, 1.0), (20_000,), (2.9e-9, 1e-9)),
    Source("federated", "McMahan et al. 2018, Learning Differentially Private Recurrent Language Models",
           (1.3e-4, 6.6e-3), (0.8, 2.0), (500, 5_000), (1e-9,), (1, 1, 1, 2, 4)),
    Source("federated", "cross-device populations of 10^7 to 10^9, as in Xu et al. 2023, Federated Learning of Gboard",
           (1e-6, 1e-4), (0.5, 2.0), (1_000, 3_000, 10_000), (1e-10, 1e-9), (1, 1, 2, 4, 8)),
    Source("tabular", "UCI Adult, and the tutorials of TensorFlow Privacy and Opacus",
           (0.004, 0.02), (0.8, 2.5), (50, 640, 2_500, 14_400), (1e-5, 1e-6)),
)  # fmt: skip
EACH = 20


def questions() -> list[dict[str, Any]]:
    """The 200, the same on every run."""
    asked = []
    for number, source in enumerate(SOURCES):
        generator = random.Random(number)

        def between(low: float, high: float, generator: random.Random = generator) -> float:
            return float(f"{math.exp(generator.uniform(math.log(low), math.log(high))):.3g}")

        asked += [
            {
                "source": number,
                "rate": between(*source.rates),
                "noise": between(*source.noises),
                "steps": generator.choice(source.steps),
                "delta": generator.choice(source.deltas),
                "group_size": generator.choice(source.groups),
            }
            for _ in range(EACH)
        ]
    return asked


def answer(one: dict[str, Any]) -> dict[str, Any]:
    """Bounds and seconds, by the groupdp of this interpreter."""
    import groupdp

    run = groupdp.DPSGD(groupdp.PoissonSampling(rate=one["rate"]), noise_multiplier=one["noise"], steps=one["steps"])
    seconds = []
    for _ in range(3):
        begun = time.process_time()
        try:
            found = groupdp.epsilon(run, delta=one["delta"], group_size=one["group_size"])
        except groupdp.GroupDPError as error:
            return {"seconds": time.process_time() - begun, "refused": str(error)}
        seconds.append(time.process_time() - begun)
        if seconds[0] > 1.0:
            break
    return {"seconds": min(seconds), "lower": found.lower, "upper": found.upper, "engine": found.provenance.engine}


def width(result: dict[str, Any]) -> float:
    """upper - lower over upper: relative to epsilon itself."""
    if "refused" in result:
        return math.inf
    return 0.0 if result["upper"] == result["lower"] else (result["upper"] - result["lower"]) / result["upper"]


def asked_of(python: str) -> list[dict[str, Any]]:
    """All answers of an interpreter, in a process of its own."""
    done = subprocess.run([python, __file__, "--answer"], stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _line(one: dict[str, Any]) -> str:
    values = f"q={one['rate']:g} sigma={one['noise']:g} T={one['steps']} delta={one['delta']:g} k={one['group_size']}"
    return f"{SOURCES[one['source']].kind:12}{values}"


def report(found: dict[str, list[dict[str, Any]]]) -> None:
    """Medians and extremes, disagreements, and every question that is slow or wide in the last version."""
    asked = questions()
    for name, results in found.items():
        seconds, widths = sorted(one["seconds"] for one in results), sorted(width(one) for one in results)
        slow, wide = sum(one > SECONDS for one in seconds), sum(one > WIDTH for one in widths)
        print(
            f"{name}: {len(results)} questions, median {1e3 * seconds[len(seconds) // 2]:.3g} ms, longest "
            f"{seconds[-1]:.3g} s, {slow} above {SECONDS} s; median width {widths[len(widths) // 2]:.1e}, widest "
            f"{widths[-1]:.1e}, {wide} above {WIDTH:g}"
        )
    last = list(found)[-1]
    for place, one in enumerate(asked):
        results = {name: answers[place] for name, answers in found.items()}
        answered = [result for result in results.values() if "refused" not in result]
        if max(result["lower"] for result in answered) > min(result["upper"] for result in answered):
            print(f"DISAGREE {_line(one)} {results}")
        if results[last]["seconds"] > SECONDS or width(results[last]) > WIDTH:
            told = "; ".join(f"{name} {r['seconds']:.3g} s, width {width(r):.1e}" for name, r in results.items())
            print(f"{_line(one)}: {told}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("versions", nargs="*", help="NAME=PYTHON")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--answer", action="store_true", help="answer all questions with this interpreter, as JSON")
    arguments = parser.parse_args()
    if arguments.answer:
        answer(questions()[0])  # imports
        for one in questions():
            print(json.dumps(answer(one)), flush=True)
        return
    named = dict(text.split("=", 1) for text in arguments.versions) or {"this": sys.executable}
    found = {name: asked_of(python) for name, python in named.items()}
    if arguments.out is not None:
        cited = [source._asdict() for source in SOURCES]
        arguments.out.write_text(json.dumps({"sources": cited, "questions": questions(), "answers": found}, indent=1))
    report(found)


if __name__ == "__main__":
    main()
