"""`groupdp serve`: the page that answers while you move its sliders, and its API."""

from __future__ import annotations

import secrets
import socket

import typer

from groupdp.cli.command import command, fail
from groupdp.cli.options import flag, integer, number, words
from groupdp.cli.process import interrupted_after

_SERVER = "The server"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@command(
    "serve",
    "--port 8000",
    port=integer("Port to listen on; 0 for any that is free.", _SERVER, default="8000", at_least=0, at_most=65535),
    host=words("ADDRESS", "Address to listen on: this machine alone if not given.", _SERVER, default="127.0.0.1"),
    seconds=number("Longest time that one question may take.", _SERVER, default="30", at_least=1.0, at_most=3600.0),
    no_browser=flag("Do not open the page in a browser.", _SERVER),
)
def serve(*, port: int, host: str, seconds: float, no_browser: bool) -> None:
    """Serve a page that answers while you move its sliders, and its JSON interface."""
    try:
        import uvicorn

        from groupdp.web.app import build_app
        from groupdp.web.connections import Connection, Server, allow_many_files
    except ImportError:
        fail("The page needs starlette and uvicorn: pip install 'groupdp[web]'.")
    from groupdp.web.pool import Limits

    listener = _listen(host, port)
    address = listener.getsockname()
    shown = f"[{address[0]}]" if ":" in address[0] else address[0]
    url = f"http://{shown}:{address[1]}/"
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")
    token = None
    if host not in _LOOPBACK:
        hosts, token = ("*",), secrets.token_urlsafe(24)
        url += f"?token={token}"
        typer.echo(
            f"Anyone with the token can use this server, and anyone who can read the traffic to {shown}:{address[1]} "
            "has the token: there is no encryption. Put it behind a proxy that encrypts, or leave --host out.",
            err=True,
        )
    allow_many_files()
    app = build_app(Limits(seconds=seconds), hosts=hosts, token=token)
    configuration = uvicorn.Config(
        app,
        http=Connection,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=4,
        h11_max_incomplete_event_size=32 * 1024,
    )
    server = Server(configuration, app.state.pool)

    def stop() -> None:
        server.should_exit = True

    with interrupted_after(stop):  # uvicorn has handlers of its own, but only once its loop runs
        typer.echo(f"groupdp answers at {url} (Ctrl-C ends it).")
        if not no_browser:
            import threading
            import webbrowser

            timer = threading.Timer(1.0, webbrowser.open, (url,))  # the listener is open already
            timer.daemon = True
            timer.start()
        server.run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(512)
    except OSError as error:
        listener.close()
        fail(f"host and port must be a free address of this machine, got {host!r} and {port} ({error.strerror}).")
    return listener
