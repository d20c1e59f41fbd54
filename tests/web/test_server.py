"""A real server: what is malformed, cut off, slow or given up never takes it down; and the command that starts it."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from command_line import assert_one_sentence, groupdp
from web.questions import question, without_group

HEAVY = without_group(name="fdp", group_sizes=list(range(20, 100)))


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    program = "from groupdp.cli import main; main()"
    command = [sys.executable, "-c", program, "serve", "--port", "0", "--no-browser", "--seconds", "600"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert process.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
    assert found is not None
    yield int(found[1])
    process.send_signal(signal.SIGINT)
    process.wait(600)
    process.stdout.close()


def ask(port: int, name: str, document: object) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    body = json.dumps(document)
    connection.request("POST", f"/api/{name}", body, {"content-type": "application/json"})
    response = connection.getresponse()
    answer = response.status, response.read()
    connection.close()
    return answer


def send(port: int, data: bytes, *, listen: bool = True) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=600) as line:
        line.sendall(data)
        if not listen:
            return b""
        line.shutdown(socket.SHUT_WR)
        try:
            return line.recv(65536)
        except ConnectionError:
            return b""


def request(body: bytes, *, length: int | None = None, path: str = "/api/epsilon") -> bytes:
    size = len(body) if length is None else length
    head = (f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", f"Content-Length: {size}")
    return "\r\n".join((*head, "", "")).encode() + body


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 1000,
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"x: y\r\n" * 20_000 + b"\r\n",
        request(b'{"phases": [', length=10_000),
        request(b"{}", length=10**15),
        b"POST /api/epsilon HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /api/epsilon HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_malformed_and_cut_off_requests_do_not_take_it_down(port, data):
    send(port, data)
    send(port, data, listen=False)
    assert ask(port, "epsilon", question())[0] == 200


def test_slow_clients_do_not_stall_the_others(port):
    slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
    for index, line in enumerate(slow):
        line.sendall(b"POST /api/epsilon HT" if index % 2 else request(b'{"phases"', length=500))
    status, text = ask(port, "epsilon", question())
    for line in slow:
        line.close()
    assert status == 200
    assert json.loads(text)["epsilon"]["upper"] < 40.9


def test_questions_given_up_make_room_for_others(port):
    body = json.dumps(HEAVY).encode()
    for _ in range(6):
        send(port, request(body, path="/api/baseline"), listen=False)
    assert ask(port, "epsilon", question())[0] == 200
    status, _ = ask(port, "baseline", without_group(name="renyi", group_sizes=[2]))
    assert status == 200  # and not after an hour, which six that nobody gave up would take


def test_answers_name_no_path_of_the_machine(port):
    for document in (question(), question(delta=-1), {"phases": "x"}):
        text = ask(port, "epsilon", document)[1].decode()
        assert "/home" not in text
        assert os.getcwd() not in text
        assert sys.prefix not in text


@pytest.mark.parametrize("line", ["serve --port many", "serve --port 70000", "serve --seconds 0"])
def test_a_bad_option_gets_one_sentence(line):
    assert_one_sentence(groupdp(line), "must be", "got")


def test_a_port_that_is_taken_gets_one_sentence(port):
    assert_one_sentence(groupdp(f"serve --no-browser --port {port}"), "host and port must be", str(port))


@pytest.mark.parametrize("delay", [0.0, 0.4])
def test_ctrl_c_ends_server_and_workers_without_a_word(delay):
    """Ctrl-C in a terminal goes to every process of the group, also to workers that are loading the library."""
    command = [sys.executable, "-c", "from groupdp.cli import main; main()", "serve", "--port", "0", "--no-browser"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        start_new_session=True,
    )
    assert process.stdout is not None
    assert "Ctrl-C ends it" in process.stdout.readline()
    time.sleep(delay)
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate()  # which waits for whoever has the streams open
    assert (process.returncode, output, errors) == (130, "", "")


#: Ctrl-C at one instant: when uvicorn has made the coroutine of its server and not yet begun to run it.
_AT_THE_LOOP = """
import signal
import uvicorn.server as server

run = server.asyncio_run

def interrupted(*arguments, **named):
    signal.raise_signal(signal.{name})
    return run(*arguments, **named)

server.asyncio_run = interrupted
from groupdp.cli import main
main()
"""


@pytest.mark.thinned
@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", -signal.SIGTERM)])
def test_a_signal_before_the_loop_runs_ends_the_server_without_a_word(name, status):
    command = [sys.executable, "-c", _AT_THE_LOOP.format(name=name), "serve", "--port", "0", "--no-browser"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (status, "")
    assert process.stdout.count("\n") == 1  # the address
