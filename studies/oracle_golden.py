"""The independent oracle (tests/oracle) on every golden case: epsilon.json and pairs.json.

    PYTHONPATH=tests python studies/oracle_golden.py [--first 0]

Prints each relative difference, and the largest of each kind; exit status 1 if one exceeds what the table promises.
About five minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from flint import arb

import oracle
from oracle import envelope, laws
from paths import DATA

#: Relative differences allowed: tables of 15 to 17 digits, envelopes of 8.
EXACT, EIGHT_DIGITS = 1e-15, 5e-9


def differences(case: dict[str, Any]) -> list[float]:
    if "kind" not in case:
        composition = oracle.compose(case.get("phases", [case]), case["group_size"])
        compositions = {f"_{d}": oracle.rounds_of(composition, d) for d in ("remove", "add")}
    elif case["kind"] == "fixed-batch-substitute":
        sizes = (case[name] for name in ("batch_size", "dataset_size", "group_size", "noise_multiplier"))
        value = envelope.epsilon(envelope.Envelope(*sizes), case["steps"], delta=float(case["delta"]))
        return [abs(value / float(case["epsilon"]) - 1.0)]
    else:
        compositions = laws.compositions(case)
    return [
        float(abs(oracle.epsilon(rounds, delta=case["delta"]) / arb(case[f"epsilon{name}"]) - 1).mid())
        for name, rounds in compositions.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="how many cases to skip")
    first = parser.parse_args().first
    tables = [json.loads((DATA / f"{name}.json").read_text()) for name in ("pairs", "epsilon")]
    cases = [case for table in tables for case in table["cases"]]
    worst: dict[str, float] = {}
    for number, case in enumerate(cases[first:], start=first):
        kind = case.get("kind", "mixture")
        found = max(differences(case))
        worst[kind] = max(worst.get(kind, 0.0), found)
        print(f"{number:4d}  {kind:24s} {found:.1e}", flush=True)
    print(*(f"{kind}: {value:.1e}" for kind, value in worst.items()), sep="\n")
    allowed = {kind: EIGHT_DIGITS if kind == "fixed-batch-substitute" else EXACT for kind in worst}
    sys.exit(any(value > allowed[kind] for kind, value in worst.items()))


if __name__ == "__main__":
    main()
