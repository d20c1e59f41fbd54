"""Processes that answer questions, with time limits and cancellation.

Two lanes: questions known to take long (`SLOW`) have `slow` workers of their own, all others `quick`; each lane is a
queue. A question in the quick lane that outgrows `young_seconds` frees its turn and goes on as an old one, of which
there are at most `old`; one more is refused with a sentence. So however many heavy questions come, the quick ones keep
all their workers, and no question takes or waits longer than `seconds`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from groupdp._processes import command_of
from groupdp.web import json_text
from groupdp.web.worker import CANCELLED, LIMIT, out_of_time

#: Questions that take long as a rule.
SLOW = frozenset({"baseline", "tradeoff"})
#: How long a worker that was told to stop may take before it is ended, in seconds.
GRACE = 1.0
UNAVAILABLE = 503


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the pool may spend."""

    quick: int = max(2, os.cpu_count() or 2)
    slow: int = 2
    old: int = 2
    young_seconds: float = 1.0
    seconds: float = 30.0
    """The longest that any question may take."""
    waiting: int = 500
    """Most questions that wait for their turn."""


class Worker:
    """One process."""

    def __init__(self, process: Process) -> None:
        if process.stdin is None or process.stdout is None:
            raise AssertionError("a worker must have pipes")
        self._process, self._stdin, self._stdout = process, process.stdin, process.stdout

    @classmethod
    async def start(cls) -> Worker:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = command_of("groupdp.web.worker")
        # Ctrl-C in a terminal goes to everything in the foreground: a session of its own keeps a worker out of that
        # from its first instant. It ends when it is killed, or with its input.
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, env=environment, start_new_session=True
        )
        worker = cls(process)
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
        """Whether the process is there no more."""
        return self._process.returncode is not None

    def cancel(self) -> None:
        """Ask it to stop at the next report of progress."""
        with contextlib.suppress(OSError, RuntimeError):
            self._stdin.write(b"cancel\n")

    async def kill(self) -> None:
        """End it now."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        with contextlib.suppress(OSError, RuntimeError):  # its pipes, too, are closed before the loop is
            self._stdin.close()
            await self._stdout.read()
            await self._stdin.wait_closed()


class Pool:
    """The workers, and who may use them when."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits if limits is not None else Limits()
        self._idle: asyncio.Queue[Worker] = asyncio.Queue()
        self._turns = {False: asyncio.Semaphore(self.limits.quick), True: asyncio.Semaphore(self.limits.slow)}
        self._waiting = 0
        self._old = 0
        self._workers: set[Worker] = set()
        self._replacements: set[asyncio.Task[None]] = set()
        self._stopped = False

    async def start(self) -> None:
        """Start every worker; the first questions are answered as soon as one has loaded the library."""
        for _ in range(self.limits.quick + self.limits.slow + self.limits.old):
            self._background(self._add())

    async def stop(self) -> None:
        """End every worker."""
        self._stopped = True
        for task in list(self._replacements):
            task.cancel()
        await asyncio.gather(*self._replacements, return_exceptions=True)
        await asyncio.gather(*(worker.kill() for worker in self._workers))

    async def ask(self, name: str, body: bytes, gone: asyncio.Future[None]) -> tuple[int, bytes]:
        """The answer's status and text. `gone` is done as soon as nobody waits for it any more."""
        limits = self.limits
        until = time.monotonic() + limits.seconds
        if self._waiting >= limits.waiting:
            return _busy(f"This server has {limits.waiting} questions waiting already: ask again in a moment.")
        turns = self._turns[name in SLOW]
        self._waiting += 1
        try:
            await asyncio.wait_for(turns.acquire(), limits.seconds)
        except TimeoutError:
            return _busy("This server is busy: ask again in a moment.")
        finally:
            self._waiting -= 1
        if gone.done():
            turns.release()
            return _given_up()
        return await self._answer(name, body, gone, until)

    async def _answer(self, name: str, body: bytes, gone: asyncio.Future[None], until: float) -> tuple[int, bytes]:
        """The answer to a question whose turn it is; gives the turn back."""
        slow, old = name in SLOW, False
        while (worker := await self._idle.get()).has_ended:
            self._replace(worker)
        task: asyncio.Future[Any] = asyncio.ensure_future(worker.ask(name, body, max(until - time.monotonic(), 0.01)))
        both: set[asyncio.Future[Any]] = {task, gone}
        refusal: tuple[int, bytes] | None = None
        try:
            patience = max(until - time.monotonic(), 0.0) if slow else self.limits.young_seconds
            await asyncio.wait(both, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if not (slow or task.done() or gone.done()):
                if self._old >= self.limits.old:
                    refusal = _busy(
                        f"This question takes longer than {self.limits.young_seconds:g} seconds, and this server is "
                        f"answering {self._old} such questions already: ask again in a moment."
                    )
                else:
                    old = True
                    self._old += 1
                    self._turns[False].release()
                    patience = max(until - time.monotonic(), 0.0)
                    await asyncio.wait(both, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                refusal = refusal or (_given_up() if gone.done() else _out_of_time(self.limits.seconds))
                worker.cancel()
                await asyncio.wait({task}, timeout=GRACE)
            if refusal is None:
                status, text = task.result()
                return status, text
            return refusal
        except ConnectionError:
            return LIMIT, json_text.error("limit-exceeded", "This question needs more memory than there is.")
        finally:
            if old:
                self._old -= 1
            else:
                self._turns[slow].release()
            if task.done() and not task.cancelled() and task.exception() is None:
                self._idle.put_nowait(worker)
            else:
                task.cancel()
                self._replace(worker)

    def _replace(self, worker: Worker) -> None:
        """End a worker that does not stop, and start another in its place."""

        async def replace() -> None:
            await worker.kill()
            self._workers.discard(worker)  # not before: what is stopped meanwhile is ended by `stop`
            if not self._stopped:
                await self._add()

        self._background(replace())

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._replacements.add(task)
        task.add_done_callback(self._replacements.discard)

    async def _add(self) -> None:
        worker = await Worker.start()
        self._workers.add(worker)
        self._idle.put_nowait(worker)


def _busy(sentence: str) -> tuple[int, bytes]:
    return UNAVAILABLE, json_text.error("busy", sentence)


def _given_up() -> tuple[int, bytes]:
    return CANCELLED, json_text.error("cancelled", "The question was given up.")


def _out_of_time(seconds: float) -> tuple[int, bytes]:
    return LIMIT, json_text.error("limit-exceeded", out_of_time(seconds))
