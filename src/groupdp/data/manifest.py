"""What was counted and what was kept; and the manifest of that beside the table written, for later commands.

It is JSON, named after its table (bounded.parquet.manifest.json), and holds no name of a person. A table that is not
the one described (by its SHA-256 digest) is refused. The format is in docs/data.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from groupdp._files import NewFiles
from groupdp._version import VERSION
from groupdp.errors import InvalidArgument, InWords, shown
from groupdp.printing import lower_percent

SUFFIX = ".manifest.json"
_LARGEST = 100_000


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
    """The most examples of one person after bounding."""
    at_most: int | dict[str, int]
    seed: str
    digest: str
    """The digest of the rows kept; it does not depend on their order, file or engine (docs/data.md)."""
    alike: int = 0
    """People whose identifiers differ from another's only in invisible characters: one person may keep double."""
    owners: list[str] | None = None
    """The columns of owners where records may have several: `people` are then owners, and `rows` records."""
    possible: int | None = None
    """With several owners: an upper bound on the records that any choice keeps."""
    table: Any = None
    """The rows kept, unless they went to a file: a pyarrow table, or a Dask DataFrame."""

    def as_json(self) -> dict[str, Any]:
        """The report without the rows."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "table"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What `count` or `bound` found in the rows of a table."""

    made_by: str
    file: str
    """The table's name, without its directory."""
    sha256: str
    """The SHA-256 digest of the table's bytes."""
    by: str
    rows: int
    """Examples: those kept, or all that were counted."""
    people: int
    largest: int
    """The most examples of one person."""
    cap: int | dict[str, int] | None = None
    """At most so many of each person were kept; for each source where `per` names their column."""
    per: str | None = None
    key: list[str] = field(default_factory=list)
    seed: str | None = None
    digest: str | None = None
    """The digest of the rows kept, in any order and format."""
    share_kept: float = 1.0
    owners: dict[str, Any] | None = None
    """Where records may have several owners: their `columns`, and how many records any choice can keep (`possible`)."""
    version: str = VERSION
    path: Path | None = field(default=None, compare=False)
    """Where it was read."""
    checked: bool = field(default=False, compare=False)
    """Whether the table was there and is the one described."""

    def __post_init__(self) -> None:
        caps = self.cap.values() if isinstance(self.cap, dict) else [] if self.cap is None else [self.cap]
        owners = [self.by] if self.owners is None else self.owners.get("columns")
        sound = (
            self.made_by in ("count", "bound")
            and isinstance(owners, list)
            and len(owners) > 0
            and all(isinstance(text, str) for text in (self.file, self.sha256, self.by, self.version, *owners))
            and all(isinstance(text, str | None) for text in (self.per, self.seed, self.digest))
            and all(type(n) is int and n >= 0 for n in (self.rows, self.people, self.largest, *caps))
            and isinstance(self.key, list)
            and isinstance(self.share_kept, float | int)
            and 0.0 <= self.share_kept <= 1.0
        )
        if not sound:
            raise ValueError("it has a value that groupdp does not write")

    def group_size(self, sources: tuple[str, ...] | None, unit: str = "example") -> Any:
        """The most examples that a person can have; a number for each source where the run draws from sources, and one
        person where groups count people.
        """
        if unit == "person":
            return 1
        if sources is not None:
            return dict(self.cap) if isinstance(self.cap, dict) else None
        return self.cap if isinstance(self.cap, int) and self.per is None else self.largest

    @property
    def largest_delta(self) -> float:
        """A power of ten that is at most a tenth of one over the number of people (docs/user-level.md)."""
        return 10.0 ** -math.ceil(math.log10(10 * max(self.people, 1)))

    def text(self) -> str:
        """The file."""
        names = [entry.name for entry in fields(self) if entry.name not in ("path", "checked")]
        said = {name: getattr(self, name) for name in names}
        return json.dumps({"groupdp_manifest": 1, **said}, indent=2, ensure_ascii=False) + "\n"

    def sentences(self) -> list[str]:
        """What a statement says of the data."""
        sentences = [f"The data are {self.rows} examples of {self.people} people ({self.file}, SHA-256 {self.sha256})."]
        if self.cap is not None:
            caps = f"{self.cap} examples{'' if self.per is None else ' of each source'}"
            if isinstance(self.cap, dict):
                caps = " and ".join(f"{cap} of {source}" for source, cap in self.cap.items())
            sentences.append(
                f"They were bounded to at most {caps} of each person with the seed {shown(self.seed)}, which kept "
                f"{lower_percent(self.share_kept)} of all examples; the digest of the rows is {self.digest}."
            )
        if not self.checked:
            sentences.append("The table was missing, so it was not compared with its manifest.")
        return sentences


def manifest_of(path: str | Path) -> Path:
    """Where the manifest of a table stands."""
    return Path(f"{path}{SUFFIX}")


def write_manifest(files: NewFiles, out: str | Path, written: Path, **said: Any) -> None:
    """Have the manifest of `out`, whose bytes are in `written` now, appear together with it."""
    if written.is_file():  # a pipe has no bytes that could be compared later
        manifest = Manifest(file=Path(out).name, sha256=_sha256(written), **said)
        files.write_text(manifest_of(out), manifest.text())


def find_manifest(table: str | Path) -> Manifest | None:
    """The manifest beside a table, if there is one."""
    return read_manifest(table) if manifest_of(table).is_file() else None


def read_manifest(path: str | Path, *, name: str = "data") -> Manifest:
    """The manifest at `path`, or the one beside the table at `path`; refused if the table is another one."""
    given = Path(path)
    place = given if given.name.endswith(SUFFIX) else manifest_of(given)
    table = place.with_name(place.name.removesuffix(SUFFIX))
    try:
        with place.open("rb") as file:
            content = file.read(_LARGEST + 1)
        document = json.loads(content.decode("utf-8"))
        if not isinstance(document, Mapping) or document.get("groupdp_manifest") != 1 or len(content) > _LARGEST:
            raise ValueError("it is not a manifest")
        said = {entry.name: document[entry.name] for entry in fields(Manifest) if entry.name in document}
        manifest = Manifest(**{**said, "path": place, "checked": table.is_file()})
        same = not manifest.checked or _sha256(table) == manifest.sha256
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not a manifest"
        needed = f"be a table that groupdp count or bound wrote, with its manifest {shown(place.name)} beside it"
        raise InvalidArgument(name, InWords(f"{shown(str(path))} ({reason})"), needed) from None
    if not same:
        other, needed = f"{shown(str(table))} with another content", f"be the table that {shown(place.name)} describes"
        raise InvalidArgument(name, InWords(other), needed, "count or bound the rows again")
    return manifest


def _sha256(file: Path) -> str:
    import hashlib  # takes milliseconds to import, and few commands read a manifest

    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
