"""How long a computation may take: an instant of `time.monotonic()`, apart from who is told about progress."""

from __future__ import annotations

import time

from groupdp.errors import LimitExceeded


def deadline_in(seconds: float) -> float:
    """The instant so many seconds from now."""
    return time.monotonic() + seconds


def require_time(deadline: float | None) -> None:
    """Raise `LimitExceeded` if the deadline has passed; None never does."""
    if deadline is not None and time.monotonic() > deadline:
        raise LimitExceeded("the computation did not finish within the time it was given.")
