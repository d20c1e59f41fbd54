"""A ledger: everything that was released about people, in a file that only grows.

A ledger is a file of chained JSON lines (chain.py): what was fixed when it was made (delta, adjacency, budget,
the filter's orders), then an entry for every release. A changed, removed or reordered entry is noticed. Whoever can
write the file can write all of it anew: note the last digest elsewhere to notice that as well.

An entry has its run, so that every figure is computed again from the file; the bound that was stated when it was added;
and whether its parameters were chosen after looking at earlier outcomes. If any were, only a filter's budget is a
guarantee (R-8); if none were, the composition is.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from datetime import date as calendar_date
from pathlib import Path
from typing import Any

from groupdp._validation import require_choice, require_line, require_number, shown
from groupdp._version import VERSION
from groupdp.baselines.adaptive import FILTER_ORDERS, filter_epsilon
from groupdp.bounds import Bounds
from groupdp.engines.interface import Progress
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords, LimitExceeded
from groupdp.groups import not_given
from groupdp.guarantees import epsilon
from groupdp.ledger.chain import Line, append_line, make_file, read_lines
from groupdp.mechanisms.mechanism import Mechanism
from groupdp.mechanisms.named_values import phase_of
from groupdp.mechanisms.wrappers import OfGroup
from groupdp.neighbours import ADD_AND_REMOVE, ADJACENCIES
from groupdp.printing import json_ready, sides
from groupdp.run_file.run import RunFile

#: What the last part of a ledger's name is.
SUFFIX = ".jsonl"
#: When the parameters of a release were chosen.
CHOSEN = BEFOREHAND, AFTER_LOOKING = ("beforehand", "after-looking")
MOST_ENTRIES = 10_000
_FORMAT = 1
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_ENTRY = ("entry", "date", "title", "covers", "chosen", "phases", "run_file_sha256", "bound")
_HEADER = ("ledger", "date", "covers", "delta", "adjacency", "epsilon", "filter_orders")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One release, or several that were made together."""

    date: str
    title: str
    covers: str
    """Whose data it is about, in words."""
    chosen: str
    """Whether its parameters were fixed beforehand or chosen after looking at earlier outcomes."""
    phases: tuple[OfGroup, ...]
    run_file_sha256: str
    """The digest of the run file's bytes; empty for a run that was not a file."""
    bound: Mapping[str, Any]
    """The bound on this entry alone when it was added, and what computed it."""
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What a ledger says, verified."""

    date: str
    covers: str
    delta: float
    adjacency: str
    epsilon: float | None
    """The budget that was fixed when the ledger was made."""
    filter_orders: tuple[float, ...]
    entries: tuple[Entry, ...] = ()
    made: str = ""
    """The digest of the first line."""
    head: str = ""
    """The digest of the last entry, or of the first line where there is none."""

    @property
    def looked(self) -> bool:
        """Whether some parameters were chosen after looking, so that the filter's figure applies."""
        return any(entry.chosen == AFTER_LOOKING for entry in self.entries)

    @property
    def phases(self) -> tuple[OfGroup, ...]:
        """All releases so far."""
        return tuple(phase for entry in self.entries for phase in entry.phases)

    def run_file(self, name: str = "the ledger") -> RunFile:
        """Everything released so far as one run."""
        if not self.entries:
            raise InvalidArgument("ledger", InWords(f"{shown(name)} without entries"), "have an entry")
        largest = max(phase.group if isinstance(phase.group, int) else 1 for phase in self.phases)
        title = f"everything released so far ({len(self.entries)} {'entry' if len(self.entries) == 1 else 'entries'})"
        return RunFile(
            title=title,
            phases=self.phases,
            delta=self.delta,
            group_size=max(largest, 1),
            adjacency=self.adjacency,
            looked=self.looked,
        )

    def composed(self, more: Sequence[OfGroup] = (), *, progress: Progress | None = None) -> Bounds:
        """Epsilon of all releases, and `more`, if all parameters were fixed beforehand."""
        phases = (*self.phases, *more)
        if not phases:
            return Bounds(0.0, 0.0)
        filtered = self.filtered(more)  # valid here as well: smaller where only divergences of a search are known
        try:
            composed = epsilon(phases, delta=self.delta, adjacency=self.adjacency, progress=progress)
        except LimitExceeded:
            if filtered.upper == math.inf:
                raise
            return filtered
        smaller = composed.upper <= filtered.upper
        return composed if smaller else replace(filtered, lower=min(composed.lower, filtered.upper))

    def filtered(self, more: Sequence[OfGroup] = ()) -> Bounds:
        """The smallest budget, fixed beforehand, of a filter that lets all releases, and `more`, pass (R-8)."""
        phases = (*self.phases, *more)
        if not phases:
            return Bounds(0.0, 0.0)
        return filter_epsilon(phases, delta=self.delta, adjacency=self.adjacency, orders=self.filter_orders)

    def with_entries(self, count: int) -> Ledger:
        """The ledger with its first `count` entries."""
        return replace(self, entries=self.entries[:count])


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What an entry costs alone, and with all before it."""

    alone: Bounds
    composed: Bounds
    filtered: Bounds
    agrees: bool
    """Whether the bound that the entry states contains, or overlaps, the one computed again."""


def spent(ledger: Ledger, *, progress: Progress | None = None) -> list[State]:
    """The state of the ledger after every entry, computed from its runs."""
    states = []
    for index, entry in enumerate(ledger.entries):
        before = ledger.with_entries(index)
        alone = epsilon(entry.phases, delta=ledger.delta, adjacency=ledger.adjacency)
        lower, upper = (float(entry.bound["epsilon"][side]) for side in ("lower", "upper"))
        agrees = lower <= alone.upper and alone.lower <= upper and entry.bound["delta"] == ledger.delta
        composed, filtered = before.composed(entry.phases), before.filtered(entry.phases)
        states.append(State(alone=alone, composed=composed, filtered=filtered, agrees=agrees))
        if progress is not None:
            progress((index + 1) / len(ledger.entries))
    return states


def make_ledger(
    path: str | Path,
    *,
    delta: float,
    epsilon: float | None = None,
    adjacency: str = ADJACENCIES[0],
    filter_orders: Sequence[float] = FILTER_ORDERS,
    covers: str = "everybody",
    date: str | None = None,
) -> Ledger:
    """Make a new ledger, in which delta, the budget epsilon, the adjacency and the filter's orders are fixed."""
    values = [_FORMAT, _date(date), covers, delta, adjacency, epsilon, list(filter_orders)]
    header = dict(zip(_HEADER, values, strict=True))
    _header(header)
    make_file(path, header)
    return read_ledger(path)


