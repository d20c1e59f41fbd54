"""Claims for the checker, made from golden values that share nothing with it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from decimal import Context, Decimal
from typing import Any

from paths import DATA

_EXACT = Context(prec=32)
#: Values for whatever a file says.
ABSURD: list[Any] = [None, True, -1, 0, 1e308, -1e308, 10**400, 5e-324, "1", [], {}, [[]], 0.5, 10**9, 1e-9]


def read(name: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((DATA / name).read_text())["cases"]
    return cases


def about(run: dict[str, Any] | list[dict[str, Any]], epsilon: str, delta: str, **group: Any) -> dict[str, Any]:
    """A claim without its bounds: what it is about, and the truth."""
    run = run if isinstance(run, list) else [run]
    tight = all(phase["sampling"] in ("poisson", "poisson-sources", "fixed-batch") for phase in run)
    return {"claim": {"run": run, "delta": delta, "tight": tight, **group}, "epsilon": epsilon}


def claim(truth: dict[str, Any], lower: str, upper: str) -> dict[str, Any]:
    """The claim that epsilon is between (1 + lower) and (1 + upper) times the truth."""
    sides = {"lower": lower, "upper": upper}
    factors = {side: _EXACT.add(Decimal(1), Decimal(by)) for side, by in sides.items()}
    moved = {side: _EXACT.multiply(Decimal(truth["epsilon"]), factor) for side, factor in factors.items()}
    return {**truth["claim"], "epsilon": {side: format(value, "f") for side, value in moved.items()}}


def golden() -> Iterator[dict[str, Any]]:
    """Every golden epsilon for which the checker has a law."""
    for case in read("epsilon.json"):
        names = {"fixed": "fixed-batch", "poisson": "poisson"}
        fields = ("sampling_rate", "batch_size", "dataset_size", "noise_multiplier", "steps")
        run = [
            {"sampling": names[case["sampling"]], **{name: phase[name] for name in fields if name in phase}}
            for phase in case.get("phases", [case])
        ]
        for way in ("remove", "add"):
            yield about(run, case[f"epsilon_{way}"], case["delta"], adjacency=way, group_size=case["group_size"])
    for case in read("pairs.json"):
        yield from _of_a_pair(case)


def _of_a_pair(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    kind, delta, noise = case["kind"], case["delta"], {"noise_multiplier": case["noise_multiplier"]}
    if kind == "poisson-substitute":
        run = {"sampling": "poisson", "sampling_rate": case["sampling_rate"], "steps": case["steps"], **noise}
        if case["removed"] >= case["added"]:  # the claim is about both orders, and this one is worse
            group = {name: case[name] for name in ("removed", "added")}
            yield about(run, case["epsilon"], delta, adjacency="removed-and-added", **group)
    elif kind in ("truncated-poisson", "sources"):
        if kind == "sources":
            rates = {f"source {i}": rate for i, (rate, _) in enumerate(case["counts"])}
            size: Any = {f"source {i}": count for i, (_, count) in enumerate(case["counts"])}
            run = {"sampling": "poisson-sources", "sampling_rates": rates, "steps": case["steps"], **noise}
        else:
            fields = ("sampling_rate", "largest_batch", "dataset_size", "steps")
            size, run = case["group_size"], {"sampling": kind, **{name: case[name] for name in fields}, **noise}
        for way in ("remove", "add"):
            yield about(run, case[f"epsilon_{way}"], delta, adjacency=way, group_size=size)
    elif kind == "shuffled":
        batch, batches = case["batch_size"], case["batches"]
        run = {"sampling": kind, "batch_size": batch, "dataset_size": batch * batches, **noise}
        run["steps"] = batches * case["epochs"]
        yield about(run, case["epsilon"], delta, adjacency="zero-out", group_size=case["group_size"])
    elif kind == "fixed-batch-substitute":
        sizes = {name: case[name] for name in ("batch_size", "dataset_size")}
        run = {"sampling": "fixed-batch", **sizes, "steps": case["steps"], **noise}
        truth = about(run, case["epsilon"], delta, adjacency="substitute", group_size=case["group_size"])
        yield {"claim": {**truth["claim"], "tight": False}, "epsilon": case["epsilon"], "digits": case["digits"]}
    elif kind == "balls-in-bins":
        run = {"sampling": kind, "batches": case["batches"], "steps": case["batches"] * case["epochs"], **noise}
        yield about(run, case["epsilon"], delta, adjacency="add-or-remove", group_size=case["group_size"])


def margin(truth: dict[str, Any]) -> str:
    """How far from the truth claims are made, relatively: well above what is known of it."""
    return "1e-7" if "digits" in truth else "1e-9"


def named(truth: dict[str, Any]) -> str:
    """For the names of tests."""
    about = truth["claim"]
    group = about.get("group_size", (about.get("removed"), about.get("added")))
    size = sum(group.values()) if isinstance(group, dict) else group
    noise = about["run"][0]["noise_multiplier"]
    return f"{about['run'][0]['sampling']}-sigma{noise}-{about['adjacency']}-k{size}-{about['delta']}"


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path into a JSON document."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        found += places(part, (*path, key))
    return found


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(document)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed
