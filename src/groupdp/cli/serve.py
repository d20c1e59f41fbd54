"""`groupdp serve`: the page that answers while you drag, and the API under it."""

from __future__ import annotations

import secrets
import socket
from typing import Annotated

import typer

from groupdp.cli.command import command, fail
from groupdp.cli.options import option, read_integer, read_number
from groupdp.cli.process import interrupted_after

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@command("serve", "--port 8000")
def serve(
    *,
    port: Annotated[
        str, option("--port", "INTEGER", "Port to listen on; 0 for any that is free.", "The server")
    ] = "8000",
    host: Annotated[
        str, option("--host", "ADDRESS", "Address to listen on: this machine alone if not given.", "The server")
    ] = "127.0.0.1",
    seconds: Annotated[
        str, option("--seconds", "NUMBER", "Longest time that one question may take.", "The server")
    ] = "30",
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Do not open the page in a browser.", rich_help_panel="The server")
    ] = False,
) -> None:
    """A page that answers while you drag, and its JSON interface."""
    number = read_integer("port", port, at_least=0, at_most=65535)
    longest = read_number("seconds", seconds, at_least=1.0, at_most=3600.0)
    try:
        import uvicorn

        from groupdp.web.app import build_app
        from groupdp.web.connections import Connection, Server, allow_many_files
    except ImportError:
        fail("The page needs starlette and uvicorn: pip install 'groupdp[web]'.")
    from groupdp.web.pool import Limits

    listener = _listen(host, number)
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
    app = build_app(Limits(seconds=longest), hosts=hosts, token=token)
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

            timer = threading.Timer(1.0, webbrowser.open, (url,))  # the listener is open already: nothing is refused
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
