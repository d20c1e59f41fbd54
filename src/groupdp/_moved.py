"""Modules that moved since 0.1: the old names work for one release, and say where the new ones are."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any


def moved_to(old: str, new: str, *names: str) -> Callable[[str], Any]:
    """A module's `__getattr__` that finds names in another module, with a DeprecationWarning; only `names` if given."""

    def find(name: str) -> Any:
        if name.startswith("__") or (names and name not in names):
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(new), name)
        warnings.warn(f"{old}.{name} is now {new}.{name}; the old name goes in 0.3.", DeprecationWarning, stacklevel=2)
        return found

    return find
