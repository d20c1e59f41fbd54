"""Runs described in small TOML files: phases, and the question about them. The format is in docs/run-file.md.

Each error is one sentence with the file, the line, the key, its value and what would be right. Several files make one
run, each with its group size: everything that is released about a person.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupdp._files import standard_input
from groupdp._validation import require_choice, shown
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords
from groupdp.fields import integer, number
from groupdp.groups import LARGEST_GROUP
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.mechanisms.mechanism import Mechanism, Wrapper, mechanisms_of
from groupdp.mechanisms.named_values import GIVEN, known_keys, phase_of, refuse_unknown, with_sampling
from groupdp.mechanisms.of_group import OfGroup
from groupdp.neighbours import ADJACENCIES, SAME_SIZE, Neighbours
from groupdp.printing import given
from groupdp.question import neighbours_of, question_of, sources_of, unit_of
from groupdp.run_file.filled import adjacency_for, with_sizes
from groupdp.run_file.toml_lines import MOST_PARTS, KeyPath, line_of, long_key

if TYPE_CHECKING:
    from groupdp.data.manifest import Manifest

#: Largest file read, in bytes: a run is a page, not a book.
LARGEST_FILE = 100_000
_TOP_KEYS = ("title", "data", "owners", "delta", "group_size", "adjacency", "removed", "added", "phase")
_DEFAULT_TITLE = "DP-SGD run"
#: How many owners a record has.
OWNERS = ("one", "several")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """What a run file says, validated; what it does not say about the question is None."""

    title: str = _DEFAULT_TITLE
    phases: tuple[Mechanism, ...]
    delta: float | None = None
    group_size: Any = None
    """A number, or a mapping from sources to numbers."""
    adjacency: str = ADJACENCIES[0]
    removed: Any = None
    added: Any = None
    data: Manifest | None = None
    """What is known of the dataset."""
    owners: str | None = None
    """ "several" where records have several owners: who owns which is public then, and contents are protected."""
    written: tuple[Mapping[str, Any], ...] = field(default=(), compare=False, repr=False)
    """The phases as they were given, so that sizes and epochs are saved and not a rounded rate (write.py)."""
    looked: bool = False
    """Whether parameters were chosen after looking at outcomes: then only a filter's figure is valid (ledger/)."""
    adjacency_open: bool = field(default=False, compare=False)
    """Whether no adjacency was given."""
    parts: tuple[RunFile, ...] = field(default=(), compare=False, repr=False)
    """The files that were combined, each with its group size."""

    def __post_init__(self) -> None:
        changed = self.removed is not None or self.added is not None
        if self.several_owners and (changed or self.adjacency not in SAME_SIZE):
            raise InvalidArgument(
                "adjacency",
                InWords("removed and added" if changed else repr(self.adjacency)),
                f"be {' or '.join(SAME_SIZE)} where records have several owners",
                "removing a person would change which records of their co-owners are kept",
            )

    @property
    def several_owners(self) -> bool:
        """Whether records have several owners."""
        return self.owners is not None or (self.data is not None and self.data.owners is not None)

    @property
    def training(self) -> tuple[DPSGD, ...]:
        """The phases of DP-SGD, also those with a group size of their own."""
        return tuple(one for one in map(Wrapper.innermost, self.phases) if isinstance(one, DPSGD))

    @property
    def sources(self) -> tuple[str, ...] | None:
        """The sources that the run draws from, None where a group is a number."""
        return sources_of(self.phases)

    @property
    def keywords(self) -> dict[str, Any]:
        """The arguments of the library's functions that say which datasets are neighbours."""
        if self.group_size is None:
            nobody: Any = 0 if self.sources is None else {}
            return {"removed": self.removed or nobody, "added": self.added or nobody}
        return {"group_size": self.group_size, "adjacency": self.adjacency}

    @property
    def neighbours(self) -> Neighbours:
        """Which datasets are neighbours."""
        found = neighbours_of(self.phases, **self.keywords)
        if not any(isinstance(phase, OfGroup) for phase in self.phases):
            return found
        return replace(found, words="the stated number of examples of one person in each release")

    @property
    def uncovered(self) -> tuple[str, Any, str] | None:
        """(argument, value, requirement) of a group smaller than what some person is known to have in the data."""
        for part in self.parts:
            if (found := part.uncovered) is not None:
                return found
        if self.data is None or unit_of(self.phases) == "person":
            return None
        if isinstance(self.group_size, Mapping):
            caps = self.data.cap if isinstance(self.data.cap, Mapping) else {}
            for source in self.sources or ():
                size, cap = self.group_size.get(source, 0), caps.get(source, 0)
                if size < cap:
                    return f"group_size.{source}", size, f"be at least {cap}, the bound of {self.data.file}"
            return None
        given = [("group_size", self.group_size), ("removed", self.removed), ("added", self.added)]
        numbers = [(size, key) for key, size in given if isinstance(size, int)]
        if not numbers or max(numbers)[0] >= self.data.largest:
            return None
        size, key = max(numbers)
        most = self.data.largest
        return key, size, f"be at least {most}: somebody has that many examples in {self.data.file}"

    def require_covered(self) -> None:
        """Refuse a group smaller than the number of examples that some person is known to have."""
        if (found := self.uncovered) is not None:
            raise InvalidArgument(*found)

    @property
    def stated_delta(self) -> float:
        """The delta, which has to be given."""
        if self.delta is None:
            raise InvalidArgument("delta", NOT_SHOWN, f"be given: {self.suggested_delta}")
        return self.delta

    @property
    def suggested_delta(self) -> str:
        """What delta is, and which one to choose where the number of people is known."""
        if self.data is None:
            return "the delta of (epsilon, delta)-DP"
        people, most = self.data.people, given(self.data.largest_delta)
        return f"for {people} people --delta {most} or less, a tenth of one over their number"


