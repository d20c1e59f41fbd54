"""The page and the API over HTTP: routes, limits, headers, and a token where other machines reach the server.

No answer names a file, a folder or a line of the machine; no page loads anything from another host.

A connection waits from its first moment, or from the end of an answer, until a request's headers are complete. It is
closed `HEADER_SECONDS` after the first byte of a request, or after it was opened; and at any time if more than
`MOST_WAITING` wait and it has waited longest. A server that stops refuses what it has not answered.

The token comes as `?token=` in the address of the page, which is answered with a cookie and the same address without
the token; as that cookie, which the page's own requests carry; or in the header `authorization: Bearer TOKEN`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from groupdp.web import as_json as form_as_json
from groupdp.web.answers import QUESTIONS
from groupdp.web.openapi import description
from groupdp.web.pool import Limits, Pool
from groupdp.web.worker import encode, error_text

_SENTENCE = (
    "token must be the one that groupdp serve printed: open the address that it printed, or send the header "
    "'authorization: Bearer TOKEN'."
)


class TokenRequired:
    """Answers 401 to every request without the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        cookie = f"groupdp-{request.url.port or 80}"  # cookies are shared by all ports of a host
        response: Response
        if request.method == "GET" and request.url.path == "/" and self._is_right(request.query_params.get("token")):
            response = RedirectResponse("/", 303)
            response.set_cookie(cookie, self._token.decode(), httponly=True, samesite="strict")
        elif self._is_right(request.cookies.get(cookie)) or self._is_right(_bearer(request)):
            await self._app(scope, receive, send)
            return
        else:
            text = error_text("unauthorized", _SENTENCE)
            response = Response(text, 401, headers={"www-authenticate": "Bearer"}, media_type="application/json")
        await response(scope, receive, send)

    def _is_right(self, given: str | None) -> bool:
        """Compares in a time that does not depend on where the two differ."""
        return given is not None and hmac.compare_digest(given.encode("utf-8", "replace"), self._token)


def _bearer(request: Request) -> str | None:
    kind, _, value = request.headers.get("authorization", "").partition(" ")
    return value.strip() if kind.lower() == "bearer" else None


STATIC = Path(__file__).parent / "static"
#: Largest body of a request, in bytes; a file of counts may be larger.
LARGEST_BODY = 64 * 1024
LARGEST_COUNTS = 8 * 1024 * 1024
#: How long a client may take to send its body, in seconds.
BODY_SECONDS = 10.0

_HEADERS = {
    b"content-security-policy": (
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
    b"cache-control": b"no-cache",
}


def build_app(
    limits: Limits | None = None,
    *,
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]"),
    token: str | None = None,
) -> Starlette:
    """The application. It answers only to the host names in `hosts`, so that no other page reaches it under another
    name, and with a `token` only to requests that carry it. `app.state.pool` has the workers."""
    pool = Pool(limits)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await pool.start()
        try:
            yield
        finally:
            await pool.stop()

    routes = [
        Route("/", _page, methods=["GET"]),
        Route("/api/openapi.json", _json(description), methods=["GET"]),
        Route("/api/form", _json(form_as_json), methods=["GET"]),
        *(Route(f"/api/{name}", _question(name, pool), methods=["POST"]) for name in QUESTIONS),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    middleware = [Middleware(_SafeHeaders), Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))]
    if token is not None:
        middleware.append(Middleware(TokenRequired, token=token))
    app = Starlette(
        routes=routes,
        middleware=middleware,
        exception_handlers={HTTPException: _refused, Exception: _bug},
        lifespan=lifespan,
    )
    app.state.pool = pool
    return app


class _SafeHeaders:
    """Every answer carries the same headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                extra = [(name, value) for name, value in _HEADERS.items() if name not in present]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _question(name: str, pool: Pool) -> Callable[[Request], Awaitable[Response]]:
    largest = LARGEST_COUNTS if name == "people" else LARGEST_BODY

    async def endpoint(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HTTPException(415, "content-type must be application/json.")
        body = await _body(request, largest)
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            client = request.client.host if request.client is not None else ""
            status, text = await pool.ask(name, body, gone, client)
        finally:
            gone.cancel()
        headers = {"retry-after": "1"} if status == 503 else None
        return Response(text, status, headers=headers, media_type="application/json")

    return endpoint


async def _body(request: Request, largest: int) -> bytes:
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared[:20]) > largest:
        raise HTTPException(413, f"body must be at most {largest} bytes.")
    parts: list[bytes] = []
    size = 0

    async def read() -> None:
        nonlocal size
        async for part in request.stream():
            size += len(part)
            if size > largest:
                raise HTTPException(413, f"body must be at most {largest} bytes.")
            parts.append(part)

    try:
        await asyncio.wait_for(read(), BODY_SECONDS)
    except TimeoutError:
        raise HTTPException(408, f"body must arrive within {BODY_SECONDS:g} seconds.") from None
    except ClientDisconnect:
        raise HTTPException(400, "body must arrive whole.") from None
    return b"".join(parts)


async def _disconnected(request: Request) -> None:
    """Returns when the client has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _page(_: Request) -> Response:
    return Response((STATIC / "index.html").read_bytes(), media_type="text/html; charset=utf-8")


def _json(make: Callable[[], object]) -> Callable[[Request], Awaitable[Response]]:
    text = encode(make())

    async def endpoint(_: Request) -> Response:
        return Response(text, media_type="application/json")

    return endpoint


async def _refused(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    kinds = {404: "not-found", 405: "method-not-allowed", 413: "too-large", 415: "unsupported-media-type"}
    text = error_text(kinds.get(error.status_code, "bad-request"), error.detail)
    return Response(text, error.status_code, headers=error.headers, media_type="application/json")


async def _bug(_: Request, error: Exception) -> Response:
    return Response(error_text("bug", "A bug in groupdp stopped this request."), 500, media_type="application/json")


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
