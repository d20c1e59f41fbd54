"""Processes that answer questions, with time limits and cancellation.

There are `quick` + `slow` workers. At most `quick` questions are young (younger than `young_seconds`) at a time, the
others wait their turn; a question that outgrows that age frees its turn and goes on as an old one, of which there are at
most `slow`. So however many heavy questions come, the quick ones keep all their workers; a heavy one beyond `slow` is
refused with a sentence, not queued for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass

from groupdp.web import json_text
from groupdp.web.worker import CANCELLED, LIMIT, out_of_time

#: How long a worker that was told to stop may take before it is ended, in seconds.
GRACE = 0.3
UNAVAILABLE = 503


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the pool may spend."""

    quick: int = max(2, os.cpu_count() or 2)
    slow: int = 2
    young_seconds: float = 1.0
    seconds: float = 30.0
    """The longest that any question may take."""
    waiting: int = 500
    """Most questions that wait for their turn."""


class Worker:
    """One process."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> Worker:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = (sys.executable, "-m", "groupdp.web.worker")
        return cls(await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, env=environment))

    async def ask(self, name: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        """The answer; ConnectionError if the process ends."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(f"ask {name} {seconds!r} {len(body)}\n".encode() + body)
            await self._process.stdin.drain()
            status, length = (await self._process.stdout.readline()).split()
            return int(status), await self._process.stdout.readexactly(int(length))
        except (ValueError, OSError, asyncio.IncompleteReadError):
            raise ConnectionError("a worker ended") from None

    def cancel(self) -> None:
        """Ask it to stop at the next report of progress."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, RuntimeError):
            self._process.stdin.write(b"cancel\n")

    async def kill(self) -> None:
        """End it now."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


class Pool:
    """The workers, and who may use them when."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits if limits is not None else Limits()
        self._idle: asyncio.Queue[Worker] = asyncio.Queue()
        self._turns = asyncio.Semaphore(self.limits.quick)
        self._waiting = 0
        self._old = 0
        self._workers: set[Worker] = set()
        self._replacements: set[asyncio.Task[None]] = set()
        self._stopped = False

    async def start(self) -> None:
        """Start every worker; they load the library while the first request arrives."""
        await asyncio.gather(*(self._add() for _ in range(self.limits.quick + self.limits.slow)))

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
        self._waiting += 1
        try:
            await asyncio.wait_for(self._turns.acquire(), limits.seconds)
        except (TimeoutError, asyncio.TimeoutError):
            return _busy("This server is busy: ask again in a moment.")
        finally:
            self._waiting -= 1
        if gone.done():
            self._turns.release()
            return _given_up()
        return await self._answer(name, body, gone, until)

    async def _answer(self, name: str, body: bytes, gone: asyncio.Future[None], until: float) -> tuple[int, bytes]:
        """The answer to a question whose turn it is; gives the turn back."""
        young = True
        worker = await self._idle.get()
        task = asyncio.ensure_future(worker.ask(name, body, max(until - time.monotonic(), 0.01)))
        refusal: tuple[int, bytes] | None = None
        try:
            await asyncio.wait({task, gone}, timeout=self.limits.young_seconds, return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and not gone.done():
                if self._old >= self.limits.slow:
                    refusal = _busy(
                        f"This question takes longer than {self.limits.young_seconds:g} seconds, and this server is "
                        f"answering {self._old} such questions already: ask again in a moment."
                    )
                else:
                    young = False
                    self._old += 1
                    self._turns.release()
                    patience = max(until - time.monotonic(), 0.0)
                    await asyncio.wait({task, gone}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                refusal = refusal or (_given_up() if gone.done() else _out_of_time(self.limits.seconds))
                worker.cancel()
                await asyncio.wait({task}, timeout=GRACE)
            if refusal is None:
                return task.result()
            return refusal
        except ConnectionError:
            return LIMIT, json_text.error("limit-exceeded", "This question needs more memory than there is.")
        finally:
            if young:
                self._turns.release()
            else:
                self._old -= 1
            if task.done() and not task.cancelled() and task.exception() is None:
                self._idle.put_nowait(worker)
            else:
                task.cancel()
                self._replace(worker)

    def _replace(self, worker: Worker) -> None:
        """End a worker that does not stop, and start another in its place."""

        async def replace() -> None:
            self._workers.discard(worker)
            await worker.kill()
            if not self._stopped:
                await self._add()

        task = asyncio.ensure_future(replace())
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
