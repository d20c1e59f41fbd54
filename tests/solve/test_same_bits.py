"""The same question has the same answer, bit for bit, however busy the machine is and whichever thread asks."""

from __future__ import annotations

import itertools
import re
import threading
import time
from pathlib import Path

import pytest

import groupdp
from groupdp import DPSGD, FixedBatchSampling, PoissonSampling
from groupdp.engines import Work, lattice, work_done
from mixtures import compose_run, pairs_of

PACKAGE = Path(groupdp.__file__).resolve().parent
#: Was given up after 60 seconds on a slow machine, with 0.826 as its lower side.
RARE = DPSGD(sampling=FixedBatchSampling(batch_size=13, dataset_size=721_047), noise_multiplier=1.4136994, steps=231)
FEW = DPSGD(sampling=PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=4)


def rare() -> groupdp.Bounds:
    return groupdp.epsilon(
        RARE, delta=5.6e-11, group_size=9, adjacency="remove", memory_budget=64_000_000, engine="lattice"
    )


def few() -> groupdp.Bounds:
    return groupdp.epsilon(FEW, delta=1e-6, group_size=4, engine="lattice", tolerance=1e-5)


def test_a_slow_clock_changes_no_bit(monkeypatch):
    quick, searched = rare(), groupdp.calibrate_noise(FEW, epsilon=1.0, delta=1e-6, group_size=1, tolerance=1e-3)
    assert quick.provenance.engine == "lattice"
    assert quick.relative_width < 1e-4
    for name in ("monotonic", "perf_counter", "time", "process_time"):
        monkeypatch.setattr(time, name, itertools.count(0.0, 1000.0).__next__)
    assert rare() == quick
    assert groupdp.calibrate_noise(FEW, epsilon=1.0, delta=1e-6, group_size=1, tolerance=1e-3) == searched


def test_four_threads_get_the_same_bits():
    alone, found = few(), []
    threads = [threading.Thread(target=lambda: found.append(few())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [alone] * 4


def test_a_limit_of_work_is_reached_at_the_same_place_every_time():
    composition = pairs_of(compose_run(FEW, 4), "remove")
    whole = Work()
    best = lattice.epsilon(composition, log_delta=-14.0, tolerance=1e-7, work=whole)
    assert 0 < whole.done < whole.limit
    widths = []
    for limit in (whole.done // 8, whole.done // 2, whole.done):
        before = work_done()
        found = lattice.epsilon(composition, log_delta=-14.0, tolerance=1e-7, work=Work(limit))
        assert found == lattice.epsilon(composition, log_delta=-14.0, tolerance=1e-7, work=Work(limit))
        assert work_done() > before
        widths.append(found.width)
    assert widths == sorted(widths, reverse=True)
    assert found == best
    with pytest.raises(groupdp.LimitExceeded, match="within its limit of 10 operations"):
        lattice.epsilon(composition, log_delta=-14.0, work=Work(10))


def test_nothing_that_computes_reads_a_clock():
    """Who shows progress, serves requests or is asked for a time limit may; what a bound is may not depend on it."""
    clock = re.compile(
        r"\btime\.(monotonic|perf_counter|process_time|thread_time|time)\b|^from time import", re.MULTILINE
    )
    allowed = {"cli", "web"}  # bars, and limits of requests
    readers = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] not in allowed and clock.search(path.read_text(encoding="utf-8"))
    }
    assert readers == {"certificate/checker/reading.py"}  # `verify` and `certify` are given a number of seconds