def read_run_file(path: str | Path) -> RunFile:
    """The run that the TOML file at `path` describes; "-" is standard input."""
    try:
        if str(path) == "-":
            content = standard_input().read(LARGEST_FILE + 1)
        else:
            with open(path, "rb") as file:
                content = file.read(LARGEST_FILE + 1)
        text = content.decode("utf-8-sig")
    except InvalidArgument:
        raise
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8 text"
        raise InvalidArgument(
            "run file", InWords(f"{shown(str(path))} ({reason})"), "be a readable TOML file"
        ) from None
    if len(content) > LARGEST_FILE:
        raise InvalidArgument("run file", str(path), f"be at most {LARGEST_FILE} bytes")
    return parse_run_file(text, name=str(path), folder=Path() if str(path) == "-" else Path(path).parent)


def parse_run_file(text: str, *, name: str = "run file", folder: Path | None = None) -> RunFile:
    """The run that the TOML document `text` describes; `name` stands in error messages.

    `data` is looked for in `folder`; without one it is refused.
    """
    if (line := long_key(text)) is not None:
        requirement = f"have at most {MOST_PARTS} parts"
        raise InvalidArgument("a key", InWords("more"), requirement, place=f"{name}, line {line}")
    try:
        document = tomllib.loads(text, parse_float=_Written)
    except RecursionError:
        raise InvalidArgument(name, NOT_SHOWN, "be valid TOML, but is nested too deeply") from None
    except tomllib.TOMLDecodeError as error:  # says line and column
        reason = " ".join(str(error).split())
        raise InvalidArgument(name, NOT_SHOWN, f"be valid TOML: {reason.rstrip('.')}") from None
    except ValueError:
        raise InvalidArgument(name, NOT_SHOWN, "be valid TOML, but holds an integer of thousands of digits") from None
    return _Reader(text, name, document, folder).run()


class _Written(Decimal):
    """A number with a point or an exponent, which a complaint shows as the file writes it."""

    _text: str

    def __new__(cls, text: str) -> _Written:
        made = super().__new__(cls, text)
        made._text = text
        return made

    def __repr__(self) -> str:
        return self._text


