"""How much a computation may do, counted in operations and never in time.

The same question stops at the same place on every run, from every thread, however busy the machine is. A unit is what
one component costs in one cell of a lattice, about 1e-7 seconds of an idle processor.
"""

from __future__ import annotations

import threading

from groupdp.errors import LimitExceeded

#: What one question may cost the lattice engine: a minute or two.
LARGEST_QUESTION = 1_000_000_000
_counter = threading.local()


class Work:
    """What one question has cost so far; `spend` raises `LimitExceeded` beyond the limit."""

    __slots__ = ("done", "limit")

    def __init__(self, limit: int = LARGEST_QUESTION) -> None:
        self.limit, self.done = limit, 0

    def spend(self, amount: float) -> None:
        """Count work that is about to be done."""
        self.done += int(amount)
        count(amount)
        if self.done > self.limit:
            raise LimitExceeded(f"the computation did not finish within its limit of {self.limit:.3g} operations.")


def count(amount: float) -> None:
    """Count work that no limit of its own applies to."""
    _counter.total = work_done() + int(amount)


def work_done() -> int:
    """All that this thread has counted: a search that asks many questions compares it with what it was before."""
    return getattr(_counter, "total", 0)
