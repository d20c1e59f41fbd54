"""Settings of the whole suite.

Property tests draw the same examples every time, so a red suite means a change in the code. To explore:

    HYPOTHESIS_PROFILE=explore .venv/bin/python -m pytest

Of the tables marked `thinned` the suite runs some cases, the same every time, of tests marked `whole` none, and of the
examples of a property a part; `make study` runs them all (`--whole`).
"""

from __future__ import annotations

import os
import signal
import zlib

import pytest
from hypothesis import settings

settings.register_profile("suite", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("whole", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, derandomize=False, max_examples=500, print_blob=True)

# A shell that runs the suite in the background has it ignore Ctrl-C, and every command it starts would do the same.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--whole", action="store_true", help="run every case of the tests marked `thinned` or `whole`")


def pytest_configure(config: pytest.Config) -> None:
    chosen = "whole" if config.getoption("--whole") else "suite"
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", chosen))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the first case of a thinned table and, where it says so, one in `every` by the hash of its name."""
    if config.getoption("--whole"):
        return
    kept, left, begun = [], [], set()
    for item in items:
        mark = item.get_closest_marker("thinned")
        table = item.nodeid.partition("[")[0]
        first = table not in begun
        begun.add(table)
        drawn = mark is not None and mark.args and zlib.crc32(item.name.encode()) % mark.args[0] == 0
        chosen = item.get_closest_marker("whole") is None and (mark is None or first or drawn)
        (kept if chosen else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept
