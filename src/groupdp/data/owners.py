"""Records with several owners: at most k of each owner, chosen by who owns what and the seed alone.

Who owns which record is a public graph here, and the contents are protected: a record that is left out for one owner
makes room for others of a co-owner, so that removing a person changes which records of other people are kept.

The choice goes through the records in order of (records of all their owners together, number), the number being
`choice.priority` of seed and key, and keeps what fits. Then a kept record gives way where at least two others fit
in its place. The result is maximal, so that at least 1/d of the largest possible number is kept, d the most owners of
a record; `Chosen.possible` bounds that number by linear programming duality.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from groupdp.data.bounding import alike_people, check_people, delivered, stored_rows, tally_people
from groupdp.data.choice import check_type, hexadecimal, kind_of, priority_sql, quoted, seed_of
from groupdp.data.duckdb_engine import Engine, Progress, stages
from groupdp.data.manifest import Bounded
from groupdp.data.relations import NO_ROWS, PREFIX, Relation
from groupdp.errors import NOT_SHOWN, GroupDPError, InvalidArgument, InWords, LimitExceeded, require_integer, shown
from groupdp.floats import IntArray

#: Bytes of memory that choosing takes for one ownership, at most.
_BYTES = 60
#: Passes over the kept records that look for two in the place of one.
_PASSES = 3
#: Steps towards better prices of the owners' places, for the bound on what is possible.
_STEPS = 25
#: Records between two reports of the progress.
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Owners:
    """At most `at_most` records of each owner; the owners are the values of the columns `by`, which may hold lists."""

    by: tuple[str, ...]
    key: tuple[str, ...] = ()
    at_most: int = 1
    seed: str = "0"

    @classmethod
    def of(cls, *, by: Sequence[str], key: Any, at_most: Any, per: Any, seed: Any) -> Owners:
        """A choice from the keywords of `bound`, checked."""
        names = (key,) if isinstance(key, str) else tuple(key or ())
        if not names:
            needed, reason = (
                "be given where records have several owners",
                "the choice must not depend on their contents",
            )
            raise InvalidArgument("key", NOT_SHOWN, needed, reason)
        if per is not None or isinstance(at_most, Mapping):
            raise InvalidArgument("at_most", at_most, "be one number where records have several owners")
        return cls(by=tuple(by), key=names, at_most=require_integer("at_most", at_most, at_least=1), seed=seed_of(seed))

    def check(self, columns: Mapping[str, str]) -> None:
        """Refuse missing columns, and columns whose values have no text that every engine agrees on."""
        for name in self.by:
            check_type(name, kind_of(name, columns).removesuffix("[]"), " or lists of them")
        for name in self.key:
            check_type(name, kind_of(name, columns))

    def names(self, columns: Mapping[str, str]) -> str:
        """The expression of the list of a record's owners, each once; a missing one is left out."""
        lists = (
            f"CAST({quoted(name)} AS VARCHAR[])"
            if columns[name].endswith("[]")
            else f"[CAST({quoted(name)} AS VARCHAR)]"
            for name in self.by
        )
        return f"list_sort(list_distinct(flatten([{', '.join(lists)}])))"

    def number(self, *, seed: str | None = None) -> str:
        """The expression of a record's number."""
        return priority_sql(self.seed if seed is None else seed, [quoted(name) for name in self.key])


def are_several(by: str | Sequence[str], columns: Mapping[str, str]) -> bool:
    """Whether records may have several owners: several columns say whose they are, or one with lists."""
    return not isinstance(by, str) or columns.get(by, "").endswith("[]")


def columns_of(by: str | Sequence[str]) -> tuple[str, ...]:
    """The columns of owners, checked."""
    names = (by,) if isinstance(by, str) else tuple(by)
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise InvalidArgument("by", by, "be the name of a column, or of several different columns")
    return names


def tally(engine: Engine, source: Relation, by: str | Sequence[str], progress: Progress | None = None) -> int | None:
    """Make the table `people` (g0, n); returns the number of records where these may have several owners."""
    names = columns_of(by)
    if not are_several(by, source.columns):
        tally_people(engine, source, names, progress)
        return None
    read_records(engine, source, Owners(by=names), progress)
    return people_of_records(engine, names)


def people_of_records(engine: Engine, by: tuple[str, ...]) -> int:
    """Make `people` from the table `records`; returns the number of records."""
    engine.rows(
        "CREATE OR REPLACE TEMP TABLE people AS SELECT g0, count(*) AS n "
        "FROM (SELECT unnest(owners) AS g0 FROM records) WHERE g0 <> '' GROUP BY g0"
    )
    named = "len(owners) - CAST(list_contains(owners, '') AS INTEGER)"
    without, rows = engine.rows(f"SELECT count(*) FILTER ({named} = 0), count(*) FROM records")[0]
    if without:
        names = " and ".join(shown(name) for name in by)
        raise InvalidArgument(names, InWords(f"{without} records without any owner"), "not be missing")
    check_people(engine, by[:1])
    return int(rows)


