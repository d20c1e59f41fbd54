"""What to keep of each person: the examples with the smallest numbers, and the SQL that says so.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from groupdp.errors import InvalidArgument, require_integer, shown

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
    if isinstance(value, bool) or not isinstance(value, str | numbers.Integral | uuid.UUID):
        raise InvalidArgument("identifiers", value, "be text, integers or UUIDs")
    encoded = str(int(value) if isinstance(value, numbers.Integral) else value).encode("utf-8")
    return b"%d:%b" % (len(encoded), encoded)


def priority_sql(seed: str, values: Sequence[str]) -> str:
    """`priority` as an expression of DuckDB, from the expressions of the user and the key."""
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
    """The text of an identifier as it looks: format characters dropped, every space a plain space."""
    seen = rf"regexp_replace(CAST({value} AS VARCHAR), '[\p{{Cf}}\x{{FE00}}-\x{{FE0F}}]', '', 'g')"
    return rf"trim(regexp_replace({seen}, '[\p{{Z}}\s]+', ' ', 'g'))"


def hexadecimal(number: int) -> str:
    """A 128-bit number as it is printed."""
    return f"{number:032x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """At most `at_most` examples of each person `by`, those with the smallest keyed numbers.

    `key` tells a person's examples apart; without it the row's own content does, and equal rows are numbered. With
    `per`, a column of sources, the caps are those of each source: one for all, or one for each.
    """

    by: str
    key: tuple[str, ...] = ()
    at_most: int | Mapping[str, int]
    per: str | None = None
    seed: str

    @classmethod
    def of(cls, *, by: Any, key: Any, at_most: Any, per: Any, seed: Any) -> Choice:
        """A choice from the keywords of `bound`, checked."""
        names = (key,) if isinstance(key, str) else tuple(key or ())
        given = [("by", by), *(("key", name) for name in names), *([] if per is None else [("per", per)])]
        for argument, column in given:
            if not isinstance(column, str) or not column:
                raise InvalidArgument(argument, column, "be the name of a column")
        literal(seed_of(seed))
        if not isinstance(at_most, Mapping):
            caps: Any = require_integer("at_most", at_most, at_least=1)
        elif per is None or not at_most:
            raise InvalidArgument("at_most", at_most, "be an integer unless per names the sources")
        else:
            caps = {str(source): require_integer("at_most", cap, at_least=0) for source, cap in at_most.items()}
        return cls(by=by, key=names, at_most=caps, per=per, seed=str(seed))

    @property
    def group(self) -> tuple[str, ...]:
        """The columns whose distinct values are capped: the person, or the person and the source."""
        return (self.by,) if self.per is None else (self.by, self.per)

    def check(self, columns: Mapping[str, str]) -> None:
        """Refuse missing columns, and columns whose values have no text that every engine agrees on."""
        for name in (*self.group, *self.key):
            check_type(name, kind_of(name, columns))
        if not self.key:
            fit = [name for name in columns if name not in self.group and _has_text(columns[name])]
            named = f" such as {names_of(fit[:3])}," if fit else ""
            for name in columns:
                check_type(name, columns[name], f"name columns{named} that tell a person's examples apart: --key")

    def number(self, columns: Mapping[str, str], *, of: str = "", copies: str = "", seed: str | None = None) -> str:
        """The expression of a row's number in the table `of`; `copies` counts equal rows, where there is no key."""
        names = [self.by, *(self.key or sorted(name for name in columns if name != self.by))]
        values = [f"{of}{quoted(name)}" for name in names]
        return priority_sql(self.seed if seed is None else seed, [*values, copies] if copies else values)

    def cap(self, source: str) -> str:
        """The expression of a cap, with `source` the expression of the source that it is for."""
        if isinstance(self.at_most, int):
            return str(self.at_most)
        cases = " ".join(f"WHEN {literal(name)} THEN {cap}" for name, cap in self.at_most.items())
        return f"CASE CAST({source} AS VARCHAR) {cases} END"


def seed_of(seed: Any) -> str:
    """The text of a seed."""
    if not isinstance(seed, str | int) or isinstance(seed, bool):
        raise InvalidArgument("seed", seed, "be text or an integer")
    return str(seed)


def kind_of(name: str, columns: Mapping[str, str]) -> str:
    """The type of a column, which must be there."""
    if name not in columns:
        raise InvalidArgument("column", name, f"be one of {names_of(columns)}")
    return columns[name]


def _has_text(kind: str) -> bool:
    """Whether the values of a column have one text in every engine."""
    return kind in ID_TYPES or kind.startswith("ENUM(")


def check_type(name: str, kind: str, advice: str = "") -> None:
    """Refuse a column whose values do not have one text in every engine; `advice` where no key is given."""
    if not _has_text(kind):
        where = " where no key is given" if advice else ""
        requirement = f"be a column of text, integers of up to 64 bits or UUIDs{where}"
        raise InvalidArgument(shown(name), kind, requirement, advice)


def names_of(columns: Mapping[str, str] | Sequence[str]) -> str:
    """The columns, as an error lists them."""
    names = list(columns)
    return ", ".join(shown(name) for name in names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