class _Reader:
    """Takes values out of the parsed document, and complains with the line they came from."""

    def __init__(self, text: str, name: str, document: dict[str, Any], folder: Path | None) -> None:
        self._text = text
        self._name = name
        self._document = document
        self._folder = folder

    def run(self) -> RunFile:
        try:
            refuse_unknown(self._document, _TOP_KEYS)
        except InvalidArgument as error:
            raise self._at((error.argument,), error) from None
        title = self._take("title", _require_line, default=_DEFAULT_TITLE)
        delta = self._take("delta", lambda key, value: number(key, _unquoted(key, value), above=0.0, below=1.0))
        groups = {key: self._take(key, _group) for key in ("group_size", "removed", "added")}
        adjacency = self._take("adjacency", lambda key, value: require_choice(key, value, ADJACENCIES))
        data = self._take("data", self._manifest)
        owners = self._take("owners", lambda key, value: require_choice(key, value, OWNERS))
        owners = None if owners == OWNERS[0] else owners
        tables = self._document.get("phase", None)
        if tables is None:
            missing = InvalidArgument("phase", NOT_SHOWN, "be given: one [[phase]] table for each phase")
            raise missing.at(self._name)
        if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
            wrong = InvalidArgument("phase", NOT_SHOWN, "be a table written [[phase]], one for each phase")
            raise self._at(("phase",), wrong)
        tables = [with_sampling(table) for table in tables]
        several = owners is not None or (data is not None and data.owners is not None)
        meant = adjacency_for(tables, several=several) if adjacency is None else adjacency
        if data is not None:
            tables = [self._filled(index, table, data, meant) for index, table in enumerate(tables)]
        phases = tuple(self._phase(index, table) for index, table in enumerate(tables))
        try:
            sources = sources_of(mechanisms_of(phases))
        except InvalidArgument as error:
            raise error.at(self._name) from None
        if data is not None and all(size is None for size in groups.values()):
            groups["group_size"] = data.group_size(sources, unit_of(phases))
        try:
            file = RunFile(
                title=title,
                phases=phases,
                delta=delta,
                adjacency=meant,
                data=data,
                owners=owners,
                written=tuple(tables),
                adjacency_open=adjacency is None,
                **groups,
            )
        except InvalidArgument as error:
            keys = ("adjacency", "removed", "added", "owners", "data")
            raise self._at((next(key for key in keys if key in self._document),), error) from None
        self._check_question(file)
        return file

    def _check_question(self, file: RunFile) -> None:
        """Refuses at its line a group or an adjacency that the run has no answer for."""
        if file.group_size is None and file.removed is None and file.added is None:
            return
        sources = file.sources
        for key in ("group_size", "removed", "added"):
            if sources is not None and isinstance(getattr(file, key), int):
                written = ", ".join(f"{_bare(source)} = 1" for source in sources[:2])
                requirement = f"say how many examples of each source, like {{ {written} }}"
                raise self._at((key,), InvalidArgument(key, getattr(file, key), requirement))
        try:
            question_of(
                file.phases,
                group_size=file.group_size,
                adjacency=file.adjacency,
                removed=file.removed,
                added=file.added,
            )
        except InvalidArgument as error:
            keys = (error.name, "group_size", "removed", "added", "data")
            raise self._at((next(key for key in keys if key in self._document),), error) from None

    def _manifest(self, key: str, value: Any) -> Manifest:
        from groupdp.data.manifest import read_manifest

        if not isinstance(value, str) or not value or self._folder is None:
            raise InvalidArgument(key, value, "be the name of a table that groupdp bound wrote, in a file's folder")
        return read_manifest(self._folder / value)

    def _filled(self, index: int, table: Mapping[str, Any], data: Manifest, adjacency: str) -> Mapping[str, Any]:
        """The keys of a phase with the sizes that its data say."""
        try:
            return with_sizes(table, data, adjacency)
        except InvalidArgument as error:
            raise self._at(("phase", index, error.name), error) from None

    def _phase(self, index: int, table: Mapping[str, Any]) -> Mechanism:
        where: KeyPath = ("phase", index)
        try:
            for key in known_keys():
                if key in table:
                    _unquoted(key, table[key])
            return phase_of(table)
        except InvalidArgument as error:
            for key in (error.argument, error.name):
                if key in table:
                    raise self._at((*where, key), error) from None
            if error.requirement == GIVEN:
                requirement = f"be given in phase {index + 1}, which begins here"
                raise self._at(where, InvalidArgument(error.argument, NOT_SHOWN, requirement)) from None
            raise error.at(f"{self._place(where)}, where phase {index + 1} begins") from None

    def _take(self, key: str, check: Callable[[str, Any], Any], default: Any = None) -> Any:
        """The checked value of a key at the top, or its default where it is missing."""
        if key not in self._document:
            return default
        try:
            return check(key, self._document[key])
        except InvalidArgument as error:
            raise self._at((key,), error) from None

    def _at(self, path: KeyPath, error: InvalidArgument) -> InvalidArgument:
        return error.at(self._place(path))

    def _place(self, path: KeyPath) -> str:
        line = line_of(self._text, path)
        return self._name if line is None else f"{self._name}, line {line}"