def read_records(engine: Engine, source: Relation, owners: Owners, progress: Progress | None = None) -> None:
    """Make the table `records` (owners; with a key h, owners)."""
    owners.check(source.columns)
    number = f"{owners.number()} AS h, " if owners.key else ""
    rows = f"SELECT {number}{owners.names(source.columns)} AS owners FROM {source.sql}"
    engine.rows(f"CREATE OR REPLACE TEMP TABLE records AS {rows}", progress)


def choose(engine: Engine, owners: Owners, memory: int, progress: Progress | None = None) -> dict[str, Any]:
    """Make the table `chosen` (h) of the records to keep from `records`; returns the first part of the report."""
    import pyarrow

    rows = people_of_records(engine, owners.by)
    if not rows:
        raise InvalidArgument(*NO_ROWS)
    if engine.value("SELECT count(DISTINCT h) FROM records") < rows:
        names = ", ".join(shown(name) for name in owners.key)
        raise InvalidArgument("key", InWords(f"{names}, which repeats"), "differ between records")
    ownerships, people, largest = engine.rows("SELECT sum(n), count(*), max(n) FROM people")[0]
    apart = int(ownerships) * _BYTES
    if apart > memory / 2:
        raise LimitExceeded(f"memory must be at least {2 * apart} bytes for {ownerships} ownerships, got {memory}.")
    engine.rows(
        """CREATE OR REPLACE TEMP TABLE placed AS
        SELECT h, row_number() OVER (ORDER BY s, h) - 1 AS place FROM (
            SELECT h, sum(n) AS s FROM (SELECT h, unnest(owners) AS g0 FROM records)
            JOIN people USING (g0) GROUP BY h)"""
    )
    engine.limit_memory(memory - apart)
    edges = engine.connection.sql(
        """SELECT CAST(place AS INTEGER) AS place, CAST(id AS INTEGER) AS id
        FROM (SELECT h, unnest(owners) AS g0 FROM records)
        JOIN placed USING (h) JOIN (SELECT g0, row_number() OVER (ORDER BY g0) - 1 AS id FROM people) USING (g0)
        ORDER BY place, id"""
    ).fetchnumpy()
    first, ids = np.searchsorted(edges.pop("place"), np.arange(rows + 1, dtype=np.int32)), np.asarray(edges.pop("id"))
    kept = chosen_records(first, ids, int(people), owners.at_most, progress)
    still = np.repeat(kept, np.diff(first))
    engine.connection.register(f"{PREFIX}places", pyarrow.table({"place": np.flatnonzero(kept)}))
    engine.rows(f"CREATE OR REPLACE TEMP TABLE chosen AS SELECT h FROM placed SEMI JOIN {PREFIX}places USING (place)")
    return {
        "rows": rows,
        "people": int(people),
        "largest": int(largest),
        "people_cut": int(np.count_nonzero(np.bincount(ids) > np.bincount(ids[still], minlength=people))),
        "at_most": owners.at_most,
        "seed": owners.seed,
        "alike": alike_people(engine),
        "possible": possible_records(first, ids, int(people), owners.at_most),
    }


def chosen_records(
    first: IntArray, owners: npt.NDArray[np.int32], people: int, at_most: int, progress: Progress | None = None
) -> npt.NDArray[np.bool_]:
    """Which records are kept: record i, in order of preference, has the owners owners[first[i]:first[i + 1]]."""
    ends, names = first.data, owners.data
    left, kept = [at_most] * people, bytearray(len(first) - 1)
    filling, *swapping = stages(progress, 4, *[3] * _PASSES)
    _fill(ends, names, left, kept, filling)
    for report in swapping:
        if not _swap(ends, names, left, kept, report):
            break
    _fill(ends, names, left, kept, None)
    return np.frombuffer(kept, dtype=np.bool_)


def _fill(ends: Sequence[int], names: Any, left: list[int], kept: bytearray, progress: Progress | None) -> None:
    """Keep every record that still fits, in order."""
    for i in range(len(kept)):
        if progress is not None and i % _CHUNK == 0:
            progress(i / len(kept))
        own = names[ends[i] : ends[i + 1]]
        if not kept[i] and all(left[o] for o in own):
            _take(left, own)
            kept[i] = 1


def _take(left: list[int], own: Sequence[int], places: int = 1) -> None:
    """Take places of these owners; a negative number gives them back."""
    for o in own:
        left[o] -= places


