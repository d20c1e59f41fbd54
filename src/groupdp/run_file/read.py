"""A run described in a small TOML file: phases, and the question about them. The format is in docs/run-file.md.

Whatever is wrong gets one sentence with the file, the line, the key, its value and what would be right.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from groupdp._files import standard_input
from groupdp._validation import require_choice, shown
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords
from groupdp.fields import integer, number
from groupdp.groups import LARGEST_GROUP
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.mechanisms.mechanism import Mechanism, mechanisms_of
from groupdp.mechanisms.named_values import GIVEN, known_keys, phase_of, refuse_unknown, with_sampling
from groupdp.neighbours import ADJACENCIES, Neighbours
from groupdp.question import neighbours_of, question_of, sources_of
from groupdp.run_file.toml_lines import MOST_PARTS, KeyPath, line_of, long_key

#: Largest file read, in bytes: a run is a page, not a book.
LARGEST_FILE = 100_000
_TOP_KEYS = ("title", "delta", "group_size", "adjacency", "removed", "added", "phase")
_DEFAULT_TITLE = "DP-SGD run"


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

    @property
    def training(self) -> tuple[DPSGD, ...]:
        """The phases of DP-SGD."""
        return tuple(phase for phase in self.phases if isinstance(phase, DPSGD))

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
        return neighbours_of(self.phases, **self.keywords)

    @property
    def stated_delta(self) -> float:
        """The delta, which has to be given."""
        if self.delta is None:
            raise InvalidArgument("delta", NOT_SHOWN, "be given: the delta of (epsilon, delta)-DP")
        return self.delta


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
    return parse_run_file(text, name=str(path))


def parse_run_file(text: str, *, name: str = "run file") -> RunFile:
    """The run that the TOML document `text` describes; `name` stands in error messages."""
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
    return _Reader(text, name, document).run()


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

    def __init__(self, text: str, name: str, document: dict[str, Any]) -> None:
        self._text = text
        self._name = name
        self._document = document

    def run(self) -> RunFile:
        try:
            refuse_unknown(self._document, _TOP_KEYS)
        except InvalidArgument as error:
            raise self._at((error.argument,), error) from None
        title = self._take("title", _require_line, default=_DEFAULT_TITLE)
        delta = self._take("delta", lambda key, value: number(key, _unquoted(key, value), above=0.0, below=1.0))
        groups = {key: self._take(key, _group) for key in ("group_size", "removed", "added")}
        adjacency = self._take(
            "adjacency", lambda key, value: require_choice(key, value, ADJACENCIES), default=ADJACENCIES[0]
        )
        tables = self._document.get("phase", None)
        if tables is None:
            missing = InvalidArgument("phase", NOT_SHOWN, "be given: one [[phase]] table for each phase")
            raise missing.at(self._name)
        if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
            wrong = InvalidArgument("phase", NOT_SHOWN, "be a table written [[phase]], one for each phase")
            raise self._at(("phase",), wrong)
        phases = tuple(self._phase(index, table) for index, table in enumerate(tables))
        try:
            sources_of(mechanisms_of(phases))
        except InvalidArgument as error:
            raise error.at(self._name) from None
        file = RunFile(title=title, phases=phases, delta=delta, adjacency=adjacency, **groups)
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
            keys = (error.name, "group_size", "removed", "added")
            raise self._at((next(key for key in keys if key in self._document),), error) from None

    def _phase(self, index: int, table: dict[str, Any]) -> Mechanism:
        where: KeyPath = ("phase", index)
        try:
            for key in known_keys():
                if key in table:
                    _unquoted(key, table[key])
            return phase_of(with_sampling(table))
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
