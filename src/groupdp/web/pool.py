"""Processes that answer questions, with time limits and cancellation, and who is answered next.

Three lanes by cost: cheap questions, curves and the like (`MIDDLING`), and questions known to take long (`SLOW`). Each
has workers of its own, shared evenly by its clients; those of the last two have a lower priority. A cheap question that
outgrows `young_seconds` frees its turn and goes on as an old one, of which there are at most `old`; one more is refused
with a sentence. So however many heavy questions come, cheap ones keep all their workers, and no question takes or waits
longer than `seconds`.

A place that becomes free goes to the waiting client that has used the fewest seconds of the lane; of one client's
questions the first comes first. One client never has all places while there is more than one: a newcomer need not wait
until another's long questions end. A client that returns starts with the fewest seconds of the clients that wait or are
being answered: unused time does not add up.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from groupdp.web.worker import CANCELLED, LIMIT, Worker, error_text, out_of_time


class Lane:
    """`places` questions are answered at a time, at most `places - 1` of one client."""

    def __init__(self, places: int) -> None:
        self.places = places
        self._most_of_one = max(1, places - 1)
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._answering: dict[str, int] = {}
        self._used: dict[str, float] = {}

    @property
    def answering(self) -> int:
        """How many places are taken."""
        return sum(self._answering.values())

    def is_open_to(self, client: str) -> bool:
        """Whether a question of this client could be answered at once."""
        return self.answering < self.places and self._answering.get(client, 0) < self._most_of_one

    def queue(self, client: str) -> asyncio.Future[None]:
        """Done as soon as the client has a place, to be given back by `leave`; or it is given up by `abandon`."""
        self._used.setdefault(client, min(self._used.values(), default=0.0))
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(turn)
        self._next()
        return turn

    def abandon(self, client: str, turn: asyncio.Future[None]) -> None:
        """Give up a turn, whether it has come or not."""
        if turn.done():
            self.leave(client, 0.0)
            return
        self._waiting[client].remove(turn)
        if not self._waiting[client]:
            del self._waiting[client]
        self._forget(client)

    def take(self, client: str) -> bool:
        """Take a place at once, without waiting; whether there is one."""
        if not self.is_open_to(client):
            return False
        self._used.setdefault(client, min(self._used.values(), default=0.0))
        self._answering[client] = self._answering.get(client, 0) + 1
        return True

    def leave(self, client: str, seconds: float) -> None:
        """Give back a place that was used for `seconds`."""
        self._used[client] += seconds
        self._answering[client] -= 1
        if not self._answering[client]:
            del self._answering[client]
        self._next()
        self._forget(client)

    def _next(self) -> None:
        """Give free places to waiting clients."""
        while True:
            ready = [client for client in self._waiting if self.is_open_to(client)]
            if not ready:
                return
            client = min(ready, key=self._used.__getitem__)
            turn = self._waiting[client].popleft()
            if not self._waiting[client]:
                del self._waiting[client]
            self._answering[client] = self._answering.get(client, 0) + 1
            turn.set_result(None)

    def _forget(self, client: str) -> None:
        """Clients without questions are not remembered."""
        if client not in self._waiting and client not in self._answering:
            del self._used[client]


#: Questions that take a good part of a second, and those that take long, as a rule.
MIDDLING = frozenset({"curve", "calibrate", "people"})
SLOW = frozenset({"baseline", "tradeoff"})
#: Seconds that a cancelled worker may take before it is ended.
GRACE = 1.0
UNAVAILABLE = 503
#: Seconds that questions may still take once the server stops.
LAST_SECONDS = 0.5


def _busy(sentence: str) -> tuple[int, bytes]:
    return UNAVAILABLE, error_text("busy", sentence)


_SHUTTING_DOWN = _busy("This server is shutting down: ask again when it is back.")
_GIVEN_UP = CANCELLED, error_text("cancelled", "The question was cancelled.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the pool may spend."""

    quick: int = max(2, os.cpu_count() or 2)
    middling: int = 3
    slow: int = 3
    old: int = 2
    young_seconds: float = 1.0
    seconds: float = 30.0
    """The longest that any question may take."""
    waiting: int = 500
    """Most questions that wait for their turn."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question whose turn it is."""

    name: str
    body: bytes
    client: str
    lane: Lane
    until: float


