"""What every engine answers, for one composition of pairs.

An engine is two functions. Both return certified bounds; neither validates user input (that is done before) nor
knows who was added or removed (that is decided before, and combined after, in `guarantees`).

    log_delta(composition, *, epsilon, ...)      -> Bounds on log delta(epsilon)
    epsilon(composition, *, log_delta, ...)      -> Bounds on the smallest epsilon >= 0 with that delta

with   delta(epsilon) = H_{e^epsilon}(P, Q)   of the composed pair.
"""

from __future__ import annotations

from collections.abc import Callable

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
