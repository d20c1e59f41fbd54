"""Files that appear whole or not at all: written under a temporary name, then renamed; and the standard input."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from groupdp._ownership import new_locked_file, remove_dead_files
from groupdp._validation import shown
from groupdp.errors import InvalidArgument, InWords


class NewFiles:
    """A batch of files that appear together when the `with` block ends, or not at all if it raises.

    Every file is written beside its destination under a temporary name and renamed at the end, so neither an
    error nor Ctrl-C leaves a partial file; directories made on the way are removed again. Only the renaming
    itself is not one atomic act for several files: each of them is whole, whenever the process dies.
    """

    def __init__(self, name: str = "out") -> None:
        self._name = name
        self._pending: list[tuple[Path, Path]] = []  # (temporary, destination)
        self._made: list[Path] = []
        self._locks: list[int] = []

    def __enter__(self) -> NewFiles:
        return self

    def temporary(self, destination: str | Path, *, name: str = "") -> Path:
        """The path to write to now, with the same suffix; it becomes `destination` at the end.

        Asked again it is the same path. `name` is what a complaint calls the destination.
        """
        path = Path(destination)
        try:
            path = path.resolve()  # a symbolic link keeps pointing to its target, whose content is replaced
            if path.is_dir():
                raise IsADirectoryError("it is a directory")
            if path.exists() and not path.is_file():
                return path  # a terminal or a pipe: nothing to rename
            for temporary, planned in self._pending:
                if planned == path:
                    return temporary
            self._make_directory(path.parent)
            begin, end = f".{path.stem[:100]}.groupdp-", path.suffix
            remove_dead_files(path.parent, f"{re.escape(begin)}[0-9a-f]{{12}}{re.escape(end)}")
            temporary = path.with_name(f"{begin}{os.urandom(6).hex()}{end}")
            # Noted before it exists: Ctrl-C may come at any moment. Created here, so that a directory without write
            # permission is found out before any work; not with mkstemp, whose files nobody else could read.
            self._pending.append((temporary, path))
            try:
                self._locks.append(new_locked_file(temporary))
            except OSError:
                self._pending.pop()
                raise
        except (OSError, ValueError, RuntimeError) as error:
            raise unwritable(name or self._name, destination, error) from None
        return temporary

    def write_text(self, destination: str | Path, text: str) -> None:
        """Have `destination` contain `text`, in UTF-8, at the end."""
        path = self.temporary(destination)
        try:
            path.write_text(text, encoding="utf-8", newline="\n")
        except OSError as error:
            raise unwritable(self._name, destination, error) from None

    def _make_directory(self, directory: Path) -> None:
        missing = [directory, *directory.parents]
        missing = missing[: next(i for i, path in enumerate(missing) if path.exists())]
        for path in reversed(missing):
            self._made.append(path)
            try:
                path.mkdir()
            except OSError:
                self._made.pop()
                raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            try:
                while self._pending:
                    temporary, destination = self._pending[-1]
                    os.replace(temporary, destination)
                    self._pending.pop()
                    self._made.clear()
            except OSError as failure:
                self._undo()
                raise unwritable(self._name, destination, failure) from None
            except BaseException:
                self._undo()
                raise
            self._release()
        else:
            self._undo()

    def _release(self) -> None:
        while self._locks:
            os.close(self._locks.pop())

    def _undo(self) -> None:
        for temporary, _ in self._pending:
            temporary.unlink(missing_ok=True)
        self._release()
        for directory in reversed(self._made):
            try:
                directory.rmdir()
            except FileNotFoundError:  # interrupted before it was made
                continue
            except OSError:  # somebody else put something there meanwhile
                break


def standard_input() -> BinaryIO:
    """The bytes of the standard input, for files called -."""
    if sys.stdin is None:
        raise InvalidArgument("the standard input", InWords("a closed one"), "be open where a file is called -")
    return sys.stdin.buffer


def check_writable(name: str, destination: str | Path) -> None:
    """Refuses a destination that cannot be written, before any work; makes its directory, and no file."""
    files = NewFiles(name)
    temporary = files.temporary(destination)
    if temporary != Path(destination).resolve():  # else it is a terminal or a pipe
        temporary.unlink(missing_ok=True)
    files._release()


def unwritable(name: str, destination: str | Path, error: Exception) -> InvalidArgument:
    """The one-sentence complaint about a destination."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return InvalidArgument(name, InWords(f"{shown(str(destination))} ({reason})"), "be a file that can be written")
