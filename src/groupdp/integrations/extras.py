"""Optional packages: a missing one is an ImportError that names the extra to install."""

from __future__ import annotations

import importlib
from typing import Any


def require_package(module: str, *, extra: str, tool: str) -> Any:
    """The module `module` of an optional package."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or module.split(".")[0] != error.name.split(".")[0]:
            raise  # the tool is there, but something it needs is not: its own message says what
        wanted = extra.replace("_", "-")  # the spelling that every version of pip understands
        raise ImportError(
            f"groupdp.integrations.{extra} needs {tool}: install groupdp with the extra {wanted!r} "
            f"(groupdp[{wanted}]).",
            name=error.name,
        ) from None