def _unquoted(key: str, value: Any) -> Any:
    """In a file, texts are names, and ratios like "256/60000"; a number has no quotes."""
    if isinstance(value, str) and key not in ("sampling", "mechanism") and "/" not in value:
        raise InvalidArgument(key, value, "be a number without quotes")
    return value


def _bare(source: str) -> str:
    """A key as a file may write it."""
    return source if re.fullmatch(r"[\w-]+", source, re.ASCII) else f'"{source}"'


def _group(key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {source: integer(f"{key}.{source}", count, at_least=0) for source, count in value.items()}
    return integer(key, _unquoted(key, value), at_least=0, at_most=LARGEST_GROUP)


def _require_line(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > 200 or not value.isprintable():
        raise InvalidArgument(key, value, "be one line of at most 200 characters")
    return value.strip()


def read_run_files(names: Sequence[str], read: Callable[[str], RunFile] = read_run_file) -> RunFile:
    """The run of one file, or that of several together; FILE:K has groups of up to K in FILE."""
    parts = [file_and_size(name) for name in names]
    if len(parts) == 1:
        path, size = parts[0]
        file = read(path)
        if size is None:
            return file
        return replace(file, group_size=size, removed=None, added=None)
    if sum(path == "-" for path, _ in parts) > 1:
        raise InvalidArgument("run files", InWords("- twice"), "name standard input once")
    return _combined([(read(path), size) for path, size in parts])


def file_and_size(name: str) -> tuple[str, int | None]:
    """FILE:K as its parts, unless there is a file of that name."""
    path, separator, size = name.rpartition(":")
    if not (separator and path and size.isascii() and size.isdecimal()) or Path(name).exists():
        return name, None
    if len(size) > 12 or int(size) > LARGEST_GROUP:
        raise InvalidArgument("group_size", name, f"be at most {LARGEST_GROUP} in FILE:K")
    return path, int(size)


def _combined(files: Sequence[tuple[RunFile, int | None]]) -> RunFile:
    """All releases of all files. Where they state different deltas, the question has to."""
    adjacencies = {file.adjacency for file, _ in files}
    if len(adjacencies) > 1:
        raise InvalidArgument("adjacency", InWords(" and ".join(sorted(adjacencies))), "be the same in all run files")
    if any(file.removed is not None or file.added is not None for file, _ in files):
        raise InvalidArgument("removed and added", InWords("them"), "be left out where several run files are given")
    phases: list[Mechanism] = []
    sizes: list[Any] = []
    parts: list[RunFile] = []
    for file, size in files:
        own = file.group_size if size is None else size
        parts.append(replace(file, group_size=own))
        sizes.append(own)
        phases += (
            phase if own is None or isinstance(phase, OfGroup) else OfGroup.of(phase, own) for phase in file.phases
        )
    numbers = [size for size in sizes if isinstance(size, int)]
    deltas = {file.delta for file, _ in files} - {None}
    return RunFile(
        title=" and ".join(dict.fromkeys(file.title for file, _ in files)),
        phases=mechanisms_of(tuple(phases)),
        delta=deltas.pop() if len(deltas) == 1 else None,
        group_size=max(numbers) if len(numbers) == len(sizes) else None,
        adjacency=adjacencies.pop(),
        owners=OWNERS[1] if any(file.several_owners for file, _ in files) else None,
        parts=tuple(parts),
    )
