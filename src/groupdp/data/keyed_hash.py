"""The number that orders a person's examples; the ones with the smallest numbers are kept.

    priority = MD5(field(seed) field(user) field(key) ...), its 16 bytes read as a little-endian integer
    field(text) = the number of bytes of the text in UTF-8, in decimal; a colon; the text
    field of a missing value = a hyphen

A field begins with its length, so that different lists of fields never give the same message. An integer is its
decimal text, so that 7 in a Parquet column and 7 in a CSV file are one person; nothing is trimmed or normalised.

The definition never changes: every later version keeps the same rows. MD5 is a fixed function that looks random, not a
protection: the seed decides the choice under any hash, and two examples of one person with the same number are refused.
"""

from __future__ import annotations

import hashlib
import numbers
import uuid
from collections.abc import Sequence
from typing import Any

from groupdp.errors import InvalidArgument

#: DuckDB types whose text is the same in every engine.
ID_TYPES = frozenset(
    ["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "VARCHAR", "UUID"]
)


def priority(seed: str, user: Any, *key: Any) -> int:
    """The 128-bit number of the example `key` of `user`: the plain-Python definition that every engine reproduces."""
    message = b"".join(field(value) for value in (seed, user, *key))
    return int.from_bytes(hashlib.md5(message, usedforsecurity=False).digest(), "little")


def field(value: Any) -> bytes:
    """One field of the message."""
    if value is None:
        return b"-"
    encoded = canonical_text(value).encode("utf-8")
    return b"%d:%b" % (len(encoded), encoded)


def canonical_text(value: Any) -> str:
    """The text of an identifier: itself, an integer's decimal digits, or a UUID's lower-case form with hyphens."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return str(int(value))
    if isinstance(value, uuid.UUID):
        return str(value)
    raise InvalidArgument("identifiers", value, "be text, integers or UUIDs")


def priority_sql(seed: str, values: Sequence[str]) -> str:
    """The same number in DuckDB, from the expressions of the user and the key."""
    parts = [literal(field(seed).decode("utf-8"))]
    for value in values:
        text = f"CAST({value} AS VARCHAR)"
        parts.append(f"coalesce(strlen({text}) || ':' || {text}, '-')")
    return f"md5_number({' || '.join(parts)})"


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text in SQL."""
    if "\x00" in text:
        raise InvalidArgument("a name, path or seed", text, "not contain the character NUL")
    return "'" + text.replace("'", "''") + "'"


def visible_sql(value: str) -> str:
    """The text of an identifier without what cannot be seen: format characters dropped, every space a plain one."""
    seen = rf"regexp_replace(CAST({value} AS VARCHAR), '[\p{{Cf}}\x{{FE00}}-\x{{FE0F}}]', '', 'g')"
    return rf"trim(regexp_replace({seen}, '[\p{{Z}}\s]+', ' ', 'g'))"


def hexadecimal(number: int) -> str:
    """A 128-bit number as it is printed."""
    return f"{number:032x}"