def _swap(ends: Sequence[int], names: Any, left: list[int], kept: bytearray, progress: Progress | None) -> int:
    """Replace a kept record by two or more that fit in its place; returns how many were replaced.

    What waits for one owner alone can only follow a kept record of that owner; two that wait for different owners
    need one record of both.
    """
    waiting: dict[int, list[int]] = {}
    for i in range(len(kept) - 1, -1, -1):  # the preferred ones are last, and are taken first
        if not kept[i]:
            full = [o for o in names[ends[i] : ends[i + 1]] if not left[o]]
            if len(full) == 1:
                waiting.setdefault(full[0], []).append(i)
    replaced = 0
    for i in range(len(kept) - 1, -1, -1):
        if progress is not None and i % _CHUNK == 0:
            progress(1.0 - i / len(kept))
        own = names[ends[i] : ends[i + 1]]
        if not kept[i] or sum(not left[o] and bool(waiting.get(o)) for o in own) < 2:
            continue
        _take(left, own, -1)
        taken = []
        for o in own:
            line = waiting.get(o, [])
            while line and left[o]:
                j = line.pop()
                other = names[ends[j] : ends[j + 1]]
                if not kept[j] and all(left[p] for p in other):
                    _take(left, other)
                    taken.append((o, j))
        if len(taken) >= 2:
            kept[i] = 0
            for _, j in taken:
                kept[j] = 1
            replaced += 1
        else:
            for o, j in taken:
                _take(left, names[ends[j] : ends[j + 1]], -1)
                waiting[o].append(j)
            _take(left, own)
    return replaced


def possible_records(first: IntArray, owners: npt.NDArray[np.int32], people: int, at_most: int) -> int:
    """No choice keeps more records: for any prices y >= 0 of the owners' places, at most

        sum_o at_most y_o + sum_r max(0, 1 - sum of the prices of r's owners),

    because a record in excess of its price pays for its places (weak duality). The prices are improved by
    subgradient steps; any are valid.
    """
    lengths, begin = np.diff(first), first[:-1]
    price = np.where(np.bincount(owners, minlength=people) > at_most, 0.5, 0.0)
    least = float(len(lengths))
    for step in range(_STEPS):
        paid = np.add.reduceat(price[owners], begin)
        least = min(least, at_most * float(price.sum()) + float(np.maximum(0.0, 1.0 - paid).sum()))
        wanted = np.bincount(owners, weights=np.repeat(paid < 1.0, lengths), minlength=people)
        move = np.clip((wanted - at_most) / at_most, -1.0, 1.0) / (2.0 + step / 2.0)
        price = np.clip(price + move, 0.0, 1.0)
    return int(least * (1.0 + 1e-9))


def bounded_owners(
    engine: Engine, source: Relation, owners: Owners, destination: Path | None, memory: int, progress: Progress | None
) -> Bounded:
    """Bound records with several owners on this machine."""

    reading, choosing, writing = stages(progress, 3, 5, 2)
    read_records(engine, source, owners, reading)
    report = choose(engine, owners, memory, choosing)
    kept = stored_rows(engine, kept_records(source, owners), source, destination, writing)
    counted = check_records(engine, kept, owners)
    return delivered(engine, destination, {**report, **finished(engine, owners, [counted])})


def kept_records(source: Relation, owners: Owners) -> str:
    """The query of the rows whose records are in the table `chosen`."""
    columns = ", ".join(f"r.{quoted(name)}" for name in source.columns)
    rows = f"SELECT *, {owners.number()} AS {PREFIX}h FROM {source.sql}"
    return f"SELECT {columns} FROM ({rows}) r SEMI JOIN chosen c ON r.{PREFIX}h = c.h"


def check_records(engine: Engine, kept: Relation, owners: Owners) -> tuple[Any, int, int]:
    """(records of each owner, rows, digest) of the rows written."""
    named = f"SELECT unnest({owners.names(kept.columns)}) AS g0 FROM {kept.sql}"
    counts = engine.table(f"SELECT g0, count(*) AS m FROM ({named}) WHERE g0 <> '' GROUP BY g0")
    rows, digest = engine.rows(
        f"SELECT count(*), CAST(coalesce(bit_xor({owners.number(seed='')}), 0) AS VARCHAR) FROM {kept.sql}"
    )[0]
    return counts, int(rows), int(digest)


def finished(engine: Engine, owners: Owners, parts: list[tuple[Any, int, int]]) -> dict[str, Any]:
    """The rest of the report, from the rows written; an owner with too many is a bug and is refused."""
    import pyarrow

    engine.connection.register(f"{PREFIX}counts", pyarrow.concat_tables([counts for counts, _, _ in parts]))
    most = engine.value(f"SELECT coalesce(max(m), 0) FROM (SELECT sum(m) AS m FROM {PREFIX}counts GROUP BY g0)")
    kept, digest = sum(rows for _, rows, _ in parts), 0
    for _, _, number in parts:
        digest ^= number
    if most > owners.at_most or kept != engine.value("SELECT count(*) FROM chosen"):
        raise GroupDPError("the rows written are not the rows chosen: this is a bug in groupdp.")
    return {"kept": kept, "largest_kept": int(most), "digest": hexadecimal(digest), "owners": list(owners.by)}
