"""What every engine answers, for one composition of pairs, how much it may do, and where a curve passes a value.

An engine is two functions. Both return certified bounds; neither validates user input (that is done before) nor knows
who was added or removed (that is decided before, and combined after, in question.py).

    log_delta(composition, *, epsilon, ...)      -> Bounds on log delta(epsilon)
    epsilon(composition, *, log_delta, ...)      -> Bounds on the smallest epsilon >= 0 with that delta

with delta(epsilon) = H_{e^epsilon}(P, Q) of the composed pair. Work is counted in operations and never in time: the
same question stops at the same place on every run. A unit is what one component costs in one cell of a lattice, about
1e-7 seconds of an idle processor.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from groupdp.errors import InvalidArgument, LimitExceeded, require_choice, require_integer, require_number

#: Called with the fraction done, in [0, 1]; an exception raised inside stops the computation.
Progress = Callable[[float], None]

#: Bytes that an engine may take for its largest arrays, where the caller does not say; and the least it takes.
DEFAULT_MEMORY = 10**9
SMALLEST_MEMORY = 64 * 10**6


#: Engines by name; `auto` takes the spectral one where it answers narrowly, and the lattice where not.
ENGINES = ("auto", "spectral", "lattice")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to compute: the engine, the relative width, the bytes, a progress callback."""

    engine: str = "auto"
    tolerance: float | None = None
    memory_budget: int = DEFAULT_MEMORY
    progress: Progress | None = None


_DEFAULTS = Options()


def options_of(
    *, engine: Any, tolerance: Any = None, memory_budget: Any = DEFAULT_MEMORY, progress: Any = None
) -> Options:
    """Validated options."""
    if engine == "auto" and tolerance is progress is None and memory_budget is DEFAULT_MEMORY:
        return _DEFAULTS
    require_choice("engine", engine, ENGINES)
    if tolerance is not None:
        tolerance = require_number("tolerance", tolerance, above=0.0, at_most=1.0)
    budget = require_integer("memory_budget", memory_budget, at_least=SMALLEST_MEMORY)
    if progress is not None and not callable(progress):
        raise InvalidArgument("progress", progress, "be a callable that takes the fraction done, or None")
    return Options(engine=engine, tolerance=tolerance, memory_budget=budget, progress=progress)


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


_MOST_SECANTS = 12
_MOST_DOUBLINGS = 200
_MOST_BISECTIONS = 80


def first_at_most(
    log_delta: Callable[[float], float], target: float, *, start: float, slope: float, resolution: float
) -> float:
    """An epsilon >= 0 with log_delta(epsilon) <= target, evaluated, and close to the smallest; inf if none was found.

    `slope` is a guess of -d log_delta / d epsilon; `resolution` is relative to max(1, epsilon).
    """
    return _crossing(lambda x: log_delta(x) - target, start, slope, resolution, above=True)[1]


def last_above(
    log_delta: Callable[[float], float], target: float, *, start: float, slope: float, resolution: float
) -> float:
    """An epsilon >= 0 with log_delta(epsilon) > target, evaluated, and close to the largest; 0 if there is none."""
    return _crossing(lambda x: log_delta(x) - target, start, slope, resolution, above=False)[0]


def _crossing(
    excess: Callable[[float], float], start: float, slope: float, resolution: float, *, above: bool
) -> tuple[float, float]:
    """Neighbours (a, b) with excess(a) > 0 >= excess(b), or a = b = 0, or b = inf."""
    guess = _secant(excess, max(start, 0.0), slope, resolution)
    reach = 0.5 * resolution * max(1.0, guess)
    a, b = _enclosed(excess, guess, reach, above=above)
    if b > 0.0 and math.isfinite(b):
        for _ in range(_MOST_BISECTIONS):
            middle = 0.5 * (a + b)
            if b - a <= 2.0 * reach or not a < middle < b:
                break
            a, b = (middle, b) if excess(middle) > 0.0 else (a, middle)
    return a, b


def _secant(excess: Callable[[float], float], start: float, slope: float, resolution: float) -> float:
    """About where the excess is zero; the last point tried if the secants do not converge."""
    x, value = start, excess(start)
    slope = max(slope, 1e-300)
    for _ in range(_MOST_SECANTS):
        if not math.isfinite(value) or abs(value) <= 0.1 * slope * resolution * max(1.0, x):
            break
        new = max(x + value / slope, 0.0)
        if not math.isfinite(new) or new == x:
            break
        new_value = excess(new)
        if not math.isfinite(new_value):
            break
        slope = max((value - new_value) / (new - x), 0.05 * slope)
        x, value = new, new_value
    return x


def _enclosed(excess: Callable[[float], float], guess: float, reach: float, *, above: bool) -> tuple[float, float]:
    """(a, b) around the crossing; the side asked for is looked at first, and is usually all that is needed."""
    a, b = max(guess - reach, 0.0), guess + reach

    def found_left() -> bool:
        nonlocal a, b, reach
        while a > 0.0 and excess(a) <= 0.0:
            a, b = max(a - reach, 0.0), a
            reach *= 2.0
        return a > 0.0 or excess(0.0) > 0.0

    def found_right() -> bool:
        nonlocal a, b, reach
        for _ in range(_MOST_DOUBLINGS):
            if not math.isfinite(b) or excess(b) <= 0.0:
                return math.isfinite(b)
            a, b = b, b + reach
            reach *= 2.0
        return False

    if above and not found_right():
        return a, math.inf
    if not found_left():
        return 0.0, 0.0
    return (a, b) if above or found_right() else (a, math.inf)
