"""Several run files as one run, each with its group size: everything that is released about a person."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from groupdp.errors import InvalidArgument, InWords
from groupdp.groups import LARGEST_GROUP
from groupdp.mechanisms.mechanism import Mechanism, mechanisms_of
from groupdp.mechanisms.of_group import OfGroup
from groupdp.run_file.read import RunFile, read_run_file


def read_run_files(names: Sequence[str]) -> RunFile:
    """The run of one file, or that of several together; FILE:K has groups of up to K in FILE."""
    parts = [_file_and_size(name) for name in names]
    if len(parts) == 1:
        path, size = parts[0]
        file = read_run_file(path)
        if size is None:
            return file
        return RunFile(
            title=file.title, phases=file.phases, delta=file.delta, group_size=size, adjacency=file.adjacency
        )
    if sum(path == "-" for path, _ in parts) > 1:
        raise InvalidArgument("run files", InWords("- twice"), "name standard input once")
    return _combined([(read_run_file(path), size) for path, size in parts])


def _file_and_size(name: str) -> tuple[str, int | None]:
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
    for file, size in files:
        own = file.group_size if size is None else size
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
    )
