"""Who is answered next: a lane of places that clients share evenly, by the seconds they have used.

A place that becomes free goes to the client that waits and has used the fewest seconds of the lane; of one client's
questions the first comes first. One client never has all places while there is more than one: a newcomer need not wait
until another's long questions end. A client that returns starts with the fewest seconds of the clients
that wait or are being answered: unused time does not add up.
"""

from __future__ import annotations

import asyncio
from collections import deque


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
