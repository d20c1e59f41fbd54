"""A run as a small TOML file: phases, and the question about them. What it says is in run.py; here it is read.

Each error is one sentence with the file, the line, the key, its value and what would be right. Several files make one
run, each with its group size: everything that is released about a person. The format is in docs/run-file.md.

The standard parser does not say where a key stands, so it is asked about prefixes. A document's prefix (whole lines)
either does not parse, because a value spans lines, or holds exactly the keys that begin in it. So the key begins on the
line after the longest prefix that parses and does not hold it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupdp._files import read_file
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords, require_choice, require_line, shown
from groupdp.fields import integer, number
from groupdp.groups import LARGEST_GROUP
from groupdp.mechanisms.mechanism import Mechanism, mechanisms_of
from groupdp.mechanisms.named_values import GIVEN, known_keys, phase_of, refuse_unknown, with_sampling
from groupdp.mechanisms.wrappers import OfGroup
from groupdp.neighbours import ADJACENCIES
from groupdp.question import question_of, sources_of, unit_of
from groupdp.run_file.run import DEFAULT_TITLE, GROUPS, OWNERS, RunFile, adjacency_for, with_sizes

if TYPE_CHECKING:
    from groupdp.data.manifest import Manifest

__all__ = ["RunFile", "read_run_file"]

#: Largest file read, in bytes.
LARGEST_FILE = 100_000
_TOP_KEYS = ("title", "data", "owners", "delta", "group_size", "adjacency", "removed", "added", "phase")


def read_run_file(path: str | Path) -> RunFile:
    """The run that the TOML file at `path` describes; "-" is standard input."""
    requirement = "be a readable TOML file"
    content = read_file("run file", path, most=LARGEST_FILE, requirement=requirement)
    try:
        text = content.decode("utf-8-sig")
    except ValueError:
        not_text = InWords(f"{shown(str(path))} (it is not UTF-8 text)")
        raise InvalidArgument("run file", not_text, requirement) from None
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


def run_of(
    tables: Sequence[Mapping[str, Any]],
    *,
    data: Manifest | None = None,
    owners: str | None = None,
    adjacency: str | None = None,
    **question: Any,
) -> RunFile:
    """The run whose phases named values describe, completed by what its data say.

    Without an `adjacency` it is the first that all phases have a law for. An error has the phase that it is about.
    """
    written = list(tables)
    several = owners is not None or (data is not None and data.owners is not None)
    meant = adjacency_for(written, several=several) if adjacency is None else adjacency
    phases: list[Mechanism] = []
    for index in range(len(written)):
        try:
            if data is not None:
                written[index] = with_sizes(written[index], data, meant)
            phases.append(phase_of(written[index]))
        except InvalidArgument as error:
            error.phase = index
            raise
    mechanisms = mechanisms_of(phases)
    sources = sources_of(mechanisms)
    if data is not None and all(question.get(key) is None for key in GROUPS):
        question["group_size"] = data.group_size(sources, unit_of(mechanisms))
    return RunFile(
        phases=mechanisms,
        data=data,
        owners=owners,
        adjacency=meant,
        adjacency_open=adjacency is None,
        written=tuple(written),
        **question,
    )


class _Written(Decimal):
    """A number with a point or an exponent, which an error shows as the file writes it."""

    _text: str

    def __new__(cls, text: str) -> _Written:
        made = super().__new__(cls, text)
        made._text = text
        return made

    def __repr__(self) -> str:
        return self._text


@dataclass(frozen=True, slots=True)
class _Reader:
    """Takes values out of the parsed document; an error names the line they came from."""

    _text: str
    _name: str
    _document: dict[str, Any]
    _folder: Path | None

    def run(self) -> RunFile:
        with self._found_at(lambda error: (error.argument,)):
            refuse_unknown(self._document, _TOP_KEYS)
        question = {
            "title": self._take("title", require_line, default=DEFAULT_TITLE),
            "delta": self._take("delta", lambda key, value: number(key, _unquoted(key, value), above=0.0, below=1.0)),
            **{key: self._take(key, _group) for key in GROUPS},
            "adjacency": self._take("adjacency", lambda key, value: require_choice(key, value, ADJACENCIES)),
            "data": self._take("data", self._manifest),
        }
        owners = self._take("owners", lambda key, value: require_choice(key, value, OWNERS))
        if "phase" not in self._document:
            missing = InvalidArgument("phase", NOT_SHOWN, "be given: one [[phase]] table for each phase")
            raise missing.at(self._name)
        tables = [with_sampling(table) for table in self._take("phase", _tables)]
        for index, table in enumerate(tables):
            with self._found_at(lambda error, index=index: ("phase", index, error.name)):  # type: ignore[misc]
                for key in set(known_keys()) & set(table):
                    _unquoted(key, table[key])
        try:
            file = run_of(tables, owners=None if owners == OWNERS[0] else owners, **question)
        except InvalidArgument as error:
            if error.phase is not None:
                raise self._in_phase(error.phase, tables[error.phase], error) from None
            if error.argument != "adjacency":
                raise error.at(self._name) from None
            raise self._at(self._first_key("adjacency", "removed", "added", "owners", "data"), error) from None
        if file.has_group:
            with self._found_at(lambda error: self._first_key(error.name, *GROUPS, "data")):
                question_of(file.phases, **{**file.keywords, "adjacency": file.adjacency})
        return file

    def _manifest(self, key: str, value: Any) -> Manifest:
        from groupdp.data.manifest import read_manifest

        if not isinstance(value, str) or not value or self._folder is None:
            raise InvalidArgument(key, value, "be the name of a table that groupdp bound wrote, in a file's folder")
        return read_manifest(self._folder / value)

    def _in_phase(self, index: int, table: Mapping[str, Any], error: InvalidArgument) -> InvalidArgument:
        """The error about a phase, at the line of the key that it is about, or where the phase begins."""
        where: KeyPath = ("phase", index)
        for key in (error.argument, error.name):
            if key in table:
                return self._at((*where, key), error)
        if error.requirement == GIVEN:
            requirement = f"be given in phase {index + 1}, which begins here"
            return self._at(where, InvalidArgument(error.argument, NOT_SHOWN, requirement))
        return error.at(f"{self._place(where)}, where phase {index + 1} begins")

    def _take(self, key: str, check: Callable[[str, Any], Any], default: Any = None) -> Any:
        """The checked value of a key at the top, or its default where it is missing."""
        if key not in self._document:
            return default
        with self._found_at(lambda error: (key,)):
            return check(key, self._document[key])

    def _first_key(self, *keys: str) -> KeyPath:
        """The first of these keys that the document has."""
        return (next(key for key in keys if key in self._document),)

    @contextmanager
    def _found_at(self, path_of: Callable[[InvalidArgument], KeyPath]) -> Iterator[None]:
        """Errors of the block name the line of the key to which `path_of` leads."""
        try:
            yield
        except InvalidArgument as error:
            raise self._at(path_of(error), error) from None

    def _at(self, path: KeyPath, error: InvalidArgument) -> InvalidArgument:
        return error.at(self._place(path))

    def _place(self, path: KeyPath) -> str:
        line = line_of(self._text, path)
        return self._name if line is None else f"{self._name}, line {line}"


def _unquoted(key: str, value: Any) -> Any:
    """The value, unless it is a number in quotes; quoted texts in a file are names, or ratios like "256/60000"."""
    if isinstance(value, str) and key not in ("sampling", "mechanism") and "/" not in value:
        raise InvalidArgument(key, value, "be a number without quotes")
    return value


def _tables(key: str, value: Any) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not value or not all(isinstance(table, dict) for table in value):
        raise InvalidArgument(key, NOT_SHOWN, "be a table written [[phase]], one for each phase")
    return value


def _group(key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {source: integer(f"{key}.{source}", count, at_least=0) for source, count in value.items()}
    return integer(key, _unquoted(key, value), at_least=0, at_most=LARGEST_GROUP)


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
    return combined([(read(path), size) for path, size in parts])


def combined(files: Sequence[tuple[RunFile, int | None]]) -> RunFile:
    """All releases of all files; without a delta if theirs differ."""
    adjacencies = {file.adjacency for file, _ in files}
    if len(adjacencies) > 1:
        raise InvalidArgument("adjacency", InWords(" and ".join(sorted(adjacencies))), "be the same in all run files")
    if any(file.removed is not None or file.added is not None for file, _ in files):
        raise InvalidArgument("removed and added", NOT_SHOWN, "be left out where several run files are given")
    parts = tuple(replace(file, group_size=file.group_size if size is None else size) for file, size in files)
    phases = tuple(
        phase if part.group_size is None or isinstance(phase, OfGroup) else OfGroup.of(phase, part.group_size)
        for part in parts
        for phase in part.phases
    )
    sizes = [part.group_size for part in parts]
    deltas = {file.delta for file, _ in files} - {None}
    return RunFile(
        title=" and ".join(dict.fromkeys(file.title for file, _ in files)),
        phases=mechanisms_of(phases),
        delta=deltas.pop() if len(deltas) == 1 else None,
        group_size=max(sizes) if all(isinstance(size, int) for size in sizes) else None,
        adjacency=adjacencies.pop(),
        owners=OWNERS[1] if any(file.several_owners for file, _ in files) else None,
        parts=parts,
    )


def file_and_size(name: str) -> tuple[str, int | None]:
    """FILE:K as its parts, unless there is a file of that name."""
    path, separator, size = name.rpartition(":")
    if not (separator and path and size.isascii() and size.isdecimal()) or Path(name).exists():
        return name, None
    if len(size) > 12 or int(size) > LARGEST_GROUP:
        raise InvalidArgument("group_size", name, f"be at most {LARGEST_GROUP} in FILE:K")
    return path, int(size)


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
    plain = _TEXT_OR_COMMENT.sub(lambda match: "s" if match[1] else "", text)
    match = _LONG_KEY.search(plain)
    return None if match is None else plain.count("\n", 0, match.start()) + 1


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
        while probe < high and left > 0 and (holds := held(cuts[probe])) is None:
            probe += 1
        if probe == high or holds:
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