def read_ledger(path: str | Path) -> Ledger:
    """The ledger in a file; `InvalidArgument` with the line where it is not as it was written."""
    return _ledger(read_lines(path), str(path))


def _ledger(lines: Sequence[Mapping[str, Any]], name: str) -> Ledger:
    number = 1
    try:
        ledger = _header(lines[0])
        entries = []
        for number, line in enumerate(lines[1:], 2):  # noqa: B007
            entries.append(_entry(line))
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArgument(
            "line", InWords(f"another ({error})"), "be one that groupdp wrote", place=f"{name}, line {number}"
        ) from None
    return replace(ledger, entries=tuple(entries), made=lines[0]["digest"], head=lines[-1]["digest"])


def add_release(
    path: str | Path,
    run: RunFile,
    *,
    chosen: str | None = None,
    covers: str | None = None,
    run_file: bytes = b"",
    date: str | None = None,
    progress: Progress | None = None,
) -> Ledger:
    """Append a run to the ledger; `run_file` is the content of its file.

    `chosen` says whether the run's parameters were fixed "beforehand" or chosen "after-looking" at the outcomes of
    earlier entries. It has no default but for the first entry.
    """
    before = read_ledger(path)
    if run.adjacency != before.adjacency or run.removed is not None or run.added is not None:
        got = "removed and added" if run.removed is not None or run.added is not None else run.adjacency
        raise InvalidArgument("adjacency", InWords(got), f"be {before.adjacency}, as the ledger's is")
    run.require_covered()
    phases = releases_of(run)
    described = [phase.stated() for phase in phases]
    _require_describable(phases, described)
    alone = epsilon(phases, delta=before.delta, adjacency=before.adjacency, progress=progress)
    entry = {
        "date": _date(date),
        "title": require_line("title", run.title),
        "covers": before.covers if covers is None else require_line("covers", covers),
        "phases": described,
        "run_file_sha256": hashlib.sha256(run_file).hexdigest() if run_file else "",
        "bound": {
            "epsilon": json_ready(sides(alone)),
            "delta": before.delta,
            "tight": alone.tight,
            "engine": alone.provenance.engine,
            "groupdp": VERSION,
        },
    }

    def line(lines: list[Line]) -> Line:
        if len(lines) > MOST_ENTRIES:
            raise LimitExceeded(f"a ledger has at most {MOST_ENTRIES} entries: begin another one.")
        own = {"entry": len(lines), **entry, "chosen": require_chosen(chosen, first=len(lines) == 1)}
        return {name: own[name] for name in _ENTRY}

    append_line(path, line)
    return read_ledger(path)


