"""Where in a TOML document a key stands. The standard parser does not say, so it is asked about prefixes.

A document's prefix (whole lines) either does not parse, because a value spans lines, or holds exactly the keys that
begin in it. So the key begins on the line after the longest prefix that parses and does not hold it.
"""

from __future__ import annotations

import tomllib
from typing import Any

#: A path of keys and indices: ("phase", 1, "noise_multiplier").
KeyPath = tuple[Any, ...]


def line_of(text: str, path: KeyPath) -> int:
    """The number of the line on which the key at `path` begins, in a document that parses and holds it."""
    lines = text.replace("\r\n", "\n").split("\n")
    without, within = 0, len(lines)  # numbers of lines: a prefix without the key, one that holds it
    while within - without > 1:
        middle = (without + within) // 2
        probe = middle
        while probe < within and (found := _holds(lines[:probe], path)) is None:
            probe += 1
        if probe < within:
            without, within = (without, probe) if found else (probe, within)
            continue
        probe = middle - 1
        while probe > without and (found := _holds(lines[:probe], path)) is None:
            probe -= 1
        if probe == without:
            break  # nothing between parses: the value spans all these lines
        without, within = (without, probe) if found else (probe, within)
    while without < within - 1 and lines[without].strip().partition("#")[0] == "":
        without += 1  # blank lines and comments parse, unless they are inside the search's last gap
    return without + 1


def _holds(lines: list[str], path: KeyPath) -> bool | None:
    """Whether the prefix holds the path; None if it does not parse."""
    try:
        value: Any = tomllib.loads("\n".join(lines))
    except (ValueError, RecursionError):
        return None
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True
