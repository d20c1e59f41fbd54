"""The process that answers, from inside and outside: one question at a time, on standard input and output.

    ask NAME SECONDS LENGTH\\n + LENGTH bytes        ->        STATUS LENGTH\\n + LENGTH bytes
    cancel\\n                                                   the question being answered is given up

It says "ready\\n" once, when the library is loaded. Its argument, if given, is added to its niceness.

A question that takes longer than its seconds, or is cancelled, stops at the next report of progress; a computation
that does not report is ended from outside, by `pool`. End of input ends the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from asyncio.subprocess import PIPE, Process
from typing import Any, BinaryIO

from groupdp._files import command_of
from groupdp.errors import GroupDPError, InvalidArgument, LimitExceeded
from groupdp.printing import json_ready
from groupdp.web import field_of, read_json
from groupdp.web.answers import QUESTIONS


def encode(value: Any) -> bytes:
    """`value` as JSON text; NaN, which no answer has, would be an error."""
    return json.dumps(json_ready(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def error_text(kind: str, sentence: str, *, field: str | None = None, phase: int | None = None) -> bytes:
    """A refusal: what kind it is, the sentence, and the field it is about."""
    return encode({"error": {"kind": kind, "sentence": sentence, "field": field, "phase": phase}})


#: Address space of a worker, in bytes: a question that needs more is refused.
ADDRESS_SPACE = 6 * 2**30
#: How much lower the priority of workers for all but cheap questions is.
NICE = 10

OK, BAD, LIMIT, CANCELLED, BUG = 200, 400, 422, 499, 500


class Worker:
    """A process that answers, from outside."""

    def __init__(self, process: Process, *, is_cheap: bool) -> None:
        if process.stdin is None or process.stdout is None:
            raise AssertionError("a worker must have pipes")
        self._process, self._stdin, self._stdout = process, process.stdin, process.stdout
        self.is_cheap = is_cheap
        """Whether it is for cheap questions."""
        self._is_killed = False

    @classmethod
    async def start(cls, *, is_cheap: bool = True) -> Worker:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [*command_of("groupdp.web.worker"), *(() if is_cheap else (str(NICE),))]
        # Ctrl-C in a terminal goes to everything in the foreground: a session of its own keeps a worker out of that
        # from its first instant. It ends when it is killed, or with its input.
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, env=environment, start_new_session=True
        )
        worker = cls(process, is_cheap=is_cheap)
        try:
            await worker._stdout.readline()  # it says when it has loaded the library
        except asyncio.CancelledError:
            await worker.kill()
            raise
        return worker

    async def ask(self, name: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        """The answer; ConnectionError if the process ends."""
        try:
            self._stdin.write(f"ask {name} {seconds!r} {len(body)}\n".encode() + body)
            await self._stdin.drain()
            status, length = (await self._stdout.readline()).split()
            return int(status), await self._stdout.readexactly(int(length))
        except (ValueError, OSError, asyncio.IncompleteReadError):
            raise ConnectionError("a worker ended") from None

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.returncode is not None

    def cancel(self) -> None:
        """Ask it to stop at the next report of progress."""
        with contextlib.suppress(OSError, RuntimeError):
            self._stdin.write(b"cancel\n")

    async def kill(self) -> None:
        """End it now."""
        if not self._is_killed:  # a second kill may collect the process's status before asyncio does, which complains
            self._is_killed = True
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        await self._process.wait()
        with contextlib.suppress(OSError, RuntimeError):  # its pipes, too, are closed before the loop is
            self._stdin.close()
            await self._stdout.read()
            await self._stdin.wait_closed()


class Cancelled(Exception):
    """The client no longer waits for the answer."""


class Clock:
    """Stops a question at its time limit, or when it is cancelled."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self._seconds = 0.0
        self._until = 0.0

    def start(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = time.monotonic() + seconds

    def progress(self, _: float) -> None:
        """Called by computations, with the fraction done."""
        if self.cancelled.is_set():
            raise Cancelled
        if time.monotonic() > self._until:
            raise LimitExceeded(out_of_time(self._seconds))


def out_of_time(seconds: float) -> str:
    """The sentence of a question that took too long."""
    return (
        f"This question takes longer than {seconds:g} seconds, which is this server's limit; the command line has none."
    )


def answer(name: str, body: bytes, clock: Clock) -> tuple[int, bytes]:
    """The HTTP status and the JSON text that answer a question."""
    try:
        return OK, encode(QUESTIONS[name](read_json(body), clock.progress))
    except InvalidArgument as error:
        return BAD, error_text("invalid-argument", str(error), field=field_of(error), phase=error.phase)
    except (LimitExceeded, GroupDPError) as error:
        return LIMIT, error_text("limit-exceeded", str(error))
    except MemoryError:
        return LIMIT, error_text("limit-exceeded", "This question needs more memory than this server gives it.")
    except Cancelled:
        return CANCELLED, error_text("cancelled", "The question was cancelled.")
    except Exception:
        traceback.print_exc()  # for the server's log; the answer names neither files nor lines
        return BUG, error_text("bug", "A bug in groupdp stopped this question: the server's log has the details.")


def main() -> None:
    """Answer until the input ends."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is not an answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends the input
    _limit_memory()
    if len(sys.argv) > 1 and hasattr(os, "nice"):
        os.nice(int(sys.argv[1]))
    clock = Clock()
    questions: queue.SimpleQueue[tuple[str, float, bytes] | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, questions, clock), daemon=True).start()
    with contextlib.suppress(BrokenPipeError):  # the server has ended
        output.write(b"ready\n")
        output.flush()
        while (question := questions.get()) is not None:
            name, seconds, body = question
            clock.start(seconds)
            status, text = answer(name, body, clock)
            output.write(b"%d %d\n" % (status, len(text)) + text)
            output.flush()
    os._exit(0)


def _read(stream: BinaryIO, questions: queue.SimpleQueue[tuple[str, float, bytes] | None], clock: Clock) -> None:
    for line in stream:
        words = line.split()
        if words and words[0] == b"cancel":
            clock.cancelled.set()
            continue
        name, seconds, length = words[1].decode(), float(words[2]), int(words[3])
        body = stream.read(length)
        clock.cancelled.clear()
        questions.put((name, seconds, body))
    questions.put(None)


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # pragma: no cover (Windows)
        return
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))


if __name__ == "__main__":
    main()
