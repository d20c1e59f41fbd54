"""Files that appear whole or not at all: written under a temporary name, then renamed; the standard input; processes.

Temporary files are locked by the process that made them. The system releases a lock when its process ends, so a process
that gets the lock of another's file knows that its owner is dead. A file becomes visible under its name only once it is
locked; where locks do not work (some network drives, Windows) nothing is ever taken for dead.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from groupdp.errors import InvalidArgument, InWords, shown


class NewFiles:
    """A batch of files that appear together when the `with` block ends, or not at all if it raises.

    Every file is written beside its destination under a temporary name and renamed at the end, so neither an
    error nor Ctrl-C leaves a partial file; directories made on the way are removed again. Several files are not renamed
    at one instant, but each of them is whole whenever the process dies.
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

        A second call returns the same path. `name` is what an error calls the destination.
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

    def place_new(self, destination: str | Path) -> None:
        """Have `destination`, which is written, appear now; FileExistsError if there is such a file."""
        temporary = self.temporary(destination)
        try:
            os.link(temporary, Path(destination).resolve())
        except FileExistsError:
            raise
        except OSError as error:
            raise unwritable(self._name, destination, error) from None
        self._pending = [pair for pair in self._pending if pair[0] != temporary]
        self._made.clear()
        temporary.unlink(missing_ok=True)

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


def read_file(name: str, path: str | Path, *, most: int, requirement: str = "be a readable file") -> bytes:
    """The first `most` bytes, and one more if there is one, of the file that the argument `name` names; - is stdin."""
    try:
        if str(path) == "-":
            return standard_input().read(most + 1)
        with open(path, "rb") as file:
            return file.read(most + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidArgument):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidArgument(name, InWords(f"{shown(str(path))} ({reason})"), requirement) from None


def check_writable(name: str, destination: str | Path) -> None:
    """Refuse a destination that cannot be written, before any work; make its directory, and no file."""
    files = NewFiles(name)
    temporary = files.temporary(destination)
    if temporary != Path(destination).resolve():  # else it is a terminal or a pipe
        temporary.unlink(missing_ok=True)
    files._release()


def unwritable(name: str, destination: str | Path, error: Exception) -> InvalidArgument:
    """The error about a destination."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return InvalidArgument(name, InWords(f"{shown(str(destination))} ({reason})"), "be a file that can be written")


try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

_LOCK = "owner.lock"


def new_locked_file(path: Path) -> int:
    """Make an empty file at `path` and lock it; the descriptor keeps the lock until it is closed.

    On Linux the file has no name before it is locked, so that even a killed process leaves nothing that has no lock.
    """
    with contextlib.suppress(OSError, AttributeError):  # another system, or a drive without such files
        return _named_when_locked(path)
    hidden = path.with_name(f"{path.name}.new")
    descriptor = -1
    try:
        descriptor = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        _lock(descriptor)
        os.rename(hidden, path)
    except FileExistsError:  # another's file
        raise
    except BaseException:  # also Ctrl-C before the descriptor is known
        if descriptor >= 0:
            os.close(descriptor)
        hidden.unlink(missing_ok=True)
        raise
    return descriptor


def _named_when_locked(path: Path) -> int:
    directory = os.open(path.parent, os.O_RDONLY)
    descriptor = -1
    try:
        descriptor = os.open(path.parent, os.O_TMPFILE | os.O_RDWR, 0o666)
        _lock(descriptor)
        # With a directory's descriptor the link is followed to the file.
        os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=directory)
    except BaseException:
        if descriptor >= 0:
            os.close(descriptor)
        raise
    finally:
        os.close(directory)
    return descriptor


def own_folder(folder: Path) -> int:
    """Lock a folder of this process's own."""
    return new_locked_file(folder / _LOCK)


def remove_dead_folders(parent: Path, prefix: str) -> None:
    """Remove the folders of that prefix in `parent` whose owners are dead."""
    with contextlib.suppress(OSError):
        for folder in parent.glob(f"{prefix}*"):
            if not folder.is_symlink() and _is_dead(folder / _LOCK):
                shutil.rmtree(folder, ignore_errors=True)


def remove_dead_files(parent: Path, name: str) -> None:
    """Remove the files in `parent` whose names match `name` and whose owners are dead."""
    with contextlib.suppress(OSError):
        for file in os.scandir(parent):
            if re.fullmatch(name, file.name) and _is_dead(Path(file.path)):
                Path(file.path).unlink(missing_ok=True)


def _lock(descriptor: int) -> bool:
    """Whether this process has the lock now."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_dead(file: Path) -> bool:
    """Whether a file of this user has an owner that is dead."""
    try:
        if not file.is_file() or file.is_symlink() or file.stat().st_uid != os.getuid():
            return False
        descriptor = os.open(file, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except (OSError, AttributeError):
        return False
    try:
        return _lock(descriptor)
    finally:
        os.close(descriptor)


def command_of(module: str, *arguments: str) -> list[str]:
    """What runs the function `main` of one of our modules.

    `python -m` would look into the working directory first, where a file may happen to be called queue.py.
    """
    program = f"import sys; sys.path[:] = {sys.path!r}; from {module} import main; main()"
    return [sys.executable, "-c", program, *arguments]
