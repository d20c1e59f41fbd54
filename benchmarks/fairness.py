"""How late quick answers are while another client has 60 curves and 20 baselines in flight.

    .venv/bin/python benchmarks/fairness.py --seconds 20

The other client asks from 127.0.0.2 where the machine has that address, else from the same one; as soon as one of its
questions is answered or refused it asks the next.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time

from served import DELTA, GROUP_SIZES, PHASE, quantile, server

CURVE = {"phases": [PHASE], "delta": DELTA, "group_sizes": GROUP_SIZES}
BASELINE = {"phases": [PHASE], "delta": DELTA, "name": "fdp", "group_sizes": list(range(20, 60))}
QUICK = {"phases": [PHASE], "delta": DELTA, "group_size": 9}


async def ask(port: int, name: str, document: object, source: str) -> int:
    """The status of an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    body = json.dumps(document).encode()
    head = f"POST /api/{name} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    answer = await reader.read()
    writer.close()
    return int(answer.split(None, 2)[1])


async def heavy(port: int, name: str, document: dict[str, object], until: float, seen: dict[str, int]) -> None:
    """One of the other client's questions in flight, again and again."""
    number = 0
    while time.monotonic() < until:
        number += 1
        phase = {**PHASE, "noise_multiplier": 0.8 + 0.001 * number}
        status = await ask(port, name, {**document, "phases": [phase]}, "127.0.0.2")
        seen[f"{name} {status}"] = seen.get(f"{name} {status}", 0) + 1


async def measure(port: int, seconds: float) -> None:
    """Print how late the quick answers are, and what became of the others."""
    await ask(port, "epsilon", QUICK, "127.0.0.1")
    seen: dict[str, int] = {}
    until = time.monotonic() + seconds
    load = [heavy(port, "curve", CURVE, until, seen) for _ in range(60)]
    load += [heavy(port, "baseline", BASELINE, until, seen) for _ in range(20)]
    tasks = [asyncio.ensure_future(one) for one in load]
    await asyncio.sleep(1.0)
    times, statuses, number = [], set(), 0
    while time.monotonic() < until:
        number += 1
        phase = {**PHASE, "noise_multiplier": 1.0 + 0.001 * number}
        started = time.monotonic()
        statuses.add(await ask(port, "epsilon", {**QUICK, "phases": [phase]}, "127.0.0.1"))
        times.append(time.monotonic() - started)
        await asyncio.sleep(0.05)
    for task in tasks:
        task.cancel()
    late = {share: round(1000.0 * quantile(times, share), 1) for share in (0.5, 0.95, 1.0)}
    print(f"{len(times)} quick answers, statuses {sorted(statuses)}, milliseconds by quantile: {late}; others: {seen}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    with server() as port:
        asyncio.run(measure(port, arguments.seconds))


if __name__ == "__main__":
    main()
