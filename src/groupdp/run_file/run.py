"""What a run file says: the phases, and the question about them. Several runs together are one run.

A file or a command may leave open sizes that the data's manifest knows, and the adjacency. `run_file_text` writes the
TOML file that `read_run_file` reads back as the same run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords
from groupdp.fields import BATCH_SIZE, DATASET_SIZE, exact
from groupdp.groups import in_words
from groupdp.mechanisms import MECHANISMS
from groupdp.mechanisms.dpsgd import DPSGD, EPOCHS, steps_of_epochs
from groupdp.mechanisms.mechanism import Mechanism, Wrapper
from groupdp.mechanisms.named_values import phase_of
from groupdp.mechanisms.wrappers import OfGroup
from groupdp.neighbours import ADJACENCIES, SAME_SIZE, SUBSTITUTE, ZERO_OUT, Neighbours
from groupdp.printing import given
from groupdp.question import neighbours_of, sources_of, unit_of
from groupdp.samplings import SAMPLINGS

if TYPE_CHECKING:
    from groupdp.data.manifest import Manifest


DEFAULT_TITLE = "DP-SGD run"
#: The keys that say how many examples change.
GROUPS = ("group_size", "removed", "added")
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
    """The manifest of the dataset, if one was named."""
    owners: str | None = None
    """ "several" where records have several owners: who owns which is public then, and contents are protected."""
    written: tuple[Mapping[str, Any], ...] = field(default=(), compare=False, repr=False)
    """The phases as they were given, so that sizes and epochs are saved and not a rounded rate."""
    looked: bool = False
    """Whether parameters were chosen after looking at outcomes: then only a filter's figure is valid (ledger/)."""
    adjacency_open: bool = field(default=False, compare=False)
    """Whether no adjacency was given."""
    parts: tuple[RunFile, ...] = field(default=(), compare=False, repr=False)
    """The files that were combined, each with its group size."""

    def __post_init__(self) -> None:
        changed = self.removed is not None or self.added is not None
        if self.several_owners and (changed or self.adjacency not in SAME_SIZE):
            got = InWords("removed and added") if changed else self.adjacency
            needed = f"be {' or '.join(SAME_SIZE)} where records have several owners"
            reason = "removing a person would change which records of their co-owners are kept"
            raise InvalidArgument("adjacency", got, needed, reason)

    @property
    def several_owners(self) -> bool:
        """Whether records have several owners."""
        return self.owners is not None or (self.data is not None and self.data.owners is not None)

    @property
    def training(self) -> tuple[DPSGD, ...]:
        """The phases of DP-SGD, also those with a group size of their own."""
        return tuple(phase for phase in map(Wrapper.innermost, self.phases) if isinstance(phase, DPSGD))

    @property
    def sources(self) -> tuple[str, ...] | None:
        """The sources that the run draws from, None where a group is a number."""
        return sources_of(self.phases)

    @property
    def run(self) -> Mechanism | tuple[Mechanism, ...]:
        """What the library's functions take: one phase, or all of them."""
        return self.phases[0] if len(self.phases) == 1 else self.phases

    @property
    def has_group(self) -> bool:
        """Whether it says how many examples change."""
        return any(getattr(self, key) is not None for key in GROUPS)

    @property
    def keywords(self) -> dict[str, Any]:
        """The arguments of the library's functions that say which datasets are neighbours."""
        if self.removed is not None or self.added is not None:
            if self.group_size is not None:
                raise InvalidArgument("group_size", self.group_size, "be left out where removed or added is given")
            return {"removed": self._size("removed"), "added": self._size("added")}
        return {"group_size": self._size("group_size"), "adjacency": self.adjacency}

    def _size(self, key: str) -> Any:
        """How many examples, or how many of each source; of `removed` and `added` the one that is not given is 0."""
        size, sources = getattr(self, key), self.sources
        if size is None and key != "group_size":
            return 0 if sources is None else dict.fromkeys(sources, 0)
        if sources is not None and not isinstance(size, Mapping):
            each = ",".join(f"{source}=1" for source in sources[:2])
            in_file = each.replace("=", " = ").replace(",", ", ")
            needed = f"say how many examples of each source, like --{key.replace('_', '-')} {each}"
            needed = f"{needed}, or {key} = {{ {in_file} }} in a run file"
            raise InvalidArgument(key, InWords("nothing") if size is None else size, needed)
        if size is None:
            like = "--group-size 9, or --group-size 1 for one (in a run file group_size = 9)"
            raise InvalidArgument(key, NOT_SHOWN, f"be given: how many examples one person may have, like {like}")
        return size if sources is None else {**dict.fromkeys(sources, 0), **size}

    @property
    def neighbours(self) -> Neighbours:
        """Which datasets are neighbours."""
        neighbours = neighbours_of(self.phases, **self.keywords)
        per_person = all(getattr(Wrapper.innermost(phase), "per_person", False) for phase in self.phases)
        if neighbours.joining is None and neighbours.group and per_person:
            return replace(neighbours, group=1, unit="person")  # all of a person's examples count as one
        if not any(isinstance(phase, OfGroup) for phase in self.phases):
            return neighbours
        return replace(neighbours, words="the stated number of examples of one person in each release")

    @property
    def uncovered(self) -> tuple[str, Any, str] | None:
        """(argument, value, requirement) of a group smaller than what some person is known to have in the data."""
        for part in self.parts:
            if (uncovered := part.uncovered) is not None:
                return uncovered
        if self.data is None or unit_of(self.phases) == "person":
            return None
        if isinstance(self.group_size, Mapping):
            caps = self.data.cap if isinstance(self.data.cap, Mapping) else {}
            for source in self.sources or ():
                size, cap = self.group_size.get(source, 0), caps.get(source, 0)
                if size < cap:
                    return f"group_size.{source}", size, f"be at least {cap}, the bound of {self.data.file}"
            return None
        numbers = [(size, key) for key in GROUPS if isinstance(size := getattr(self, key), int)]
        if not numbers or max(numbers)[0] >= self.data.largest:
            return None
        size, key = max(numbers)
        most = self.data.largest
        return key, size, f"be at least {most}: somebody has that many examples in {self.data.file}"

    def require_covered(self) -> None:
        """Refuse a group smaller than the number of examples that some person is known to have."""
        if (uncovered := self.uncovered) is not None:
            raise InvalidArgument(*uncovered)

    @property
    def stated_delta(self) -> float:
        """The delta; an error if none was given."""
        if self.delta is not None:
            return self.delta
        needed = "be given, like --delta 1e-6 or delta = 1e-6 in a run file"
        if self.data is not None:
            most = given(self.data.largest_delta)
            needed = f"be given, like --delta {most}: a tenth of one over the {self.data.people} people, or less"
        raise InvalidArgument("delta", NOT_SHOWN, needed)


