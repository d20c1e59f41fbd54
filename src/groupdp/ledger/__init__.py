"""A ledger: everything that was released about people, in one file. What it says is in book.py.

The file has JSON lines that only grow. The first has what was fixed when the ledger was made (delta, adjacency, budget,
the filter's orders); an entry for every release follows; the last line counts the others. Every line has the SHA-256
digest of its content and, from the second on, that of the line before: a changed, removed or reordered line is noticed.
Whoever can write the file can write all of it anew: note the last digest elsewhere to notice that as well.

The new file is written beside the old one and replaces it: a reader never sees a part of it, and a killed writer never
leaves one. Writers wait for each other.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from datetime import date as calendar_date
from pathlib import Path
from typing import Any, BinaryIO

from groupdp._files import NewFiles, unwritable
from groupdp._version import VERSION
from groupdp.baselines.adaptive import FILTER_ORDERS
from groupdp.engines import Progress
from groupdp.errors import InvalidArgument, InWords, LimitExceeded, require_choice, require_line, require_number, shown
from groupdp.guarantees import epsilon as epsilon_of
from groupdp.ledger.book import CHOSEN, Afforded, Entry, Ledger, State, afford, releases_of, require_chosen, spent
from groupdp.mechanisms.mechanism import Mechanism
from groupdp.mechanisms.named_values import phase_of
from groupdp.mechanisms.wrappers import OfGroup
from groupdp.neighbours import ADD_AND_REMOVE, ADJACENCIES
from groupdp.printing import json_ready, sides
from groupdp.run_file.run import RunFile

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["Afforded", "Entry", "Ledger", "State", "add_release", "afford", "make_ledger", "read_ledger", "spent"]

#: Largest file, in bytes.
LARGEST_FILE = 1 << 26
MOST_ENTRIES = 10_000
_FORMAT = 1
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_ENTRY = ("entry", "date", "title", "covers", "chosen", "phases", "run_file_sha256", "bound")
_HEADER = ("ledger", "date", "covers", "delta", "adjacency", "epsilon", "filter_orders")

Line = dict[str, Any]


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
    lines, number = read_lines(path), 1
    try:
        ledger = _header(lines[0])
        entries = []
        for number, line in enumerate(lines[1:], 2):  # noqa: B007
            entries.append(_entry(line))
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(str(path), number, f"not one that groupdp wrote: {str(error).rstrip('.')}") from None
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
    earlier entries. It is required from the second entry on.
    """
    before = read_ledger(path)
    changed = run.removed is not None or run.added is not None
    if changed or run.adjacency != before.adjacency:
        got = "removed and added" if changed else run.adjacency
        raise InvalidArgument("adjacency", InWords(got), f"be {before.adjacency}, as the ledger's is")
    run.require_covered()
    phases = releases_of(run)
    described = [_described(phase) for phase in phases]
    alone = epsilon_of(phases, delta=before.delta, adjacency=before.adjacency, progress=progress)
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


def _described(phase: Mechanism) -> dict[str, Any]:
    """What the file says of a phase; refused unless the same phase is read back from it."""
    values = phase.stated()
    with contextlib.suppress(InvalidArgument, TypeError, ValueError):
        if phase_of(json.loads(json.dumps(values))) == phase:
            return values
    raise InvalidArgument("run", phase, "be a mechanism that a run file describes, to be kept in a ledger")


def _header(values: Mapping[str, Any]) -> Ledger:
    """What the first line says, checked."""
    if tuple(values)[: len(_HEADER)] != _HEADER or values["ledger"] != _FORMAT:
        raise ValueError(f"it is not a ledger of format {_FORMAT}")
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


def read_lines(path: str | Path) -> list[Line]:
    """All lines but the last, each with its digest; `InvalidArgument` where one is not as it was written."""
    with _opened(path) as file:
        return _verified(file.read(LARGEST_FILE + 1), str(path))


