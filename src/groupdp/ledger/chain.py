"""A file of JSON lines that only grows: chained by digests, written whole under a lock.

Every line is an object with the SHA-256 digest of its content and, from the second on, the digest of the line before;
the last line counts them. A changed, removed or reordered line is noticed. The new file is written beside the
old one and replaces it: neither a reader nor a killed writer leaves or sees a part of it. Writers wait for each other.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from groupdp._files import NewFiles
from groupdp._validation import shown
from groupdp.errors import InvalidArgument, InWords

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

#: Largest file, in bytes.
LARGEST_FILE = 1 << 26

Line = dict[str, Any]


def read_lines(path: str | Path) -> list[Line]:
    """All lines but the last, each with its digest; `InvalidArgument` where one is not as it was written."""
    with _opened(path) as file:
        return _verified(_content(file, path), str(path))


def _opened(path: str | Path) -> BinaryIO:
    try:
        return open(path, "rb")
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def _content(file: BinaryIO, path: str | Path) -> bytes:
    try:
        return file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str | Path, error: Exception) -> InvalidArgument:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    where = InWords(f"{shown(str(path))} ({reason})")
    return InvalidArgument("ledger", where, "be a readable file (groupdp ledger new makes one)")


def make_file(path: str | Path, first: Line) -> None:
    """A new file with one line; a file that exists is refused."""
    destination = Path(path)
    line = _sealed(first)
    with NewFiles("ledger") as files:
        _write(files, destination, [line, _end(1, _digest(first))])
        try:
            files.place_new(destination)
        except FileExistsError:
            raise InvalidArgument("ledger", str(path), "be a new file, as in --ledger next.jsonl") from None


def append_line(path: str | Path, make: Callable[[list[Line]], Line]) -> None:
    """Append the line that `make` returns for the lines so far; nobody else writes meanwhile."""
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
                yield _content(file, path), destination
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
        raise InvalidArgument(
            "ledger", InWords(f"{shown(str(destination))} ({error.strerror})"), "be a file that can be written"
        ) from None


def _text(values: Mapping[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False, allow_nan=False)


def _digest(values: Line) -> str:
    return hashlib.sha256(_text(values).encode()).hexdigest()


def _sealed(values: Line) -> str:
    """A line with its digest."""
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
        values = _unsealed(text, name, number)
        if values.get("previous") != (lines[-1]["digest"] if lines else None):
            raise _damaged(name, number, "not the one that was written there")
        lines.append(values)
    if end != _end(len(lines), lines[-1]["digest"]):
        raise _damaged(name, len(texts) - 1, f"not the end of a file of {len(lines)} lines")
    return lines


def _unsealed(text: str, name: str, number: int) -> Line:
    try:
        values = json.loads(text)
        digest = values.pop("digest")
        whole = _sealed(values) == text
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        whole = False
    if not whole:
        raise _damaged(name, number, "changed: its digest is not that of its content")
    return {**values, "digest": digest}


def _damaged(name: str, line: int, how: str) -> InvalidArgument:
    return InvalidArgument("line", InWords(f"one that is {how}"), "be as it was written", place=f"{name}, line {line}")
