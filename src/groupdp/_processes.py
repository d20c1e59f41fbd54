"""Processes of our own: Python again, finding modules where this process finds them."""

from __future__ import annotations

import sys


def command_of(module: str, *arguments: str) -> list[str]:
    """What runs the function `main` of one of our modules.

    `python -m` would look into the working directory first, where a file may happen to be called queue.py.
    """
    program = f"import sys; sys.path[:] = {sys.path!r}; from {module} import main; main()"
    return [sys.executable, "-c", program, *arguments]
