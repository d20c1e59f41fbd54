"""Writes tests/golden/oracle_cases.json and oracle_pairs.json: what the oracle says, never what the package says.

PYTHONPATH=tests .venv/bin/python tests/oracle/make_cases.py          # only cases that the file does not have yet
PYTHONPATH=tests .venv/bin/python tests/oracle/make_cases.py --all    # everything again (about twenty minutes)
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import oracle
from oracle import envelope as oracle_envelope
from oracle import few_rounds as oracle_few_rounds
from oracle import laws, pair_cases
from paths import DATA

FILE = DATA / "oracle_cases.json"
PAIRS_FILE = DATA / "oracle_pairs.json"
ABOUT = (
    "By tests/oracle.py in 256-bit ball arithmetic, each value on two contours that agree to 1e-18 or better. "
    "Real parameters are doubles: '0.01' means the double nearest to 0.01, at its exact binary value. "
    "'fixed' means 2 x Hypergeom(batch_size, dataset_size + group_size, group_size). "
    "Written by tests/oracle/make_cases.py."
)
ABOUT_PAIRS = (
    "By tests/oracle in 256-bit ball arithmetic, each value by two contours that agree to 1e-18 or better, by a closed "
    "form (one round), or by extrapolated lattices (2 to 5 rounds); 'digits' says how many where fewer than 17. Real "
    "parameters are doubles, at their exact binary value. Laws: tests/oracle/laws.py. Written by make_cases.py."
)
Case = dict[str, Any]
DIRECTIONS = ("remove", "add")
REAL = ("sampling_rate", "noise_multiplier", "delta", "epsilon")


def poisson(rate: float, noise: float, steps: int) -> Case:
    return {
        "sampling": "poisson",
        "sampling_rate": repr(rate),
        "noise_multiplier": repr(noise),
        "steps": steps,
    }


def fixed(batch_size: int, dataset_size: int, noise: float, steps: int) -> Case:
    sizes = {"sampling": "fixed", "batch_size": batch_size, "dataset_size": dataset_size}
    return {**sizes, "noise_multiplier": repr(noise), "steps": steps}


def case(phases: Case | list[Case], group_size: int, delta: float) -> Case:
    body = {"phases": phases} if isinstance(phases, list) else phases
    return {**body, "group_size": group_size, "delta": repr(delta)}


CASES = [
    # from few to very many rounds, rates from 1e-6 to 0.5
    case(poisson(0.1, 1.0, 50), 1, 1e-5),
    case(poisson(0.5, 10.0, 100), 3, 1e-6),
    case(poisson(0.5, 100.0, 10_000), 64, 1e-5),
    case(poisson(0.2, 5.0, 300), 16, 1e-7),
    case(poisson(0.03, 0.7, 400), 2, 1e-5),
    case(poisson(0.003, 0.5, 5000), 1, 1e-6),
    case(poisson(0.001, 0.6, 20_000), 2, 1e-6),
    case(poisson(0.0001, 0.8, 100_000), 4, 1e-8),
    case(poisson(1e-5, 1.0, 10_000_000), 2, 1e-9),
    case(poisson(1e-6, 1.0, 100_000_000), 1, 1e-8),
    case(poisson(1e-6, 1.0, 1_000_000_000), 8, 1e-8),
    case(poisson(1e-6, 2.0, 1_000_000_000), 32, 1e-10),
    case(poisson(0.001, 1.0, 1_000_000_000), 1, 1e-6),
    case(poisson(0.002, 1.1, 250_000), 1, 1e-7),
    case(poisson(0.002, 1.1, 250_000), 8, 1e-7),
    case(poisson(3e-6, 0.6, 100_000_000), 1, 1e-6),
    case(poisson(1e-5, 0.9, 5_000_000), 3, 1e-6),
    case(poisson(0.0001881853214383862, 1.0950609368740045, 5058), 2, 4.070087282539835e-15),  # rare, far tail
    # about an epoch, little noise: rare, large losses
    case(poisson(0.001, 0.8, 1000), 4, 1e-9),
    case(poisson(0.0001, 0.8, 10_000), 1, 1e-9),
    case(poisson(0.0001, 0.8, 10_000), 4, 1e-7),
    case(poisson(0.00136, 1.51, 160), 2, 5.3e-16),
    case(fixed(100, 100_000, 1.7, 3000), 2, 1e-8),
    case([poisson(0.0005, 0.9, 1000), poisson(0.001, 1.2, 1500)], 3, 1e-10),
    case(poisson(0.25, 3.0, 60), 2, 1e-10),
    case(poisson(0.5, 2.0, 1000), 1, 1e-12),
    case(poisson(0.07, 1.3, 128), 3, 1e-4),
    case(poisson(0.001, 10.0, 10_000_000), 20, 1e-6),
    case(poisson(0.99, 20.0, 100), 2, 1e-6),
    case(poisson(1.0, 50.0, 100), 3, 1e-6),
    # rates and noises that are not short decimals
    case(poisson(1 / 3, 2.718281828459045, 777), 5, 3.3e-6),
    case(poisson(256 / 60_000, 1.1, 14_062), 1, 1e-5),
    case(poisson(256 / 60_000, 1.1, 14_062), 6, 1e-5),
    case(poisson(4096 / 1_281_167, 2**0.5, 28_150), 10, 8e-7),
    # large groups
    case(poisson(0.01, 2.0, 2000), 48, 1e-6),
    case(poisson(0.01, 4.0, 2000), 64, 1e-6),
    case(poisson(0.001, 3.0, 5000), 64, 1e-6),
    # small and large noise
    case(poisson(0.01, 0.5, 2000), 1, 1e-6),
    case(poisson(0.01, 0.5, 2000), 2, 1e-6),
    case(poisson(0.02, 0.55, 3000), 1, 1e-5),
    case(poisson(0.5, 0.9, 60), 1, 1e-6),
    case(poisson(0.01, 0.3, 1000), 1, 1e-5),
    case(poisson(0.01, 0.4, 500), 1, 1e-3),
    case(poisson(0.02, 30.0, 100_000), 48, 1e-6),
    case(poisson(0.004, 100.0, 1_000_000), 64, 1e-6),
    # deltas from 1e-2 to 1e-300
    case(poisson(0.05, 2.0, 1000), 4, 1e-2),
    case(poisson(0.05, 2.0, 1000), 4, 0.5),
    case(poisson(0.0001, 10.0, 1000), 1, 1e-2),  # zero: the total variation distance is smaller
    case(poisson(0.05, 2.0, 1000), 4, 1e-20),
    case(poisson(0.05, 2.0, 1000), 4, 1e-60),
    case(poisson(0.05, 2.0, 1000), 4, 1e-300),
    case(poisson(0.1, 1.0, 50), 1, 1e-300),
    case(poisson(0.001, 2.0, 1_000_000), 3, 1e-300),
    case(poisson(0.01, 1.0, 2000), 9, 1e-150),
    # fixed batches, small datasets included
    case(fixed(8, 20, 4.0, 50), 5, 1e-5),
    case(fixed(20, 20, 10.0, 100), 7, 1e-4),
    case(fixed(3, 40, 2.5, 200), 12, 1e-5),
    case(fixed(100, 1_000_000, 1.5, 30_000), 9, 1e-6),
    case(fixed(1, 1, 5.0, 60), 1, 1e-5),
    case(fixed(1, 10, 3.0, 100), 2, 1e-6),
    case(fixed(8, 20, 12.0, 50), 20, 1e-5),
    case(fixed(50, 100, 40.0, 500), 50, 1e-6),
    case(fixed(256, 60_000, 2.2, 14_062), 4, 1e-5),
    case(fixed(2000, 1_000_000_000, 2.0, 1_000_000_000), 3, 1e-9),
    case(fixed(1_000_000, 1_000_000_000_000, 3.0, 1_000_000_000), 4, 1e-12),
    # schedules
    case([poisson(0.001, 0.8, 10_000), poisson(0.2, 8.0, 200)], 1, 1e-5),
    case([fixed(64, 5000, 3.0, 1000), fixed(128, 5000, 4.0, 500), fixed(256, 5000, 6.0, 250)], 3, 1e-6),
    case([poisson(0.002 * j, 0.8 + 0.2 * j, 100 * j) for j in range(1, 9)], 5, 1e-8),
    case([poisson(0.01, 1.0, 1000), poisson(0.02, 1.5, 500)], 4, 1e-6),
    case([poisson(0.01, 0.9, 500), fixed(32, 2000, 3.0, 800), poisson(0.3, 20.0, 100)], 6, 1e-7),
]


LOG_DELTAS = [
    {**poisson(0.01, 1.0, 2000), "group_size": 4, "epsilon": "0.0"},
    {**poisson(0.01, 1.0, 2000), "group_size": 4, "epsilon": "1.0"},
    {**poisson(0.01, 1.0, 2000), "group_size": 4, "epsilon": "79.0"},
    {**poisson(0.01, 1.0, 2000), "group_size": 4, "epsilon": "100.0"},  # add: beyond the largest loss
    {**poisson(0.01, 1.0, 2000), "group_size": 4, "epsilon": "3000.0"},
    {**poisson(0.01, 4.0, 2000), "group_size": 16, "epsilon": "150.0"},
    {**poisson(1e-6, 1.0, 1_000_000_000), "group_size": 1, "epsilon": "0.1"},
    {**poisson(0.1, 1.0, 50), "group_size": 1, "epsilon": "5.0"},
    {**poisson(0.001, 0.8, 1000), "group_size": 4, "epsilon": "1.0"},
    {**poisson(0.001, 0.8, 1000), "group_size": 4, "epsilon": "8.0"},
    {**fixed(8, 20, 4.0, 50), "group_size": 5, "epsilon": "20.0"},
]

MIXTURES = [  # probabilities are sums of powers of two: they add up to 1 exactly
    {
        "sensitivities": sensitivities,
        "probabilities": probabilities,
        "standard_deviation": deviation,
        "rounds": rounds,
        "delta": delta,
    }
    for sensitivities, probabilities, deviation, rounds, delta in (
        ([0.0, 1.0, 2.5], [0.75, 0.1875, 0.0625], 3.0, 200, 1e-6),
        ([0.0, 0.37, 0.38, 5.25], [0.5, 0.25, 0.234375, 0.015625], 2.0, 100, 1e-8),
        ([0.5, 1.0], [0.5, 0.5], 10.0, 300, 1e-5),  # never absent
        ([0.0, 1e-3, 3.0], [0.25, 0.7421875, 0.0078125], 1.5, 1000, 1e-5),
        ([0.0, 7.0], [1 - 2.0**-10, 2.0**-10], 4.0, 5000, 1e-9),
    )
]


def composition_of(asked: Case) -> oracle.Composition:
    if "sensitivities" in asked:
        mixture = oracle.Mixture(asked["sensitivities"], asked["probabilities"], asked["standard_deviation"])
        return [(mixture, asked["rounds"])]
    as_doubles = [
        {key: float(value) if key in ("sampling_rate", "noise_multiplier") else value for key, value in phase.items()}
        for phase in asked.get("phases", [asked])
    ]
    return oracle.compose(as_doubles, asked["group_size"])


def solved(asked: Case) -> Case:
    composition = composition_of(asked)
    answers = {}
    for direction in DIRECTIONS:
        if "delta" in asked:
            value = oracle.epsilon(composition, delta=float(asked["delta"]), direction=direction)
            answers[f"epsilon_{direction}"] = value.str(20, radius=False)
        else:
            value = oracle.log_delta(composition, epsilon=float(asked["epsilon"]), direction=direction)
            answers[f"log_delta_{direction}"] = value.str(20, radius=False) if value.is_finite() else "-inf"
    return {**asked, **answers}


def solved_pair(asked: Case) -> Case:
    doubles = {key: float(value) if key in REAL else value for key, value in asked.items()}
    if "counts" in asked:
        doubles["counts"] = [(float(rate), count) for rate, count in asked["counts"]]
    if asked["kind"] == "fixed-batch-substitute":
        return {**asked, **solved_envelope(doubles)}
    answers: Case = {}
    for name, rounds in laws.compositions(doubles).items():
        if "delta" in asked:
            value = oracle.epsilon(rounds, delta=doubles["delta"])
            answers[f"epsilon{name}"] = value.str(20, radius=False)
        elif 1 < sum(times for _, times in rounds) <= 5 and not asked["kind"].startswith(("shuffled", "balls")):
            value = oracle_few_rounds.log_delta(rounds, epsilon=doubles["epsilon"], step=0.01)
            digits = min(answers.get("digits", 99), int(value.rel_accuracy_bits() * 0.3))
            answers |= {f"log_delta{name}": value.str(digits + 1, radius=False), "digits": digits}
        else:
            value = oracle.log_delta(rounds, epsilon=doubles["epsilon"])
            answers[f"log_delta{name}"] = value.str(20, radius=False) if value.is_finite() else "-inf"
    return {**asked, **answers}


def solved_envelope(asked: Case) -> Case:
    one = oracle_envelope.Envelope(
        asked["batch_size"], asked["dataset_size"], asked["group_size"], asked["noise_multiplier"]
    )
    if "delta" in asked:
        return {"epsilon": f"{oracle_envelope.epsilon(one, asked['steps'], delta=asked['delta']):.9g}", "digits": 8}
    value = oracle_envelope.log_delta(one, asked["steps"], epsilon=asked["epsilon"])
    return {"log_delta": f"{value:.9g}", "digits": 8}


def question(entry: Case) -> str:
    asked = {key: value for key, value in entry.items() if not key.startswith(("epsilon_", "log_delta"))}
    asked.pop("digits", None)
    if "delta" in asked:
        asked.pop("epsilon", None)
    return json.dumps(asked)


def written(file: Path, about: str, parts: dict[str, tuple[list[Case], Callable[[Case], Case]]]) -> None:
    """Solves what the file does not have yet; everything with --all."""
    known: dict[str, Case] = {}
    if file.exists() and "--all" not in sys.argv:
        stored = json.loads(file.read_text())
        known = {question(entry): entry for name in parts for entry in stored.get(name, [])}
    contents: dict[str, Any] = {"about": about}
    for name, (asked_for, solve) in parts.items():
        contents[name] = []
        for asked in asked_for:
            start = time.perf_counter()
            entry = known.get(question(asked)) or solve(asked)
            print(f"{time.perf_counter() - start:6.1f} s  {json.dumps(entry)}", file=sys.stderr, flush=True)
            contents[name].append(entry)
            if entry is not known.get(question(asked)):
                file.write_text(json.dumps(contents, indent=1) + "\n")
    file.write_text(json.dumps(contents, indent=1) + "\n")


def main() -> None:
    mixtures = {"cases": (CASES, solved), "log_deltas": (LOG_DELTAS, solved), "mixtures": (MIXTURES, solved)}
    written(FILE, ABOUT, mixtures)
    written(PAIRS_FILE, ABOUT_PAIRS, {"cases": (pair_cases.CASES, solved_pair)})


if __name__ == "__main__":
    main()
