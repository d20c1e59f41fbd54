"""How much memory a computation may take, and whom it tells how far it is."""

from __future__ import annotations

import io
import sys
import threading
import time
import tracemalloc
from types import SimpleNamespace

import pytest

import groupdp
from command_line import assert_one_sentence
from command_line import groupdp as command
from groupdp import DPSGD, PoissonSampling
from groupdp.cli import output
from groupdp.engines import SMALLEST_MEMORY, Work
from refusals import refused

RUN = DPSGD(sampling=PoissonSampling(rate=0.3), noise_multiplier=1.0, steps=5)
LINE = "--sampling-rate 0.3 --noise-multiplier 1 --steps 5 --group-size 4"


@pytest.mark.thinned
@pytest.mark.parametrize("question", [{"epsilon": 3.0}, {"delta": 1e-6}])
def test_less_memory_is_used_when_told_so_and_the_result_says_what_was_reached(question):
    ask = groupdp.epsilon if "delta" in question else groupdp.log_delta
    asked = {"group_size": 4, "engine": "lattice", "adjacency": "remove", "tolerance": 1e-11, **question}
    tracemalloc.start()
    little = ask(RUN, memory_budget=SMALLEST_MEMORY, **asked)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    more = ask(RUN, memory_budget=2 * SMALLEST_MEMORY, **asked)
    assert peak < 1.25 * SMALLEST_MEMORY
    assert not little.provenance.tolerance_met
    assert little.provenance.evaluations["grid points"] < more.provenance.evaluations["grid points"]
    assert more.width < 0.7 * little.width
    assert little.intersects(more)


@pytest.mark.parametrize("value", [0, -1, SMALLEST_MEMORY - 1, 1e9, "1G", None, True, 10**400])
def test_a_memory_budget_that_is_none_is_refused(value):
    for ask, question in ((groupdp.epsilon, {"delta": 1e-6}), (groupdp.delta, {"epsilon": 1.0})):
        with refused("memory_budget"):
            ask(RUN, group_size=1, memory_budget=value, **question)


@pytest.mark.parametrize("value", [0.5, "bar", [], True])
def test_progress_that_cannot_be_called_is_refused(value):
    for ask, question in ((groupdp.epsilon, {"delta": 1e-6}), (groupdp.log_delta, {"epsilon": 1.0})):
        with refused("progress"):
            ask(RUN, group_size=1, progress=value, **question)
    with refused("progress"):
        groupdp.calibrate_noise(RUN, epsilon=1.0, delta=1e-6, group_size=1, progress=value)


def test_progress_rises_from_0_to_1_over_both_directions():
    seen: list[float] = []
    groupdp.log_delta(RUN, epsilon=2.0, group_size=4, engine="lattice", progress=seen.append)
    assert len(seen) > 4
    assert seen == sorted(seen)
    assert 0.0 <= seen[0] < 0.5
    assert seen[-1] == 1.0


def test_an_exception_in_progress_stops_the_computation():
    class StoppedError(Exception):
        pass

    def stop(_: float) -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        groupdp.epsilon(RUN, delta=1e-6, group_size=4, engine="lattice", progress=stop)


def test_beyond_the_limit_of_work_what_has_been_found_is_returned(monkeypatch):
    asked = {"group_size": 4, "adjacency": "remove", "engine": "lattice", "tolerance": 1e-12}
    monkeypatch.setattr(Work.__init__, "__defaults__", (400_000,))  # enough for the first, coarse solve
    bounds = groupdp.epsilon(RUN, delta=1e-6, **asked)
    assert bounds.provenance.evaluations["solves"] == 1
    assert not bounds.provenance.tolerance_met
    assert bounds.relative_width < 0.1
    monkeypatch.setattr(Work.__init__, "__defaults__", (1000,))
    with pytest.raises(groupdp.LimitExceeded, match=r"did not finish within its limit of 1e[+]03 operations"):
        groupdp.epsilon(RUN, delta=1e-6, **asked)


@pytest.mark.thinned
@pytest.mark.parametrize("name", ["delta --epsilon 2", "epsilon --delta 1e-6"])
def test_sizes_on_the_command_line(name):
    quick = LINE.replace("--steps 5", "--steps 1")
    expected = command(f"{name} {quick} --json").json
    for size in ("64M", "64mb", "1G", "1.5 GB", "64000000", "0.1T"):
        assert command(f"{name} {quick} --memory '{size}' --json").json == expected


@pytest.mark.parametrize("size", ["63M", "1", "0", "-1G", "M", "1X", "1e9", "nan", "''", "9" * 200, "1KiB"])
def test_what_is_no_size_is_refused(size):
    assert_one_sentence(command(f"epsilon --delta 1e-6 {LINE} --memory {size}"), "memory must be a size", "64M")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Shown(threading.Event):
    """Ends a bar: looked at all the time, and set once the terminal has shown a fraction."""

    terminal = Terminal()

    def wait(self, timeout=None):
        return super().wait(min(timeout, 0.001))

    def set(self):
        for _ in range(60_000):
            if "#" in self.terminal.getvalue():
                break
            time.sleep(0.001)
        super().set()


@pytest.mark.parametrize("name", ["epsilon --delta 1e-6", "delta --epsilon 2"])
def test_a_terminal_gets_a_bar_once_the_lattice_is_at_it_for_a_while(name, monkeypatch):
    clock = iter(range(10**9))
    monkeypatch.setattr(output.time, "monotonic", lambda: 0.3 * next(clock))  # every look at the clock is 0.3 s later
    terminal = Terminal()
    monkeypatch.setattr(Shown, "terminal", terminal)
    monkeypatch.setattr(output, "threading", SimpleNamespace(Event=Shown, Thread=threading.Thread))
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("groupdp.engines.spectral.AVAILABLE", False)  # which answers before a look at the clock
    from groupdp.cli.application import build_app

    with pytest.raises(SystemExit):
        build_app()(args=[*name.split(), *LINE.split(), "--json"], prog_name="groupdp")
    label = name.split()[0]
    assert f"\r{label} [" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")  # and is gone afterwards
