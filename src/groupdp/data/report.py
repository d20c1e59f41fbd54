"""What was counted and what was kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many people have how many examples."""

    examples: npt.NDArray[np.int64]
    """The distinct numbers of examples, increasing."""

    people_with: npt.NDArray[np.int64]
    """How many people have each of them."""

    table: Any = None
    """Each person with their number of examples: a pyarrow table, if asked for."""

    alike: int = 0
    """People whose identifiers differ from another's only in invisible characters: they may be fewer people."""

    records: int | None = None
    """Rows where records may have several owners; None where each example has one."""

    @property
    def rows(self) -> int:
        """Examples in all; a record counts for each of its owners."""
        return int(self.examples @ self.people_with)

    @property
    def people(self) -> int:
        """People in all."""
        return int(self.people_with.sum())

    @property
    def largest(self) -> int:
        """The most examples of one person."""
        return int(self.examples[-1])

    def quantile(self, share: float) -> int:
        """The smallest number of examples that at least this share of the people do not exceed."""
        wanted = share * self.people
        return int(self.examples[min(int(np.searchsorted(self.people_with.cumsum(), wanted)), len(self.examples) - 1)])


def alike_in_words(alike: int) -> str:
    """The warning about people whose identifiers look the same."""
    return (
        f"Warning: the identifiers of {alike} people differ only in invisible characters (no-break spaces, zero-width "
        "characters, byte order marks): if some of them are one person, that person was counted as several."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded:
    """What a bounded dataset contains, as found in the rows written."""

    rows: int
    people: int
    largest: int
    """The most examples of one person before."""

    kept: int
    people_cut: int
    """People who lost examples; with caps per source, pairs of a person and a source."""

    largest_kept: int
    """The most examples that one person still has."""

    at_most: int | dict[str, int]
    seed: str
    digest: str
    """The same for the same rows in any order, file or engine: see docs/data.md."""

    alike: int = 0
    """People whose identifiers differ from another's only in invisible characters: one person may keep double."""

    owners: list[str] | None = None
    """The columns of owners where records may have several: `people` are then owners, and `rows` records."""

    possible: int | None = None
    """With several owners: no choice keeps more records."""

    table: Any = None
    """The rows kept, unless they went to a file: a pyarrow table, or a Dask DataFrame."""

    def as_json(self) -> dict[str, Any]:
        """The report without the rows."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "table"}
