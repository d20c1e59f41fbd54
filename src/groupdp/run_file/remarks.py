"""Sentences about a question whose answer says little."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupdp.run_file.read import RunFile


def remarks_on(run: RunFile, *, group: bool = True) -> list[str]:
    """What is peculiar about a run and, unless without the group, about whom it is asked for."""
    found = []
    if all(phase.releases == 0 for phase in run.phases):
        found.append("Note: with 0 steps nothing is released about the data.")
    one_group = run.removed is None and run.added is None
    groups = [1 if run.group_size is None else run.group_size] if one_group else [run.removed, run.added]
    if group and not any(map(_counts, groups)):
        found.append("Note: a group of size 0 changes nothing; a person has at least 1 example.")
    return found


def _counts(size: Any) -> bool:
    return any(size.values()) if isinstance(size, Mapping) else bool(size)
