"""A real server whose connections are silent, that is told to stop, or that others can reach."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from web.questions import question, without_group

HEAVY = without_group(name="fdp", group_sizes=list(range(20, 100)))
#: Seconds after which a test fails that would wait for ever.
PATIENCE = 600
#: The command, with constants of app.py replaced, and two workers to start.
_PROGRAM = """
from functools import partial
from groupdp.web import app, pool
pool.Limits = partial(pool.Limits, quick=1, middling=0, slow=1, old=0, young_seconds=600.0)
app.HEADER_SECONDS, app.MOST_WAITING = {seconds}, {waiting}
from groupdp.cli import main
main()
"""


@contextmanager
def server(
    *options: str, seconds: float = 10.0, waiting: int = 400
) -> Iterator[tuple[subprocess.Popen[str], int, str]]:
    """(process, port, what it printed)."""
    program = _PROGRAM.format(seconds=seconds, waiting=waiting)
    process = subprocess.Popen(
        [sys.executable, "-c", program, "serve", "--port", "0", "--no-browser", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"http://[0-9.]+:(\d+)/", line)
    assert found is not None
    try:
        yield process, int(found[1]), line
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=PATIENCE)


def ask(
    port: int, path: str = "/api/epsilon", document: object = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    if document is None:
        connection.request("GET", path, headers=fields)
    else:
        connection.request("POST", path, json.dumps(document), {"content-type": "application/json", **fields})
    response = connection.getresponse()
    answer = response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    connection.close()
    return answer


def test_connections_that_never_finish_their_headers_are_closed():
    """Also the second request of a connection, and one that sends a byte now and then."""
    with server(seconds=0.5) as (_, port, _):
        silent = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        connection = answered_once(port)
        connection.sock.sendall(b"GET /api/form HTTP/1.1\r\nHost:")
        for one in (silent, connection.sock):
            with suppress(ConnectionResetError):
                assert one.recv(1) == b""
            one.close()


def answered_once(port: int) -> http.client.HTTPConnection:
    """A connection that has had one answer; asked again where the machine stopped for longer than the server waits."""
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        with suppress(ConnectionError, http.client.BadStatusLine):
            connection.request("GET", "/api/form")
            response = connection.getresponse()
            assert (response.status, bool(response.read())) == (200, True)
            return connection
        connection.close()


def test_silent_connections_do_not_lock_others_out():
    with server(waiting=50) as (_, port, _):
        silent = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) for _ in range(200)]
        for line in silent[::2]:
            line.sendall(b"POST /api/epsilon HT")
        assert ask(port, document=question())[0] == 200
        for line in silent[:100]:  # those that waited longest have made room
            with suppress(ConnectionResetError):
                assert line.recv(1) == b""
        for line in silent:
            line.close()


def test_a_server_that_is_told_to_stop_refuses_what_it_has_not_answered():
    with server("--seconds", "600") as (process, port, _):
        assert ask(port, document=question())[0] == 200
        asked = [http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE) for _ in range(4)]
        for one in asked:
            one.request("POST", "/api/baseline", json.dumps(HEAVY), {"content-type": "application/json"})
        assert ask(port, document=question())[0] == 200  # those asked before have arrived
        process.send_signal(signal.SIGTERM)
        responses = [one.getresponse() for one in asked]
        answers = [(response.status, json.loads(response.read())["error"]["sentence"]) for response in responses]
        for one in asked:
            one.close()
        _, errors = process.communicate(timeout=PATIENCE)
    assert [status for status, _ in answers] == [503] * 4
    assert all("shutting down" in sentence for _, sentence in answers)
    assert (process.returncode, errors) == (-signal.SIGTERM, "")


def test_beyond_loopback_a_token_is_required():
    with server("--host", "0.0.0.0") as (_, port, line):
        token = re.search(r"/\?token=([\w-]{32,})", line)
        assert token is not None
        for path in ("/", "/api/form", "/static/main.js", "/?token=wrong", "/api/form?token=" + token[1]):
            status, _, text = ask(port, path)
            assert (status, json.loads(text)["error"]["kind"]) == (401, "unauthorized")
        assert ask(port, document=question())[0] == 401
        assert ask(port, document=question(), authorization="Bearer wrong")[0] == 401
        assert ask(port, document=question(), authorization=f"Bearer {token[1]}")[0] == 200
        status, headers, _ = ask(port, f"/?token={token[1]}")
        assert (status, headers["location"]) == (303, "/")
        assert "httponly" in headers["set-cookie"].lower()
        cookie = headers["set-cookie"].partition(";")[0]
        assert ask(port, "/", cookie=cookie)[0] == 200
        assert ask(port, document=question(), cookie=cookie)[0] == 200


def test_on_loopback_none_is():
    with server() as (_, port, line):
        assert "token" not in line
        assert ask(port, "/")[0] == 200
