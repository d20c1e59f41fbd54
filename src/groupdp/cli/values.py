"""Reading what was typed: numbers, group sizes, sizes of memory."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fractions import Fraction

from groupdp._validation import require_choice, require_integer, require_number
from groupdp.errors import InvalidArgument
from groupdp.neighbours import ADJACENCIES

#: Longer texts are not numbers anybody means.
LONGEST_NUMBER = 100
#: Most points of one curve.
LARGEST_CURVE = 1000

_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{0,15})?)\s*([KMGT]?)B?", re.ASCII | re.IGNORECASE)
_BYTES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def read_number(name: str, text: str, **limits: float | None) -> float:
    """The finite number that `text` spells, within `limits` (those of `require_number`)."""
    return require_number(name, _finite(name, text), **limits)


def read_integer(name: str, text: str, *, at_least: int = 0, **limits: int) -> int:
    """The integer that `text` spells."""
    if len(text) > LONGEST_NUMBER or not _INTEGER.fullmatch(text.strip()):
        raise InvalidArgument(name, text, f"be an integer of at least {at_least}")
    return require_integer(name, int(text), at_least=at_least, **limits)


def read_memory(text: str) -> int:
    """The bytes that a size such as 512M, 1.5G or 64000000 spells; K, M, G and T are powers of a thousand."""
    from groupdp.engines.interface import SMALLEST_MEMORY

    found = _SIZE.fullmatch(text.strip()) if len(text) <= LONGEST_NUMBER else None
    size = int(Fraction(found[1]) * _BYTES[found[2].upper()]) if found else 0
    if size < SMALLEST_MEMORY:
        least = f"{SMALLEST_MEMORY // 10**6}M"
        raise InvalidArgument("memory", text, f"be a size of at least {least}, such as 512M or 2G")
    return size


def read_adjacency(text: str) -> str:
    """One of the adjacencies."""
    return require_choice("adjacency", text, ADJACENCIES)


def read_group_sizes(text: str, *, name: str = "group_sizes") -> list[int]:
    """The group sizes (or other counts) that `first:last[:step]` or a list `1,2,4` spells, in increasing order."""
    from groupdp.groups import LARGEST_GROUP

    sizes: Sequence[int] = ()
    if re.fullmatch(r"\d{1,9}:\d{1,9}(:\d{1,9})?", text, re.ASCII):
        first, last, *step = (int(part) for part in text.split(":"))
        if step != [0]:
            sizes = range(first, last + 1, *step)
    elif len(text) <= 100_000 and re.fullmatch(r"\d{1,9}(,\d{1,9})*", text, re.ASCII):
        sizes = sorted({int(part) for part in text.split(",")})
    if not sizes:
        raise InvalidArgument(name, text, "look like 1:32, 1:32:4 or 1,2,4")
    if len(sizes) > LARGEST_CURVE:
        raise InvalidArgument(name, len(sizes), f"be at most {LARGEST_CURVE} in number")
    for size in (sizes[0], sizes[-1]):
        require_integer(name, size, at_least=1, at_most=LARGEST_GROUP)
    return list(sizes)


def _finite(name: str, text: str) -> float:
    stripped = text.strip()
    number = float(stripped) if len(text) <= LONGEST_NUMBER and _DECIMAL.fullmatch(stripped) else math.nan
    if not math.isfinite(number):
        raise InvalidArgument(name, text, "be a finite number")
    return number
