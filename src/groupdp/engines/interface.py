"""What every engine answers, for one direction of one composition.

An engine is two functions. Both return certified bounds; neither validates user input (that is done before)
nor combines directions (that is done after, in `guarantees`).

    log_delta(composition, *, direction, epsilon, ...)      -> Bounds on log delta(epsilon)
    epsilon(composition, *, direction, log_delta, ...)      -> Bounds on the smallest epsilon >= 0 with that delta

with   delta(epsilon) = H_{e^epsilon}(P, Q)   of the composed pair: P is the mixture for "remove" and the
plain Gaussian for "add".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

Direction = Literal["add", "remove"]

#: Called with the fraction done, in [0, 1]; an exception raised inside stops the computation.
Progress = Callable[[float], None]
