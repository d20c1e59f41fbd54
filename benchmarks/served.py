"""A groupdp server of its own for a measurement, on any free port."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

#: The paper's setting.
PHASE = {"sampling": "poisson", "sampling_rate": 0.01, "noise_multiplier": 1, "steps": 2000}
DELTA = 1e-6
GROUP_SIZES = list(range(1, 33))


@contextlib.contextmanager
def server() -> Iterator[int]:
    """The port of a server that runs until the block ends."""
    program = "from groupdp.cli import main; main()"
    command = [sys.executable, "-c", program, "serve", "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert process.stdout is not None
    found = re.search(r":(\d+)/", process.stdout.readline())
    if found is None:
        raise SystemExit("groupdp serve did not start.")
    try:
        yield int(found[1])
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)


def quantile(values: list[float], share: float) -> float:
    """The value that `share` of them do not exceed."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def load() -> str:
    """How busy the machine is: the number every time measured here depends on."""
    average = os.getloadavg()[0]
    return f"load average {average:.1f} on {os.cpu_count()} processors"
