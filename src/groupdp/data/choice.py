"""What to keep of each person, and the SQL that says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from groupdp._validation import require_integer, shown
from groupdp.data.keyed_hash import ID_TYPES, literal, priority_sql, quoted
from groupdp.errors import NOT_SHOWN, InvalidArgument


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
        """From the keywords of `bound`, checked."""
        names = [key] if isinstance(key, str) else list(key or ())
        for name, value in (("by", by), *(("key", one) for one in names), *([("per", per)] if per is not None else [])):
            if not isinstance(value, str) or not value:
                raise InvalidArgument(name, value, "be the name of a column")
        literal(seed_of(seed))
        caps: int | dict[str, int]
        if isinstance(at_most, Mapping):
            if per is None or not at_most:
                raise InvalidArgument("at_most", at_most, "be an integer unless per names the sources")
            caps = {str(source): require_integer("at_most", cap, at_least=0) for source, cap in at_most.items()}
        else:
            caps = require_integer("at_most", at_most, at_least=1)
        return cls(by=by, key=tuple(names), at_most=caps, per=per, seed=str(seed))

    @property
    def group(self) -> tuple[str, ...]:
        """The columns whose distinct values are capped: the person, or the person and the source."""
        return (self.by,) if self.per is None else (self.by, self.per)

    def check(self, columns: Mapping[str, str]) -> None:
        """Refuse columns that are not there, or whose values have no text that every engine agrees on."""
        for name in (*self.group, *self.key):
            check_type(name, kind_of(name, columns))
        if not self.key:
            fit = [name for name in columns if name not in self.group and _has_text(columns[name])]
            named = f" such as {names_of(fit[:3])}," if fit else ""
            for name in columns:
                check_type(name, columns[name], f"name columns{named} that tell a person's examples apart: --key")

    def hashed(self, columns: Mapping[str, str]) -> list[str]:
        """The columns whose values make the number: the person, then the key or all others by name."""
        return [self.by, *(self.key or sorted(name for name in columns if name != self.by))]

    def number(self, columns: Mapping[str, str], *, of: str = "", copies: str = "", seed: str | None = None) -> str:
        """The expression of a row's number in the table `of`; `copies` counts equal rows, where there is no key."""
        values = [f"{of}{quoted(name)}" for name in self.hashed(columns)]
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
        raise InvalidArgument(shown(name), NOT_SHOWN, f"be one of the columns {names_of(columns)}")
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