def _opened(path: str | Path) -> BinaryIO:
    try:
        return open(path, "rb")
    except (OSError, ValueError) as error:
        where = InWords(f"{shown(str(path))} ({getattr(error, 'strerror', None) or error})")
        raise InvalidArgument("ledger", where, "be a readable file (groupdp ledger new makes one)") from None


def make_file(path: str | Path, first: Line) -> None:
    """A new file with one line; a file that exists is refused."""
    with NewFiles("ledger") as files:
        _write(files, Path(path), [_sealed(first), _end(1, _digest(first))])
        try:
            files.place_new(path)
        except FileExistsError:
            raise InvalidArgument("ledger", str(path), "be a new file, as in --ledger next.jsonl") from None


def append_line(path: str | Path, make: Callable[[list[Line]], Line]) -> None:
    """Append the line that `make` returns for the lines so far, while no other process writes."""
    with _locked(path) as (content, destination):
        lines = _verified(content, str(path))
        values = {**make(lines), "previous": lines[-1]["digest"]}
        written = content.decode("utf-8").split("\n")[:-2]
        with NewFiles("ledger") as files:
            _write(files, destination, [*written, _sealed(values), _end(len(lines) + 1, _digest(values))])


@contextlib.contextmanager
def _locked(path: str | Path) -> Iterator[tuple[bytes, Path]]:
    """The content of a file that no other writer changes meanwhile, and its place without symbolic links."""
    if fcntl is None:
        raise InvalidArgument("ledger", str(path), "be on a system with file locks (flock) to be written")
    destination = Path(path).resolve()
    while True:
        with _opened(destination) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
            except OSError as error:
                reason = f"{shown(str(path))} ({error.strerror})"
                raise InvalidArgument("ledger", InWords(reason), "be on a drive that has file locks") from None
            # While this waited, another writer may have put a new file in its place.
            if os.path.samestat(os.fstat(file.fileno()), os.stat(destination)):
                yield file.read(LARGEST_FILE + 1), destination
                return


def _write(files: NewFiles, destination: Path, lines: Sequence[str]) -> None:
    """The lines as a new file that will take the place of `destination`, on the disk before it does."""
    temporary = files.temporary(destination)
    try:
        with open(temporary, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())
        if destination.exists():
            os.chmod(temporary, destination.stat().st_mode & 0o7777)
    except OSError as error:
        raise unwritable("ledger", destination, error) from None


def _text(values: Mapping[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False, allow_nan=False)


def _digest(values: Line) -> str:
    return hashlib.sha256(_text(values).encode()).hexdigest()


def _sealed(values: Line) -> str:
    """A line's text with its digest."""
    return _text({**values, "digest": _digest(values)})


def _end(count: int, last: str) -> str:
    return _text({"lines": count, "last": last})


def _verified(content: bytes, name: str) -> list[Line]:
    """Every line as it was written, in order, none missing."""
    if len(content) > LARGEST_FILE:
        raise InvalidArgument("ledger", name, f"be at most {LARGEST_FILE} bytes")
    try:
        texts = content.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        raise InvalidArgument("ledger", name, "be UTF-8 text") from None
    if len(texts) < 3 or texts[-1] != "":
        raise _damaged(name, len(texts), "cut off")
    *sealed, end, _ = texts
    lines: list[Line] = []
    for number, text in enumerate(sealed, 1):
        try:
            values = json.loads(text)
            digest = values.pop("digest")
            unchanged = _sealed(values) == text
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            unchanged = False
        if not unchanged:
            raise _damaged(name, number, "changed: its digest is not that of its content")
        if values.get("previous") != (lines[-1]["digest"] if lines else None):
            raise _damaged(name, number, "not the one that was written there")
        lines.append({**values, "digest": digest})
    if end != _end(len(lines), lines[-1]["digest"]):
        raise _damaged(name, len(texts) - 1, f"not the end of a file of {len(lines)} lines")
    return lines


def _damaged(name: str, line: int, how: str) -> InvalidArgument:
    return InvalidArgument.saying("line", f"this line is {how}.").at(f"{name}, line {line}")
