"""Each person with their number of examples and epsilon, as a table. It tells counts: it is not for publication."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from groupdp.data.counting import COPY_FORMATS, spreadsheet_safe
from groupdp.data.duckdb_engine import Engine
from groupdp.data.keyed_hash import literal, quoted
from groupdp.people.view import PeopleView


def people_table(counted: Any, view: PeopleView) -> Any:
    """`counted` (a pyarrow table: person, examples) with the bounds of each person's epsilon."""
    examples = counted.column(1).to_numpy()
    place = np.searchsorted(np.array(view.counts), examples)
    lower = np.array([bounds.lower for bounds in view.epsilon])[place]
    upper = np.array([bounds.upper for bounds in view.epsilon])[place]
    return counted.append_column("epsilon_lower", [lower]).append_column("epsilon_upper", [upper])


def write_people(counted: Any, view: PeopleView, destination: Path) -> None:
    """That table in a file, in the format of its suffix."""
    with Engine() as engine:
        engine.connection.register("people_table", people_table(counted, view))
        by = counted.column_names[0]
        kind = str(engine.value(f"SELECT typeof({quoted(by)}) FROM people_table LIMIT 1"))
        rows = spreadsheet_safe("SELECT * FROM people_table", by, kind, destination)
        engine.rows(f"COPY ({rows}) TO {literal(str(destination))} ({COPY_FORMATS[destination.suffix.lower()]})")
