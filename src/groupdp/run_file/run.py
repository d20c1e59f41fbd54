"""What a run file says: the phases, and the question about them. Several runs together are one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.mechanisms.mechanism import Mechanism, Wrapper, mechanisms_of
from groupdp.mechanisms.of_group import OfGroup
from groupdp.neighbours import ADJACENCIES, SAME_SIZE, Neighbours
from groupdp.printing import given
from groupdp.question import neighbours_of, sources_of, unit_of

if TYPE_CHECKING:
    from groupdp.data.manifest import Manifest

DEFAULT_TITLE = "DP-SGD run"
#: How many owners a record has.
OWNERS = ("one", "several")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """What a run file says, validated; what it does not say about the question is None."""

    title: str = DEFAULT_TITLE
    phases: tuple[Mechanism, ...]
    delta: float | None = None
    group_size: Any = None
    """A number, or a mapping from sources to numbers."""
    adjacency: str = ADJACENCIES[0]
    removed: Any = None
    added: Any = None
    data: Manifest | None = None
    """What is known of the dataset."""
    owners: str | None = None
    """ "several" where records have several owners: who owns which is public then, and contents are protected."""
    written: tuple[Mapping[str, Any], ...] = field(default=(), compare=False, repr=False)
    """The phases as they were given, so that sizes and epochs are saved and not a rounded rate (write.py)."""
    looked: bool = False
    """Whether parameters were chosen after looking at outcomes: then only a filter's figure is valid (ledger/)."""
    adjacency_open: bool = field(default=False, compare=False)
    """Whether no adjacency was given."""
    parts: tuple[RunFile, ...] = field(default=(), compare=False, repr=False)
    """The files that were combined, each with its group size."""

    def __post_init__(self) -> None:
        changed = self.removed is not None or self.added is not None
        if self.several_owners and (changed or self.adjacency not in SAME_SIZE):
            raise InvalidArgument(
                "adjacency",
                InWords("removed and added" if changed else repr(self.adjacency)),
                f"be {' or '.join(SAME_SIZE)} where records have several owners",
                "removing a person would change which records of their co-owners are kept",
            )

    @property
    def several_owners(self) -> bool:
        """Whether records have several owners."""
        return self.owners is not None or (self.data is not None and self.data.owners is not None)

    @property
    def training(self) -> tuple[DPSGD, ...]:
        """The phases of DP-SGD, also those with a group size of their own."""
        return tuple(one for one in map(Wrapper.innermost, self.phases) if isinstance(one, DPSGD))

    @property
    def sources(self) -> tuple[str, ...] | None:
        """The sources that the run draws from, None where a group is a number."""
        return sources_of(self.phases)

    @property
    def keywords(self) -> dict[str, Any]:
        """The arguments of the library's functions that say which datasets are neighbours."""
        if self.group_size is None:
            nobody: Any = 0 if self.sources is None else {}
            return {"removed": self.removed or nobody, "added": self.added or nobody}
        return {"group_size": self.group_size, "adjacency": self.adjacency}

    @property
    def neighbours(self) -> Neighbours:
        """Which datasets are neighbours."""
        found = neighbours_of(self.phases, **self.keywords)
        inner = [Wrapper.innermost(phase) for phase in self.phases]
        if found.joining is None and found.group and all(getattr(one, "per_person", False) for one in inner):
            return replace(found, group=1, unit="person")  # all of a person's examples count as one
        if not any(isinstance(phase, OfGroup) for phase in self.phases):
            return found
        return replace(found, words="the stated number of examples of one person in each release")

    @property
    def uncovered(self) -> tuple[str, Any, str] | None:
        """(argument, value, requirement) of a group smaller than what some person is known to have in the data."""
        for part in self.parts:
            if (found := part.uncovered) is not None:
                return found
        if self.data is None or unit_of(self.phases) == "person":
            return None
        if isinstance(self.group_size, Mapping):
            caps = self.data.cap if isinstance(self.data.cap, Mapping) else {}
            for source in self.sources or ():
                size, cap = self.group_size.get(source, 0), caps.get(source, 0)
                if size < cap:
                    return f"group_size.{source}", size, f"be at least {cap}, the bound of {self.data.file}"
            return None
        given = [("group_size", self.group_size), ("removed", self.removed), ("added", self.added)]
        numbers = [(size, key) for key, size in given if isinstance(size, int)]
        if not numbers or max(numbers)[0] >= self.data.largest:
            return None
        size, key = max(numbers)
        most = self.data.largest
        return key, size, f"be at least {most}: somebody has that many examples in {self.data.file}"

    def require_covered(self) -> None:
        """Refuse a group smaller than the number of examples that some person is known to have."""
        if (found := self.uncovered) is not None:
            raise InvalidArgument(*found)

    @property
    def stated_delta(self) -> float:
        """The delta; an error if none was given."""
        if self.delta is not None:
            return self.delta
        if self.data is None:
            requirement = "be given, like --delta 1e-6 or delta = 1e-6 in a run file"
        else:
            most = given(self.data.largest_delta)
            requirement = f"be given, like --delta {most}: a tenth of one over the {self.data.people} people, or less"
        raise InvalidArgument("delta", NOT_SHOWN, requirement)


def combined(files: Sequence[tuple[RunFile, int | None]]) -> RunFile:
    """All releases of all files; without a delta if theirs differ."""
    adjacencies = {file.adjacency for file, _ in files}
    if len(adjacencies) > 1:
        raise InvalidArgument("adjacency", InWords(" and ".join(sorted(adjacencies))), "be the same in all run files")
    if any(file.removed is not None or file.added is not None for file, _ in files):
        raise InvalidArgument("removed and added", InWords("them"), "be left out where several run files are given")
    phases: list[Mechanism] = []
    sizes: list[Any] = []
    parts: list[RunFile] = []
    for file, size in files:
        own = file.group_size if size is None else size
        parts.append(replace(file, group_size=own))
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
        owners=OWNERS[1] if any(file.several_owners for file, _ in files) else None,
        parts=tuple(parts),
    )