def with_sizes(values: Mapping[str, Any], data: Manifest, adjacency: str) -> Mapping[str, Any]:
    """The values of a phase with the dataset size that the data have, where it is left open; another one is refused.

    Where the sampling's own dataset size is that of the smaller of two neighbours, a person with all their examples is
    taken away first, and epochs are counted on all rows. A truncated sampling needs that size exactly, and it differs
    from person to person: it is never filled in.
    """
    kind = SAMPLINGS.get(values.get("sampling", ""))
    names = {field.name for field in kind.fields} if kind is not None else set()
    if kind is None or not kind.leaks_most_where_smallest or not {"sampling_rate", "dataset_size"} & names:
        return values
    rows, largest, what = (data.people, 1, "people") if kind.unit == "person" else (data.rows, data.largest, "rows")
    smaller = "dataset_size" in names and adjacency not in SAME_SIZE
    size = rows - largest if smaller else rows
    if "dataset_size" in values:
        given = DATASET_SIZE.read(values["dataset_size"])
        if given > size if smaller else given != size:
            least = "at most " if smaller else ""
            without = " without one person" if smaller else ""
            raise InvalidArgument("dataset_size", given, f"be {least}{size}, the {what} of {data.file}{without}")
        return values
    if "batch_size" not in values or "sampling_rate" in values:
        return values
    if smaller and EPOCHS.name in values and "steps" not in values:
        share = Fraction(BATCH_SIZE.read(values["batch_size"]), max(rows, 1))
        passes = EPOCHS.read(values[EPOCHS.name])
        values = {key: value for key, value in values.items() if key != EPOCHS.name}
        values["steps"] = steps_of_epochs(passes, share)
    return {**values, "dataset_size": size}


def adjacency_for(phases: Sequence[Mapping[str, Any]], *, several: bool = False) -> str:
    """The adjacency where none is given: add-or-remove, or zero-out where only that is answered.

    Where records have `several` owners, one that leaves the graph of owners as it is.
    """
    known = []
    for phase in phases:
        mechanism = MECHANISMS.get(phase.get("mechanism", DPSGD.name))
        kind: Any = SAMPLINGS.get(phase.get("sampling", "")) if mechanism in (None, DPSGD) else mechanism
        known += [] if kind is None else [kind.adjacencies]
    wanted = (ZERO_OUT, SUBSTITUTE) if several else (ADJACENCIES[0], ZERO_OUT)
    return next((adjacency for adjacency in wanted if all(adjacency in names for names in known)), wanted[0])


#: What a phase may be given by, and what its mechanism states instead.
_GIVEN_BY = (
    (("sampling_rate",), "sampling_rate"),
    (("batch_size", "dataset_size"), "sampling_rate"),
    (("epochs",), "steps"),
)


