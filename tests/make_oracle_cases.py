"""Writes tests/data/oracle_cases.json: what the oracle says, never what the package says.

.venv/bin/python tests/make_oracle_cases.py          # only cases that the file does not have yet
.venv/bin/python tests/make_oracle_cases.py --all    # everything again (about ten minutes)
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import oracle

FILE = Path(__file__).parent / "data" / "oracle_cases.json"
ABOUT = (
    "By tests/oracle.py in 256-bit ball arithmetic, each value on two contours that agree to 1e-18 or better. "
    "Real parameters are doubles: '0.01' means the double nearest to 0.01, at its exact binary value. "
    "'fixed' means 2 x Hypergeom(batch_size, dataset_size + group_size, group_size). "
    "Written by tests/make_oracle_cases.py."
)
Case = dict[str, Any]


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
    # small and large noise
    case(poisson(0.01, 0.3, 1000), 1, 1e-5),
    case(poisson(0.01, 0.4, 500), 1, 1e-3),
    case(poisson(0.02, 30.0, 100_000), 48, 1e-6),
    case(poisson(0.004, 100.0, 1_000_000), 64, 1e-6),
    # deltas from 1e-2 to 1e-300
    case(poisson(0.05, 2.0, 1000), 4, 1e-2),
    case(poisson(0.05, 2.0, 1000), 4, 1e-20),
    case(poisson(0.05, 2.0, 1000), 4, 1e-60),
    case(poisson(0.05, 2.0, 1000), 4, 1e-300),
    case(poisson(0.1, 1.0, 50), 1, 1e-300),
    # fixed batches, small datasets included
    case(fixed(8, 20, 4.0, 50), 5, 1e-5),
    case(fixed(20, 20, 10.0, 100), 7, 1e-4),
    case(fixed(3, 40, 2.5, 200), 12, 1e-5),
    case(fixed(100, 1_000_000, 1.5, 30_000), 9, 1e-6),
    # schedules
    case([poisson(0.01, 1.0, 1000), poisson(0.02, 1.5, 500)], 4, 1e-6),
    case([poisson(0.01, 0.9, 500), fixed(32, 2000, 3.0, 800), poisson(0.3, 20.0, 100)], 6, 1e-7),
]


def solved(asked: Case) -> Case:
    phases = asked.get("phases", [asked])
    as_doubles = [
        {key: float(value) if key in ("sampling_rate", "noise_multiplier") else value for key, value in phase.items()}
        for phase in phases
    ]
    composition = oracle.compose(as_doubles, asked["group_size"])
    answers = {
        f"epsilon_{direction}": oracle.epsilon(composition, delta=float(asked["delta"]), direction=direction).str(
            20, radius=False
        )
        for direction in ("remove", "add")
    }
    return {**asked, **answers}


def main() -> None:
    known: dict[str, Case] = {}
    if FILE.exists() and "--all" not in sys.argv:
        for entry in json.loads(FILE.read_text())["cases"]:
            question = {key: value for key, value in entry.items() if not key.startswith("epsilon_")}
            known[json.dumps(question)] = entry
    entries = []
    for asked in CASES:
        start = time.perf_counter()
        entry = known.get(json.dumps(asked)) or solved(asked)
        print(f"{time.perf_counter() - start:6.1f} s  {json.dumps(entry)}", file=sys.stderr, flush=True)
        entries.append(entry)
        FILE.write_text(json.dumps({"about": ABOUT, "cases": entries}, indent=1) + "\n")


if __name__ == "__main__":
    main()
