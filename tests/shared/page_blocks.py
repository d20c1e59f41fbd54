"""The fenced blocks of the guides, and the comparison of what they print with what comes out."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from paths import ROOT

#: Digits from which on the last one may differ by a unit.
LONG = 8

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))

_FENCE = re.compile(r"^```(.*)$")
_OPT_OUT = re.compile(r"^<!-- not executed: (.+) -->$")
_TITLE = re.compile(r'title="([^"]+)"')
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?:\.\.\.)?(?![\w]|\.\d)")


@dataclass(frozen=True)
class Block:
    """A fenced block: where it is, what it holds, and why it is not executed, if so."""

    page: Path
    line: int
    info: str
    text: str
    reason: str | None

    @property
    def place(self) -> str:
        """For messages: file and line."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def language(self) -> str:
        """The first word after the fence."""
        return self.info.split(" ")[0]

    @property
    def file_name(self) -> str | None:
        """The name under which the block is a file for those after it."""
        found = _TITLE.search(self.info)
        return found.group(1) if found else None

    @property
    def is_transcript(self) -> bool:
        """Whether it shows commands and their output."""
        return self.text.startswith("$ groupdp")


def blocks_of(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    index = 0
    while index < len(lines):
        opening = _FENCE.match(lines[index])
        if opening is None:
            index += 1
            continue
        end = next(after for after in range(index + 1, len(lines)) if lines[after].rstrip() == "```")
        above = _OPT_OUT.match(lines[index - 1].strip()) if index else None
        text = "\n".join(lines[index + 1 : end])
        found.append(Block(page, index + 1, opening.group(1).strip(), text, above.group(1) if above else None))
        index = end + 1
    return found


def commands_of(transcript: str) -> Iterator[tuple[str, str]]:
    """Each command after `$ groupdp`, with the output shown below it."""
    joined = transcript.replace("\\\n", " ")
    for part in re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        program, _, arguments = command.partition(" ")
        assert program == "groupdp", f"transcripts run groupdp only, got {command}"
        yield arguments, output


def differences(shown: str, actual: str) -> str | None:
    """The first place where the two texts differ, or None; a line `...` stands for any number of lines."""
    parts = re.split(r"^\.\.\.$\n?", shown, flags=re.MULTILINE)
    rest = _tokens(actual)
    for number, part in enumerate(parts):
        wanted = _tokens(part)
        last = number == len(parts) - 1
        if number == 0:
            starts = [0]
        elif last and wanted:
            starts = [len(rest) - len(wanted)]
        else:
            starts = list(range(len(rest) - len(wanted) + 1))
        messages = [_first_difference(wanted, rest[start : start + len(wanted)]) for start in starts]
        fitting = [start for start, message in zip(starts, messages, strict=True) if message is None]
        if not fitting:
            return messages[0] if messages else f"{' '.join(wanted)!r} is missing"
        rest = rest[fitting[0] + len(wanted) :]
    if rest and not (len(parts) > 1 and not _tokens(parts[-1])):
        return f"not shown: {' '.join(rest[:20])!r}"
    return None


def _tokens(text: str) -> list[str]:
    """Words; rules of tables count as one, whatever their length."""
    return [re.sub("[─━-]{3,}", "---", word) for word in text.split()]


def _first_difference(wanted: list[str], actual: list[str]) -> str | None:
    for index, word in enumerate(wanted):
        if index >= len(actual):
            return f"shown but not printed: {' '.join(wanted[index : index + 20])!r}"
        if not same(word, actual[index]):
            return f"shown {' '.join(wanted[index : index + 12])!r}, printed {' '.join(actual[index : index + 12])!r}"
    return None


def same(shown: str, actual: str) -> bool:
    """Whether two texts are equal, numbers to the digits shown; `...` is any word."""
    if shown == "...":
        return True
    if _NUMBER.sub("0", shown) != _NUMBER.sub("0", actual):
        return False
    pairs = zip(_NUMBER.findall(shown), _NUMBER.findall(actual), strict=True)
    return all(same_number(one, other) for one, other in pairs)


def same_number(shown: str, actual: str) -> bool:
    """To the digits shown.

    A number that is shortened in the guide is rounded or cut; one of eight digits or more may differ by one unit of the
    last, which another mathematical library can move; any other is equal.
    """
    wanted, found = Decimal(shown.removesuffix("...")), Decimal(actual.removesuffix("..."))
    if wanted == found:
        return True
    last, exponent = wanted.as_tuple().exponent, found.as_tuple().exponent
    assert isinstance(last, int)
    assert isinstance(exponent, int)
    whole = not re.search("[.eE]", shown)
    if whole or (exponent >= last and len(wanted.as_tuple().digits) < LONG):
        return False
    return abs(found - wanted) <= Decimal(1).scaleb(last)


def annotated_values(code: str) -> Iterator[tuple[ast.stmt, str | None]]:
    """Every statement, with the value that a comment at its end states."""
    comments = {
        token.start[0]: token.string.removeprefix("#").strip()
        for token in tokenize.generate_tokens(io.StringIO(code + "\n").readline)
        if token.type == tokenize.COMMENT
    }
    for statement in ast.parse(code).body:
        comment = comments.get(statement.end_lineno or 0, "")
        yield statement, comment if re.match(r"-?\d|Bounds\(|\[|True\b|False\b|inf\b|'", comment) else None


def value_matches(comment: str, value: Any) -> bool:
    """Whether a value is what the comment begins with."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        text = repr(value)
        if isinstance(value, str | bool):
            return re.match(re.escape(text) + r"(?!\w)", comment) is not None
        return same(comment[: comment.rfind(text[-1]) + 1], text)
    number = re.match(r"inf\b|-?\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?", comment)
    assert number is not None, comment
    shown = number.group(0).replace("_", "")
    if shown == "inf" or value in (float("inf"), float("-inf")):
        return shown == repr(float(value))
    if isinstance(value, float) and not re.search("[.eE]", shown):
        return value == float(shown)
    return same_number(shown, repr(float(value) if isinstance(value, float) else value))


def is_outward(source: str, comment: str, value: Any) -> bool:
    """Whether what is stated of an upper side is not below it, and of a lower side not above it."""
    number = re.match(r"-?\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?", comment)
    if number is None or not isinstance(value, float) or not source.endswith((".upper", ".lower")):
        return True
    stated, exact = Decimal(number.group(0)), Decimal(value)
    return stated >= exact if source.endswith(".upper") else stated <= exact
