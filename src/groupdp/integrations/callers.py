"""What the calling tool knows and does not pass on, read from the frames of its own functions.

Opacus tells its accountant a rate, not whether batches were really drawn with it; JAX Privacy turns several bands and
fixed batches into Poisson events. Those facts are local variables of the tool's functions while they call. They are
used only to refuse: no number depends on them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

#: Frames looked at, from the innermost outward.
_DEEPEST = 40


def calling_frames(package: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(function name, local variables) of every calling function that belongs to `package`, innermost first."""
    frame = sys._getframe(1)
    for _ in range(_DEEPEST):
        back = frame.f_back
        if back is None:
            return
        frame = back
        module = frame.f_globals.get("__name__", "")
        if isinstance(module, str) and (module == package or module.startswith(f"{package}.")):
            yield frame.f_code.co_name, frame.f_locals
