"""The choice in a dozen lines of plain Python, straight from docs/data.md; shares nothing with the engines."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

Row = tuple[Any, ...]


def number(*values: Any) -> int:
    """MD5 of length-prefixed fields, as a little-endian integer."""
    message = b""
    for value in values:
        text = None if value is None else str(value).encode()
        message += b"-" if text is None else str(len(text)).encode() + b":" + text
    return int.from_bytes(hashlib.md5(message).digest(), "little")


def numbered(rows: Sequence[Row], seed: str, key: int | None) -> list[tuple[int, Row]]:
    """Rows (user first) with their numbers: of the column `key`, or of all columns and the number of the copy."""
    seen: Counter[Row] = Counter()
    result = []
    for row in rows:
        if key is None:
            result.append((number(seed, *row, seen[row]), row))
            seen[row] += 1
        else:
            result.append((number(seed, row[0], row[key]), row))
    return result


def kept(rows: Sequence[Row], at_most: int, seed: str, key: int | None = None) -> Counter[Row]:
    """At most so many rows of every user, those with the smallest numbers."""
    people: defaultdict[Any, list[tuple[int, Row]]] = defaultdict(list)
    for one, row in numbered(rows, seed, key):
        people[row[0]].append((one, row))
    return Counter(row for mine in people.values() for _, row in sorted(mine, key=lambda pair: pair[0])[:at_most])


def digest(rows: Sequence[Row], key: int | None = None) -> str:
    """The exclusive or of the numbers under the empty seed."""
    total = 0
    for one, _ in numbered(rows, "", key):
        total ^= one
    return f"{total:032x}"
