"""A token that every request must carry, where a server can be reached from other machines.

It comes as `?token=` in the address of the page, which is answered with a cookie and the same address without the
token; as that cookie, which the page's own requests carry; or in the header `authorization: Bearer TOKEN`.
"""

from __future__ import annotations

import hmac

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from groupdp.web import json_text

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
            text = json_text.error("unauthorized", _SENTENCE)
            response = Response(text, 401, headers={"www-authenticate": "Bearer"}, media_type="application/json")
        await response(scope, receive, send)

    def _is_right(self, given: str | None) -> bool:
        """Compares in a time that does not depend on where the two differ."""
        return given is not None and hmac.compare_digest(given.encode("utf-8", "replace"), self._token)


def _bearer(request: Request) -> str | None:
    kind, _, value = request.headers.get("authorization", "").partition(" ")
    return value.strip() if kind.lower() == "bearer" else None
