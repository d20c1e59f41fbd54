"""A command as a process: its first screen, its standard streams, and how a signal ends it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from groupdp._version import VERSION

FIRST_SCREEN = """\
groupdp: what privacy does a person with k examples have?

Compute epsilon, and save the run to a file:
  groupdp epsilon --sampling poisson --batch-size 256 \\
      --dataset-size 60000 --epochs 15 \\
      --noise-multiplier 1 --delta 1e-6 --group-size 9 \\
      --save run.toml
Say what it means, and find the noise for epsilon = 8:
  groupdp statement run.toml --short
  groupdp calibrate noise run.toml --epsilon 8

groupdp --help lists all commands,
groupdp COMMAND --help explains one."""


def version_line() -> str:
    """The answer to --version; it says where the compiled engine is missing."""
    note = "" if has_compiled_engine() else " (without the compiled engine: the lattice engine answers, more slowly)"
    return f"groupdp {VERSION}{note}"


def has_compiled_engine() -> bool:
    """Whether the extension was built, without loading it."""
    folder = Path(__file__).resolve().parents[1] / "engines" / "spectral"
    return any((folder / f"_kernel{suffix}").exists() for suffix in EXTENSION_SUFFIXES)


_CLOSED = "The standard output is closed: there is nowhere to write the answer to."


def check_streams() -> None:
    """End with one sentence if the standard output is closed; replace a closed standard error by the null device.

    Descriptor 2 must be open: the next file that is opened would get it, and with it what libraries print to stderr.
    """
    if sys.stderr is None:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        if descriptor != 2:  # the input or the output is closed as well
            os.dup2(descriptor, 2)
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        print(_CLOSED, file=sys.stderr)
        sys.exit(2)


def printed(text: str) -> int:
    """Print an answer; the exit status. A closed pipe is not an error."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        write_no_more()
    except OSError as error:
        return not_written(error)
    return 0


def not_written(error: OSError) -> int:
    """Say why the answer is not there; the exit status."""
    write_no_more()
    print(f"The answer could not be written to the standard output: {error.strerror}.", file=sys.stderr)
    return 2


def write_no_more() -> None:
    """Discard the rest of an output that cannot be written: flushing it at exit would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt inside the block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def interrupted_after(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM call `stop` inside the block, and have their usual effect after it.

    For a block that ends by itself after `stop`, and must not be interrupted in the middle of a line.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    noted: list[int] = []

    def note(number: int, _: Any) -> None:
        noted.append(number)
        stop()

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if noted:
        signal.raise_signal(noted[0])