def run_file_text(file: RunFile, *, folder: Path | None = None) -> str:
    """The TOML document of a run file in `folder`, in full precision, with sizes and epochs as they were given."""
    top: dict[str, Any] = {"title": file.title}
    if file.data is not None and file.data.path is not None:
        from groupdp.data.manifest import SUFFIX

        table = file.data.path.with_name(file.data.path.name.removesuffix(SUFFIX))
        top["data"] = Path(os.path.relpath(table, folder or Path())).as_posix()
    top |= {"owners": file.owners, "delta": file.delta, "group_size": file.group_size}
    top |= {"removed": file.removed, "added": file.added}
    if file.adjacency != ADJACENCIES[0]:
        top["adjacency"] = file.adjacency
    lines = [f"{key} = {_value(value)}" for key, value in top.items() if value is not None]
    for index in range(len(file.phases)):
        lines += ["", "[[phase]]"]
        lines += [f"{key} = {_value(value)}" for key, value in stated(file, index).items()]
    return "\n".join(lines) + "\n"


def stated(file: RunFile, index: int) -> dict[str, Any]:
    """What describes a phase, by its sizes and epochs where it was given by them: 512 of 1 008 000 examples, 3 epochs.

    Whatever a calibration has changed since is stated by its new value.
    """
    phase = file.phases[index]
    said = phase.stated()
    if len(file.written) != len(file.phases) or not isinstance(phase, DPSGD):
        return said
    given = file.written[index]
    for keys, instead in _GIVEN_BY:
        if instead in said and all(key in given for key in keys):
            values = {key: _number(given[key]) for key in keys}
            trial: dict[str, Any] = {}
            for key, value in said.items():  # in the place of what they are given instead of
                trial |= values if key == instead else {key: value}
            if phase_of(trial) == phase:
                said = trial
    return said


def described(file: RunFile, index: int) -> str:
    """A phase in a line, by its sizes and epochs where it was given by them."""
    phase, said = file.phases[index], stated(file, index)
    text = with_sizes_stated(phase.describe(), phase, said)
    return f"{text} ({said['epochs']} epoch{'' if said['epochs'] == 1 else 's'})" if "epochs" in said else text


def with_sizes_stated(text: str, phase: Mechanism, said: Mapping[str, Any]) -> str:
    """A description with the sizes that a phase was given by in the place of the rate."""
    rate = phase.values().get("sampling_rate")
    if rate is None or "sampling_rate" in said:
        return text
    what = "people" if phase.unit == "person" else "examples"
    sizes = f"batches of {said['batch_size']} on average, from {said['dataset_size']} {what}"
    return text.replace(f"sampling rate {rate!r}", sizes)


def _number(value: Any) -> Any:
    """A number as a file writes it: without a point if it is an integer; a ratio stays a text."""
    if isinstance(value, str) and "/" in value:
        return value.strip()
    exactly = exact("", value)
    if exactly.denominator == 1:
        return int(exactly)
    return float(exactly) if Fraction(repr(float(exactly))) == exactly else str(exactly)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_text(str(key))} = {_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, str):
        return _text(value)
    return repr(value)


def _text(value: str) -> str:
    """A basic string: quotes, backslashes and control characters escaped."""
    escaped = re.sub(r'["\\]', r"\\\g<0>", value)
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda match: f"\\u{ord(match[0]):04x}", escaped) + '"'


def remarks_on(run: RunFile, *, group: bool = True) -> list[str]:
    """Remarks on a run and, with `group`, on the group that it is asked about."""
    remarks = []
    if all(phase.releases == 0 for phase in run.phases):
        remarks.append("Note: with 0 steps nothing is released about the data.")
    one_group = run.removed is None and run.added is None
    groups = [1 if run.group_size is None else run.group_size] if one_group else [run.removed, run.added]
    if group and not any(any(size.values()) if isinstance(size, Mapping) else size for size in groups):
        remarks.append("Note: a group of size 0 changes nothing; a person has at least 1 example.")
    if run.adjacency_open and run.adjacency != ADJACENCIES[0]:
        used = f"{run.adjacency} is used, because this sampling has a bound for it"
        remarks.append(f"Note: no adjacency was given; {used}.")
    if group and (uncovered := run.uncovered) is not None:
        key, size, requirement = uncovered
        remarks.append(f"Note: this does not cover everybody: {key} is {size}, and must {requirement}.")
    largest = 0 if run.data is None or unit_of(run.phases) == "person" else run.data.largest
    if group and run.data is not None and isinstance(run.group_size, int) and run.group_size > largest > 0:
        remarks.append(
            f"Note: group_size is {run.group_size}, and nobody has more than {in_words(largest)} in {run.data.file}: "
            f"--group-size {largest} covers everybody."
        )
    if run.data is not None and not run.data.checked:
        remarks.append(f"Note: {run.data.file} is not beside its manifest, so its digest was not checked.")
    return remarks
