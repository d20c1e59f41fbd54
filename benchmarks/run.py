"""Run groupdp and its peers on the same work, one call at a time, and write the report.

    python benchmarks/run.py [--quick] [--fresh] [--sections NAME,NAME] [--peers PYTHON] [--limit SECONDS]

Results are stored after every item. A run that was interrupted on the same machine is continued; --fresh begins a
new one. --sections measures these again, beside a finished run on the same machine: an earlier result stays until the
new one is there, and a section counts as measured again once all of it is. --quick is a smoke test of about a minute,
with results and report in build/benchmarks. The truth is what truth.json has: `python benchmarks/truth.py` computes
what it lacks, in hours.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import math
import os
import platform
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import report
import truth
import work
from tools import Tool

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
#: Seconds a single call may take, by section; the scans have many calls and get less.
LIMITS = {section: 150.0 if section in ("paper", "accuracy", "calibration") else 60.0 for section in report.SECTIONS}
QUICK_LIMIT = 30.0
#: (calls that take less than so many seconds, are made so often); a longer one is made once.
REPETITIONS = ((0.01, 101), (0.1, 15), (1.0, 5), (5.0, 3))
#: Calls made more often than SLOW are made in so many turns with the other tools: the machine's pace changes.
TURNS, SLOW = 5, 5


def main() -> None:
    arguments = _arguments()
    items = work.quick_items() if arguments.quick else work.items()
    folder = ROOT / "build" / "benchmarks" if arguments.quick else HERE
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "results.json"
    same = arguments.limit or (QUICK_LIMIT if arguments.quick else None)
    limits = {**LIMITS, **dict.fromkeys(arguments.sections or LIMITS, same)} if same else LIMITS
    results = _begin(file, limits, fresh=arguments.fresh or arguments.quick, sections=arguments.sections)
    chosen = [one for one in items if not arguments.sections or one["section"] in arguments.sections]
    truths: dict[str, Any] = collections.defaultdict(dict, truth.known())
    again = {report.result_key(one, setting) for one in chosen for setting in one["settings"]}
    again = again if arguments.sections else set()
    tools: dict[str, Tool] = {}
    try:
        for number, one in enumerate(chosen, start=1):
            print(f"[{number}/{len(chosen)}] {one['section']}: {one['label']}", flush=True)
            quick: list[Callable[[], None]] = []
            for setting in one["settings"]:
                adapter = setting["adapter"]
                if adapter not in tools:
                    ours = adapter == "groupdp_bounds"
                    tools[adapter] = Tool(adapter, Path(sys.executable if ours else arguments.peers))
                quick += _run(results, one, setting, tools[adapter], truths, limits[one["section"]], again)
                results["tools"][adapter] = (
                    tools[adapter].versions or results["tools"].get(adapter) or {"failure": tools[adapter].failure}
                )
                _store(file, results)
            for _ in range(TURNS - 1):
                for turn in quick:
                    turn()
            if arguments.sections and one["section"] not in {later["section"] for later in chosen[number:]}:
                results.setdefault("measured", {})[one["section"]] = {"at": _now(), "load": os.getloadavg()[0]}
            _store(file, results)
    finally:
        for tool in tools.values():
            tool.stop()
    results.setdefault("finished", _now())
    _store(file, results)
    docs = folder if arguments.quick else report.FOLDER
    report.write(results, truths, items, docs)
    print(f"wrote {docs / 'benchmarks.md'}", flush=True)


def _run(
    results: dict[str, Any],
    one: work.Item,
    setting: work.Setting,
    tool: Tool,
    truths: dict[str, Any],
    limit: float,
    again: set[str],
) -> list[Callable[[], None]]:
    """One tool at one setting on one item, repeated if it is quick; nothing if that has been done already, unless it is
    to be done again.

    What is returned makes another turn of a quick call and takes the median over all turns.
    """
    key = report.result_key(one, setting)
    name = f"{setting['tool']}, {setting['name']}"
    if key in results["results"] and key not in again:
        return []
    again.discard(key)
    known = truths[truth.key_of(one)]
    sent = {name: one[name] for name in ("question", "phases", "group_size", "delta", "adjacency")}
    if one["question"] == "noise":
        if "epsilon" not in known:
            return []
        sent["target_epsilon"] = float(known["epsilon"])
        sent["phases"] = [{n: v for n, v in p.items() if n != "noise_multiplier"} for p in one["phases"]]
    answer = tool.call(sent, setting["options"], limit=limit)
    wanted = 1
    if "seconds" in answer and "error" not in answer:
        wanted = next((count for below, count in REPETITIONS if answer["seconds"] < below), 1)
    in_turns = wanted > SLOW
    calls = -(-wanted // TURNS) if in_turns else wanted
    if wanted > 1:
        again = tool.call(sent, setting["options"], limit=limit, calls=calls)
        answer = again if "seconds" in again and "error" not in again else answer
    for side in ("value", "lower"):
        if side in answer and (answer[side] is None or not math.isfinite(answer[side])):
            answer[side] = str(answer[side])
    results["results"][key] = answer
    took = f"{answer['seconds']:.4g} s" if "seconds" in answer else ""
    said = answer.get("error") or (f"no answer in {limit:g} s" if "timeout" in answer else answer["value"])
    print(f"    {name}: {said}  {took}", flush=True)
    turns = [answer.get("seconds", math.inf)]

    def turn() -> None:
        more = tool.call(sent, setting["options"], limit=limit, calls=calls)
        if "seconds" in more and "error" not in more:
            turns.append(more["seconds"])
            answer["seconds"] = statistics.median(turns)
            answer["calls"] = calls * len(turns)

    return [turn] if in_turns else []


def _begin(file: Path, limits: dict[str, float], *, fresh: bool, sections: list[str]) -> dict[str, Any]:
    """Results so far if a run on this machine was interrupted, else an empty table."""
    machine = _machine()
    if file.exists() and not fresh:
        stored: dict[str, Any] = json.loads(file.read_text())
        if sections and stored["machine"] == machine:
            return {**stored, "limits": limits}
        if "finished" not in stored and stored["machine"] == machine and stored["limits"] == limits:
            print(f"continuing a run that has {len(stored['results'])} results", flush=True)
            stored["started"].append(_now())
            return stored
    return {"machine": machine, "limits": limits, "started": [_now()], "tools": {}, "results": {}}


def _store(file: Path, results: dict[str, Any]) -> None:
    new = file.with_suffix(".new")
    new.write_text(json.dumps(results, indent=1) + "\n")
    new.replace(file)


def _machine() -> dict[str, Any]:
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        names = [line.split(":", 1)[1].strip() for line in information.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a smoke test of about a minute")
    parser.add_argument("--fresh", action="store_true", help="begin anew instead of continuing")
    parser.add_argument("--peers", default=str(ROOT / ".venv-bench" / "bin" / "python"), help="the peers' Python")
    parser.add_argument("--sections", type=lambda text: text.split(","), default=[], help="measure these again")
    parser.add_argument("--limit", type=float, help="seconds a call may take, the same in every section")
    return parser.parse_args()


if __name__ == "__main__":
    main()
