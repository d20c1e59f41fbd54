"""Where in a TOML document a key stands. The standard parser does not say, so it is asked about prefixes.

A document's prefix (whole lines) either does not parse, because a value spans lines, or holds exactly the keys that
begin in it. So the key begins on the line after the longest prefix that parses and does not hold it.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

#: A path of keys and indices: ("phase", 1, "noise_multiplier").
KeyPath = tuple[Any, ...]

#: Parts of the longest dotted key. The standard parser takes time quadratic in them, and run files need two.
MOST_PARTS = 8
#: Characters that the search for a line may have parsed: some tenths of a second.
_MOST_PARSED = 2_000_000

_TEXT_OR_COMMENT = re.compile(r"""("(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')|#[^\n]*+""")
_LONG_KEY = re.compile(rf"(?<![\w-])[\w-]++(?:[ \t]*+\.[ \t]*+[\w-]++){{{MOST_PARTS}}}")


def long_key(text: str) -> int | None:
    """The number of the line with a dotted key of more than MOST_PARTS parts, if there is one; in linear time."""
    plain = _TEXT_OR_COMMENT.sub(lambda found: "s" if found[1] else "", text)
    found = _LONG_KEY.search(plain)
    return None if found is None else plain.count("\n", 0, found.start()) + 1


def line_of(text: str, path: KeyPath) -> int | None:
    """The number of the line on which the key at `path` begins, in a document that parses and holds it.

    None where finding it takes too long: values that span very many lines.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    names = [part for part in path if isinstance(part, str)]
    # The key, or the value that spans it, begins on a line that has its name, unless the name is escaped there.
    cuts = [place for place, line in enumerate(lines) if any(name in line for name in names)]
    cuts = cuts or list(range(len(lines)))
    left = _MOST_PARSED

    def held(cut: int) -> bool | None:
        """Whether the lines before the cut hold the path; None if they do not parse."""
        nonlocal left
        prefix = "\n".join(lines[:cut])
        left -= len(prefix)
        return _holds(prefix, path) if left > 0 else None

    # Of the cuts whose prefix parses, the last one whose prefix does not hold the key.
    low, high, best = 0, len(cuts), 0
    while low < high and left > 0:
        middle = probe = (low + high) // 2
        while probe < high and left > 0 and (found := held(cuts[probe])) is None:
            probe += 1
        if probe == high or found:
            high = middle
        else:
            best, low = cuts[probe], probe + 1
    return best + 1 if left > 0 else None


def _holds(text: str, path: KeyPath) -> bool | None:
    """Whether the prefix holds the path; None if it does not parse."""
    try:
        value: Any = tomllib.loads(text)
    except (ValueError, RecursionError):
        return None
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True
