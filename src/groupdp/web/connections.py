"""Connections: idle ones are closed, and never keep others out.

A connection waits from its first moment, or from the end of an answer, until a request's headers are complete. It is
closed `HEADER_SECONDS` after the first byte of a request, or after it was opened; and at any time if more than
`MOST_WAITING` wait and it has waited longest. A server that stops refuses what it has not answered.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from groupdp.web.pool import Pool

#: How long a client may take to send the headers of a request, in seconds.
HEADER_SECONDS = 10.0
#: Most connections that wait for a request.
MOST_WAITING = 400


class Connection(H11Protocol):
    """One connection over HTTP/1.1."""

    #: Connections without a complete request, the one that has waited longest first.
    _all_waiting: dict[Connection, None] = {}  # noqa: RUF012 (shared on purpose: there is one server in a process)

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()
        self._start_clock()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE or self.transport.is_closing():
            self._no_longer_waits()
        else:
            self._start_clock()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing() and self.conn.their_state is h11.IDLE:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._no_longer_waits()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._all_waiting[self] = None
        while len(self._all_waiting) > MOST_WAITING:
            oldest = next(iter(self._all_waiting))
            oldest._no_longer_waits()
            oldest.transport.abort()

    def _start_clock(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def _no_longer_waits(self) -> None:
        self._all_waiting.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class Server(uvicorn.Server):
    """Refuses, when it stops, what the pool has not answered."""

    def __init__(self, configuration: uvicorn.Config, pool: Pool) -> None:
        super().__init__(configuration)
        self._pool = pool

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._pool.close()
        await super().shutdown(sockets)


def allow_many_files() -> None:
    """Raise the number of connections that this process may have open, as far as it may."""
    try:
        import resource
    except ImportError:  # pragma: no cover (Windows)
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4096 if hard == resource.RLIM_INFINITY else min(4096, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
