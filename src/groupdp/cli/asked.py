"""The run and the question of a command, as it prints them and hands them to the library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groupdp._validation import shown
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords
from groupdp.mechanisms.mechanism import Mechanism
from groupdp.mechanisms.wrappers import OfGroup
from groupdp.printing import given
from groupdp.run_file.run import RunFile, described, run_file_text

#: What is said before an answer that rests on a sampling rate alone.
_ASSUMES_POISSON = (
    "Assumes Poisson sampling; if the loader shuffles, type --sampling shuffled with --batch-size and --dataset-size "
    "instead of --sampling-rate."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The run and the question, validated."""

    file: RunFile
    force: bool = False
    """Whether files that exist may be replaced."""
    save_as: str | None = None
    """The run file that --save names."""
    names: tuple[str, ...] = ()
    """The run files."""
    assumes_poisson: bool = False
    """Whether no sampling was named, so that a sampling rate is taken for Poisson sampling."""

    @property
    def run(self) -> Mechanism | tuple[Mechanism, ...]:
        """One phase, or all of them."""
        return self.file.phases[0] if len(self.file.phases) == 1 else self.file.phases

    @property
    def delta(self) -> float:
        """The delta, which must have been given."""
        return self.file.stated_delta

    @property
    def neighbours(self) -> dict[str, Any]:
        """The arguments of the library's functions that say which datasets are neighbours."""
        if self.file.looked:
            raise InvalidArgument(
                "ledger",
                InWords("some that were chosen after looking"),
                "have parameters fixed beforehand for this question: groupdp ledger show has the figure that applies",
            )
        if self.file.removed is not None or self.file.added is not None:
            return {"removed": self._of_sources("removed"), "added": self._of_sources("added")}
        if self.file.group_size is None and self.file.sources is None:
            needed = "be given: how many examples one person may have, like --group-size 9, or --group-size 1 for one"
            raise InvalidArgument("group_size", NOT_SHOWN, needed)
        return {"group_size": self._of_sources("group_size"), "adjacency": self.file.adjacency}

    def require_counted_by_source(self) -> None:
        """Refuses one number for a group of a run that draws from several sources."""
        for key in GROUPS:
            if getattr(self.file, key) is not None:
                self._of_sources(key)

    def require_one_source(self, what: str) -> None:
        """Refuses several sources for an answer whose group sizes are one number each."""
        sources = self.file.sources
        if sources is not None:
            needed = f"draw from one source for {what}, whose group sizes are one number each"
            instead = f"use groupdp epsilon --group-size {_each(sources)} for each group instead"
            raise InvalidArgument("run", InWords(f"{len(sources)} sources"), needed, instead)

    def _of_sources(self, key: str) -> Any:
        """The number of examples under `key`, or a number for each source; 0 if `removed` or `added` is not given."""
        size = getattr(self.file, key)
        sources = self.file.sources
        if sources is None:
            return 0 if size is None else size
        if not isinstance(size, Mapping) and (size is not None or key == "group_size"):
            got, option = "nothing" if size is None else shown(size), f"--{key.replace('_', '-')}"
            needed = f"say how many examples of each source, like {option} {_each(sources)}"
            raise InvalidArgument(key, InWords(got), needed)
        return {**dict.fromkeys(sources, 0), **(size or {})}

    def run_as_json(self) -> Any:
        """The run under the names of the run file: one phase, or a list of phases."""
        phases = [phase.values() for phase in self.file.phases]
        return phases[0] if len(phases) == 1 else phases

    def as_json_fields(self) -> dict[str, Any]:
        """The question and the run under the names of the run file."""
        return {**self.neighbours, "run": self.run_as_json()}

    def group_text(self) -> str:
        """Whom the answer is about: "groups of up to 9"."""
        if self.file.removed is not None or self.file.added is not None:
            gone, come = (_in_words(self.neighbours[key]) for key in ("removed", "added"))
            return f"{gone} removed and {come} added"
        if all(isinstance(phase, OfGroup) for phase in self.file.phases):
            return "a person with the examples stated for each release"
        size = self.file.neighbours.group_size
        if not (any(size.values()) if isinstance(size, Mapping) else size):
            return "nobody (a group of size 0)"
        unit = self.file.neighbours.unit
        if size == 1:
            return f"one {unit} (group size 1)"
        people = " people" if unit == "person" else ""
        return f"up to {_in_words(size)}" if isinstance(size, Mapping) else f"groups of up to {size}{people}"

    def summary(self, *, group: bool = True) -> list[str]:
        """The run as it was understood: a line for each phase and, with `group`, one for the neighbours."""
        lines = [_ASSUMES_POISSON] if self.assumes_poisson else []
        for index in range(len(self.file.phases)):
            prefix = f"phase {index + 1}: " if len(self.file.phases) > 1 else ""
            lines.append(f"{prefix}{described(self.file, index)}")
        if not group:
            return lines
        adjacency = "" if "removed" in self.neighbours else f", {self.file.adjacency}"
        return [*lines, f"{self.group_text()}{adjacency}"]

    def title(self, *, delta: bool = True, group: bool = True) -> list[str]:
        """The run and the question as the lines of a picture's title."""
        lines = self.summary(group=group)[1 if self.assumes_poisson else 0 :]
        if not group:
            lines.append(self.file.adjacency)
        return [*lines[:-1], f"{lines[-1]}, δ = {given(self.delta)}"] if delta else lines

    def run_text(self) -> str:
        """The run file that --save writes."""
        return run_file_text(self.file, folder=Path(self.save_as or "").parent)


def _each(sources: tuple[str, ...]) -> str:
    """What to type for a group of several sources."""
    return ",".join(f"{source}=1" for source in sources[:2])


def _in_words(size: Any) -> str:
    """A number, or a number of each source."""
    if not isinstance(size, Mapping):
        return str(size)
    return " and ".join(f"{count} of {source}" for source, count in size.items()) if any(size.values()) else "0"


#: What says how many examples change.
GROUPS = ("group_size", "removed", "added")