def require_chosen(chosen: str | None, *, first: bool) -> str:
    """When parameters were chosen; it must be given from the second entry on."""
    if chosen is None and not first:
        requirement = f"be given from the second entry on, like --chosen {BEFOREHAND}, or --chosen {AFTER_LOOKING}"
        raise InvalidArgument("chosen", NOT_SHOWN, requirement)
    return require_choice("chosen", BEFOREHAND if chosen is None else chosen, CHOSEN)


def releases_of(run: RunFile) -> tuple[OfGroup, ...]:
    """The phases of a run, each with the group size that a person has in it."""
    if run.group_size is None and not all(isinstance(phase, OfGroup) for phase in run.phases):
        raise not_given("group_size")
    return tuple(phase if isinstance(phase, OfGroup) else OfGroup.of(phase, run.group_size) for phase in run.phases)


def _require_describable(phases: Sequence[Mechanism], described: Sequence[Mapping[str, Any]]) -> None:
    for phase, values in zip(phases, described, strict=True):
        try:
            same = phase_of(json.loads(json.dumps(values))) == phase
        except (InvalidArgument, TypeError, ValueError):
            same = False
        if not same:
            raise InvalidArgument("run", phase, "be a mechanism that a run file describes, to be kept in a ledger")


def _header(values: Mapping[str, Any]) -> Ledger:
    """What the first line says, checked."""
    if tuple(values)[: len(_HEADER)] != _HEADER or values["ledger"] != _FORMAT:
        raise ValueError(f"no ledger of format {_FORMAT}")
    adjacency, budget, orders = (values[name] for name in ("adjacency", "epsilon", "filter_orders"))
    if require_choice("adjacency", adjacency, ADJACENCIES) == ADD_AND_REMOVE:
        others = ", ".join(name for name in ADJACENCIES if name != ADD_AND_REMOVE)
        raise InvalidArgument("adjacency", adjacency, f"be one of {others}", "entries have group sizes of their own")
    if not isinstance(orders, list) or not orders:
        raise InvalidArgument("filter_orders", orders, "be a non-empty sequence of orders above 1")
    return Ledger(
        date=_date(values["date"]),
        covers=require_line("covers", values["covers"]),
        delta=require_number("delta", values["delta"], above=0.0, below=1.0),
        adjacency=adjacency,
        epsilon=None if budget is None else require_number("epsilon", budget, above=0.0),
        filter_orders=tuple(require_number("filter_orders", order, above=1.0, at_most=1e4) for order in orders),
    )


def _entry(values: Mapping[str, Any]) -> Entry:
    if tuple(values) != (*_ENTRY, "previous", "digest"):
        raise ValueError(f"an entry has {', '.join(_ENTRY)}")
    phases = tuple(phase_of(value) for value in values["phases"])
    if not phases or not all(isinstance(phase, OfGroup) for phase in phases):
        raise ValueError("an entry has phases, each with a group_size")
    require_choice("chosen", values["chosen"], CHOSEN)
    own = {key: values[key] for key in _ENTRY if key not in ("entry", "phases")}
    for side in ("lower", "upper"):
        float(values["bound"]["epsilon"][side])
    return Entry(phases=phases, digest=values["digest"], **own)  # type: ignore[arg-type]


def _date(value: str | None) -> str:
    if value is None:
        return datetime.now(UTC).date().isoformat()
    try:
        if not _DATE.fullmatch(value):
            raise ValueError
        return calendar_date.fromisoformat(value).isoformat()
    except (TypeError, ValueError):
        raise InvalidArgument("date", value, "be a date like 2026-01-31") from None
