"""What every engine answers, for one composition of pairs, and how much it may do.

An engine is two functions. Both return certified bounds; neither validates user input (that is done before) nor knows
who was added or removed (that is decided before, and combined after, in `guarantees`).

    log_delta(composition, *, epsilon, ...)      -> Bounds on log delta(epsilon)
    epsilon(composition, *, log_delta, ...)      -> Bounds on the smallest epsilon >= 0 with that delta

with delta(epsilon) = H_{e^epsilon}(P, Q) of the composed pair. Work is counted in operations and never in time: the
same question stops at the same place on every run. A unit is what one component costs in one cell of a lattice, about
1e-7 seconds of an idle processor.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from groupdp.errors import LimitExceeded

#: Called with the fraction done, in [0, 1]; an exception raised inside stops the computation.
Progress = Callable[[float], None]

#: Bytes that an engine may take for its largest arrays, where the caller does not say; and the least it takes.
DEFAULT_MEMORY = 10**9
SMALLEST_MEMORY = 64 * 10**6


def share_of(progress: Progress | None, index: int, count: int) -> Progress | None:
    """What one of `count` equal parts of a computation reports to."""
    if progress is None:
        return None
    return lambda fraction: progress((index + fraction) / count)


#: What one question may cost the lattice engine: a minute or two.
LARGEST_QUESTION = 1_000_000_000


class _Counter(threading.local):
    """What each thread has counted."""

    total = 0


counter = _Counter()


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
    counter.total += int(amount)


def work_done() -> int:
    """All that this thread has counted: a search that asks many questions compares it with what it was before."""
    return counter.total
