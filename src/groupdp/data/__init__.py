"""From a table of examples with a user column to a dataset in which nobody has more than k.

choice.py         what to keep, and the number that orders a person's examples, the same in Python and in SQL
relations.py      files, standard input and tables in memory as one relation; what is refused by line
duckdb_engine.py  one machine: a budget of memory, spilling, progress, errors as sentences
bounding.py       examples of each person, and at most k of them
owners.py         the same where records have several owners
dask_engine.py    the same on a cluster, with the same rows chosen
manifest.py       what was counted and kept, in a file beside the table written, for later commands

DuckDB and pyarrow (extra `data`) and Dask (extra `dask`) are imported when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groupdp.data.bounding import bound, count
    from groupdp.data.choice import priority
    from groupdp.data.manifest import Bounded, Counts

__all__ = ["Bounded", "Counts", "bound", "count", "priority"]
_HOMES = {"Bounded": "manifest", "Counts": "manifest", "bound": "bounding", "count": "bounding", "priority": "choice"}


def __getattr__(name: str) -> Any:
    """The names above are loaded when first used: a command that reads a manifest needs nothing else."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
