"""One tool in a process of its own: a line of JSON in, a line of JSON out, so many timed calls per line.

    python benchmarks/worker.py ADAPTER MEGABYTES

The tool's own output goes to stderr. Memory is limited, so that a tool that asks for too much says so itself.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import statistics
import sys
import time
import warnings
from typing import Any

#: The call every tool makes once, untimed, after it has been imported.
WARM_UP: dict[str, Any] = {
    "question": "epsilon",
    "group_size": 1,
    "delta": "1e-5",
    "adjacency": "add-or-remove",
    "phases": [{"sampling": "poisson", "sampling_rate": "0.02", "noise_multiplier": "3", "steps": 300}],
}


def main() -> None:
    name, megabytes = sys.argv[1], int(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        adapter = importlib.import_module(f"peers.{name}")
        hello = {"versions": adapter.versions()}
    except Exception as error:  # whatever goes wrong in a tool is its answer
        _send(answers, {"error": _message(error)})
        return
    limit = megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    _send(answers, hello)
    for line in sys.stdin:
        request = json.loads(line)
        work, options = request["work"] or WARM_UP, request["options"]
        answers_made = [_answer(adapter, work, options) for _ in range(request["calls"])]
        times = [one["seconds"] for one in answers_made if "seconds" in one]
        if times:
            answers_made[-1]["seconds"] = statistics.median(times)
        _send(answers, {**answers_made[-1], "calls": len(times)})


def _answer(adapter: Any, work: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """One call, timed by itself: what prepares it is not."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        start = cpu = 0.0
        try:
            call = adapter.prepare(work, options)
            start, cpu = time.perf_counter(), time.process_time()
            answer = dict(call())
        except BaseException as error:  # whatever goes wrong in a tool is its answer
            answer = {"error": _message(error)}
        if start:
            answer["seconds"] = time.perf_counter() - start
            answer["cpu_seconds"] = time.process_time() - cpu
    if caught:
        answer["warning"] = " ".join(str(caught[0].message).split())[:300]
    return answer


def _message(error: BaseException) -> str:
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _send(answers: Any, answer: dict[str, Any]) -> None:
    print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
