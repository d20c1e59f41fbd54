"""Temporary files whose owner is known to live or to be dead: each is locked by the process that made it.

The system releases a lock when its process ends, however it ends. So whoever gets the lock of another's file has proved
that its owner is dead. A file becomes visible under its name only once it is locked; where locks do not work (some
network drives, Windows) nothing is ever taken for dead.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

_LOCK = "owner.lock"


def new_locked_file(path: Path) -> int:
    """Make an empty file at `path` and lock it; the descriptor keeps the lock until it is closed."""
    hidden = path.with_name(f"{path.name}.new")
    descriptor = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
    try:
        _lock(descriptor)
        os.rename(hidden, path)
    except BaseException:
        os.close(descriptor)
        hidden.unlink(missing_ok=True)
        raise
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
