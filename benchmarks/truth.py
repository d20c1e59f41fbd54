"""The truth for the error columns: golden tables and the tests' oracle in ball arithmetic, never groupdp.

    python benchmarks/truth.py          compute what truth.json does not have yet

Values are the worse of the two directions. What the oracle cannot do within its time is recorded as such, and
has no error column.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import work

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent / "tests"
FILE = HERE / "truth.json"
#: Seconds the oracle may take for one value.
LIMIT = 400.0

Truth = dict[str, Any]


def known() -> dict[str, Truth]:
    """What has been computed before, by question."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def key_of(one: work.Item) -> str:
    """The truth belongs to the run, whether its epsilon is asked for or its noise multiplier."""
    return work.key_of({**one, "question": "epsilon"})


def complete(items: list[work.Item]) -> dict[str, Truth]:
    """The truth for all items; missing ones are computed and stored."""
    table, golden = known(), _golden()
    for one in items:
        key = key_of(one)
        if key in table:
            continue
        table[key] = golden.get(_comparable(one)) or _by_oracle(one)
        print(f"truth  {one['section']}, {one['label']}: {table[key]}", flush=True)
        FILE.write_text(json.dumps(table, indent=1) + "\n")
    return table


def _golden() -> dict[str, Truth]:
    """The golden table of the tests, made in 80-bit and 160-bit arithmetic, good to 1e-13 relative."""
    result = {}
    for case in json.loads((TESTS / "golden" / "epsilon.json").read_text())["cases"]:
        fields = ("sampling", "sampling_rate", "batch_size", "dataset_size", "noise_multiplier", "steps")
        phases = case.get("phases") or [{name: case[name] for name in fields if name in case}]
        phases = [{"sampling": "poisson", **phase} for phase in phases]
        epsilon = max(case["epsilon_remove"], case["epsilon_add"], key=Fraction)
        one = {"phases": phases, "group_size": case["group_size"], "delta": case["delta"]}
        result[_comparable(one)] = {"epsilon": epsilon, "source": "golden table"}
    for case in json.loads((TESTS / "golden" / "pairs.json").read_text())["cases"]:
        if case["kind"] == "poisson-substitute" and case["removed"] == case["added"]:
            phase = {"sampling": "poisson", **{n: case[n] for n in ("sampling_rate", "noise_multiplier", "steps")}}
            one = {"phases": [phase], "group_size": case["removed"], "delta": case["delta"], "adjacency": "substitute"}
            result[_comparable(one)] = {"epsilon": case["epsilon"], "source": "golden table"}
    return result


def _comparable(one: dict[str, Any]) -> str:
    """The question with numbers compared by value: "1.0" and "1" are the same."""
    phases = [
        sorted((n, v if n in ("sampling", "mechanism") else str(Fraction(v))) for n, v in p.items())
        for p in one["phases"]
    ]
    adjacency = one.get("adjacency", "add-or-remove")
    return json.dumps([phases, one["group_size"], str(Fraction(one["delta"])), adjacency])


def _by_oracle(one: work.Item) -> Truth:
    queue: multiprocessing.Queue[Truth] = multiprocessing.Queue()
    process = multiprocessing.Process(target=_oracle, args=(one, queue))
    process.start()
    try:
        return queue.get(timeout=LIMIT)
    except Exception:
        return {"unavailable": f"the oracle needs more than {LIMIT:g} s"}
    finally:
        process.kill()
        process.join()


def _oracle(one: work.Item, queue: multiprocessing.Queue[Truth]) -> None:
    """In a process of its own. The oracle gets the doubles that the tools get, at their exact binary value."""
    sys.path.insert(0, str(TESTS))
    import oracle

    phases = [
        {n: float(v) if isinstance(v, str) and n != "sampling" else v for n, v in p.items()} for p in one["phases"]
    ]
    try:
        if one["adjacency"] != "add-or-remove":
            raise ValueError(f"no oracle here for {one['adjacency']}")
        composition = oracle.compose(phases, group_size=one["group_size"])
        found = [
            oracle.epsilon(composition, delta=float(one["delta"]), direction=direction)
            for direction in ("remove", "add")
        ]
        best = max(found, key=lambda ball: float(ball.mid()))
        queue.put({"epsilon": best.mid().str(20, radius=False), "radius": float(best.rad()), "source": "oracle"})
    except Exception as error:  # the table says why there is no truth
        queue.put({"unavailable": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    complete(work.items())
