"""How long a person waits: start-up and the common commands, each in a process of its own.

    python benchmarks/waiting.py

Processor time (user and system) hardly depends on what else the machine does; the wall clock does. Of both the least of
a few runs is shown. A limit, of those that the project set itself, is kept if either is within it: on an idle machine
what runs on several processors takes less by the clock, and everything else as long as on its one. Python may keep
compiled modules, as it does unless told otherwise: the first run of each command is not counted.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPETITIONS = 3
RUN = "--sampling-rate 0.01 --noise-multiplier 1 --steps 2000"
#: What is typed, and the seconds it may take.
COMMANDS = (
    ("--version", 0.3),
    (f"epsilon {RUN} --delta 1e-6 --group-size 9", 0.3),
    (f"epsilon {RUN.replace('2000', '5')} --delta 1e-6 --group-size 9", 1.0),
    (f"epsilon {RUN} --delta 1e-6 --group-size 100000", 1.0),
    (f"curve {RUN} --delta 1e-6 --plot curve.png", 2.0),
    (f"tradeoff {RUN} --group-size 4 --plot tradeoff.png", 2.0),
    ("figures --out figures", 2.0),
    (f"sweep {RUN} --delta 1e-6 --vary noise_multiplier=0.5:4:200 --vary group_size=1:50 --out grid.csv", 2.0),
)


def main() -> None:
    print(f"this processor, now: {_yardstick():.2f} s for a loop of three million additions")
    print(f"{'processor s':>11}  {'wall s':>7}  {'limit s':>7}  command")
    for line, limit in COMMANDS:
        _timed(line)
        processor, wall = map(min, zip(*(_timed(line) for _ in range(REPETITIONS)), strict=True))
        note = "" if min(processor, wall) <= limit else "  (above)"
        print(f"{processor:11.2f}  {wall:7.2f}  {limit:7.1f}  groupdp {line}{note}")


def _yardstick() -> float:
    """How fast the machine happens to be: shared ones differ by a factor of two from hour to hour."""
    program = "s = 0\nfor i in range(3_000_000): s += i"
    best = float("inf")
    for _ in range(REPETITIONS):
        begun = time.process_time()
        exec(program, {})
        best = min(best, time.process_time() - begun)
    return best


def _timed(line: str) -> tuple[float, float]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    script = Path(sys.executable).with_name("groupdp")
    with tempfile.TemporaryDirectory() as folder:
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([script, *line.split()], cwd=folder, env={**environment, "OMP_NUM_THREADS": "1"},
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)  # fmt: skip
        wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, wall


if __name__ == "__main__":
    main()
