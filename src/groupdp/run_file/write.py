"""A run as a TOML file that `read_run_file` reads back as the same run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupdp.neighbours import ADJACENCIES
from groupdp.run_file.read import RunFile


def run_file_text(file: RunFile) -> str:
    """The TOML document of a run file, in full precision."""
    top: dict[str, Any] = {"title": file.title, "delta": file.delta, "group_size": file.group_size}
    top |= {"removed": file.removed, "added": file.added}
    if file.adjacency != ADJACENCIES[0]:
        top["adjacency"] = file.adjacency
    lines = [f"{key} = {_value(value)}" for key, value in top.items() if value is not None]
    for phase in file.phases:
        lines += ["", "[[phase]]"]
        lines += [f"{key} = {_value(value)}" for key, value in phase.stated().items()]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_text(str(key))} = {_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, str):
        return _text(value)
    return repr(value)


def _text(value: str) -> str:
    """A basic string: quotes, backslashes and control characters escaped."""
    escaped = "".join(
        f"\\{one}" if one in '"\\' else f"\\u{ord(one):04x}" if ord(one) < 32 or ord(one) == 127 else one
        for one in value
    )
    return f'"{escaped}"'
