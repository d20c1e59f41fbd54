"""Fifty clients dragging at once for a minute: how many answers, how late, how many wrong, how many lost.

Every client has a connection of its own and behaves as the page does: it asks for the curve of 32 group sizes at the
newest place of its slider as soon as the last answer is there, at most 60 times a second. Every answer is compared with
the library's, double by double.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time

from served import DELTA, GROUP_SIZES, PHASE, load, quantile, server

import groupdp

HEAD = "POST /api/curve HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: "
#: Noise multipliers that the sliders pass through.
NOISES = [round(0.6 + 0.02 * place, 2) for place in range(120)]


class Tally:
    """What all clients saw."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.wrong = 0
        self.lost = 0
        self.refused: dict[int, int] = {}


async def client(port: int, number: int, until: float, expected: dict[float, list[float]], tally: Tally) -> None:
    """One client, from its own place on the slider."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    place = 7 * number
    while time.monotonic() < until:
        place += 1
        noise = NOISES[place % len(NOISES)]
        question = {"phases": [{**PHASE, "noise_multiplier": noise}], "delta": DELTA, "group_sizes": GROUP_SIZES}
        body = json.dumps(question).encode()
        started = time.monotonic()
        try:
            writer.write(f"{HEAD}{len(body)}\r\n\r\n".encode() + body)
            status, answer = await asyncio.wait_for(response(reader), 60.0)
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            tally.lost += 1
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            continue
        tally.times.append(time.monotonic() - started)
        if status != 200:
            tally.refused[status] = tally.refused.get(status, 0) + 1
        elif [point["epsilon"]["upper"] for point in json.loads(answer)["points"]] != expected[noise]:
            tally.wrong += 1
        await asyncio.sleep(max(0.0, 1 / 60 - (time.monotonic() - started)))
    writer.close()


async def response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The status and the body of an answer."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
    return int(head.split()[1]), await reader.readexactly(length)


async def drag(port: int, clients: int, seconds: float, expected: dict[float, list[float]]) -> Tally:
    tally = Tally()
    until = time.monotonic() + seconds
    await asyncio.gather(*(client(port, number, until, expected, tally) for number in range(clients)))
    return tally


def upper_sides(noise: float) -> list[float]:
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=noise, steps=2000)
    return [groupdp.epsilon(run, delta=DELTA, group_size=size).upper for size in GROUP_SIZES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    expected = {noise: upper_sides(noise) for noise in NOISES}
    with server() as port:
        tally = asyncio.run(drag(port, options.clients, options.seconds, expected))
    count = len(tally.times)
    print(f"{options.clients} clients dragging for {options.seconds:g} s ({load()}):")
    print(f"  {count} curves, {count / options.seconds:.0f} a second")
    milliseconds = [1e3 * quantile(tally.times, share) for share in (0.5, 0.95, 1.0)]
    print("  median {:.0f} ms, 95th percentile {:.0f} ms, longest {:.0f} ms".format(*milliseconds))
    print(f"  wrong {tally.wrong}, lost {tally.lost}, refused {sum(tally.refused.values())} {tally.refused or ''}")
    raise SystemExit(1 if tally.wrong or tally.lost else 0)


if __name__ == "__main__":
    main()