class Pool:
    """The workers, and who may use them when."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits if limits is not None else Limits()
        self._idle: dict[bool, asyncio.Queue[Worker]] = {True: asyncio.Queue(), False: asyncio.Queue()}
        self._cheap, self._middling = Lane(self.limits.quick), Lane(self.limits.middling)
        self._slow, self._old = Lane(self.limits.slow), Lane(self.limits.old)
        self._waiting = 0
        self._workers: set[Worker] = set()
        self._replacements: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()
        self._stopped = False

    async def start(self) -> None:
        """Start every worker; the first questions are answered as soon as one has loaded the library."""
        for _ in range(self.limits.quick + self.limits.old):
            self._background(self._add(is_cheap=True))
        for _ in range(self.limits.middling + self.limits.slow):
            self._background(self._add(is_cheap=False))

    def close(self) -> None:
        """Refuse all waiting questions, and after `LAST_SECONDS` those being answered."""
        self._closing.set()

    async def stop(self) -> None:
        """End every worker."""
        self.close()
        self._stopped = True
        for task in list(self._replacements):
            task.cancel()
        await asyncio.gather(*self._replacements, return_exceptions=True)
        await asyncio.gather(*(worker.kill() for worker in self._workers))

    async def ask(self, name: str, body: bytes, gone: asyncio.Future[None], client: str = "") -> tuple[int, bytes]:
        """The answer's status and text. `gone` is done when the client has disconnected."""
        limits = self.limits
        until = time.monotonic() + limits.seconds
        if self._waiting >= limits.waiting:
            return _busy(f"This server has {limits.waiting} questions waiting already: ask again in a moment.")
        lane = self._slow if name in SLOW else self._middling if name in MIDDLING else self._cheap
        asked = _Asked(name, body, client, lane, until)
        for _ in range(2):  # a question changes nothing: it may be asked again if its process ends
            refusal = await self._enter(asked, gone)
            if refusal is not None:
                return refusal
            answer = await self._answer(asked, gone)
            if answer is not None:
                return answer
        return UNAVAILABLE, error_text(
            "process-ended", "The process that answered ended unexpectedly, twice, and was restarted: ask again."
        )

    async def _enter(self, asked: _Asked, gone: asyncio.Future[None]) -> tuple[int, bytes] | None:
        """Wait for a turn; the refusal if there is none."""
        closing: asyncio.Future[Any] = asyncio.ensure_future(self._closing.wait())
        turn = asked.lane.queue(asked.client)
        self._waiting += 1
        has_turn = False
        try:
            patience = max(asked.until - time.monotonic(), 0.0)
            await asyncio.wait({turn, gone, closing}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if closing.done():
                return _SHUTTING_DOWN
            if gone.done():
                return _GIVEN_UP
            if not turn.done():
                return _busy("This server is busy: ask again in a moment.")
            has_turn = True
            return None
        finally:
            self._waiting -= 1
            closing.cancel()
            if not has_turn:
                asked.lane.abandon(asked.client, turn)

    async def _answer(self, asked: _Asked, gone: asyncio.Future[None]) -> tuple[int, bytes] | None:
        """The answer to a question whose turn it is, None if its process ended; gives the turn back."""
        lane, client, until = asked.lane, asked.client, asked.until
        cheap = lane is self._cheap
        idle = self._idle[cheap]
        worker = await self._idle_worker(idle, gone)
        if worker is None:
            lane.leave(client, 0.0)
            return _SHUTTING_DOWN if self._closing.is_set() else _GIVEN_UP
        began = time.monotonic()
        seconds = max(until - began, 0.01)
        task: asyncio.Future[Any] = asyncio.ensure_future(worker.ask(asked.name, asked.body, seconds))
        closing = asyncio.ensure_future(self._closing.wait())
        either: set[asyncio.Future[Any]] = {task, gone, closing}
        refusal: tuple[int, bytes] | None = None
        try:
            patience = self.limits.young_seconds if cheap else seconds
            await asyncio.wait(either, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if cheap and not any(future.done() for future in either):
                if self._old.take(client):
                    lane.leave(client, time.monotonic() - began)
                    lane, began = self._old, time.monotonic()
                    patience = max(until - began, 0.0)
                    await asyncio.wait(either, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                else:
                    refusal = _busy(
                        f"This question takes longer than {self.limits.young_seconds:g} seconds, and this server is "
                        f"answering {self._old.answering} such questions already: ask again in a moment."
                    )
            if closing.done() and not task.done():
                await asyncio.wait({task, gone}, timeout=LAST_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                refusal = _SHUTTING_DOWN
            if not task.done():
                too_long = LIMIT, error_text("limit-exceeded", out_of_time(self.limits.seconds))
                refusal = refusal or (_GIVEN_UP if gone.done() else too_long)
                worker.cancel()
                await asyncio.wait({task}, timeout=0.0 if closing.done() else GRACE)
            elif closing.done() and task.exception() is None:
                refusal = None
            if refusal is None:
                status, text = task.result()
                return status, text
            return refusal
        except ConnectionError:
            return None
        finally:
            closing.cancel()
            lane.leave(client, time.monotonic() - began)
            if task.done() and not task.cancelled() and task.exception() is None:
                idle.put_nowait(worker)
            else:
                task.cancel()
                self._replace(worker)

    async def _idle_worker(self, idle: asyncio.Queue[Worker], gone: asyncio.Future[None]) -> Worker | None:
        """A worker that is there and idle; None if nobody waits for the answer any more, or the server stops."""
        while True:
            got: asyncio.Future[Any] = asyncio.ensure_future(idle.get())
            closing: asyncio.Future[Any] = asyncio.ensure_future(self._closing.wait())
            await asyncio.wait({got, gone, closing}, return_when=asyncio.FIRST_COMPLETED)
            closing.cancel()
            if not got.done():
                got.cancel()
                return None
            worker: Worker = got.result()
            if not worker.has_ended:
                return worker
            self._replace(worker)

    def _replace(self, worker: Worker) -> None:
        """End a worker that does not stop, and start another in its place."""

        async def replace() -> None:
            await worker.kill()
            self._workers.discard(worker)  # not before: what is stopped meanwhile is ended by `stop`
            if not self._stopped:
                await self._add(is_cheap=worker.is_cheap)

        self._background(replace())

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._replacements.add(task)
        task.add_done_callback(self._replacements.discard)

    async def _add(self, *, is_cheap: bool) -> None:
        worker = await Worker.start(is_cheap=is_cheap)
        self._workers.add(worker)
        self._idle[is_cheap].put_nowait(worker)
