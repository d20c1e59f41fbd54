"""The run and the question of a command line: a run file, options, or a file that options override."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import typer

from groupdp._validation import require_choice, shown
from groupdp.cli.output import require_new
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords
from groupdp.fields import integer, number
from groupdp.groups import LARGEST_GROUP
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.mechanisms.mechanism import Mechanism
from groupdp.mechanisms.named_values import (
    GROUP_SIZE,
    keys_of,
    known_keys,
    phase_fields,
    phase_of,
    refuse_unknown,
    samplings_with,
    with_sampling,
)
from groupdp.mechanisms.of_group import OfGroup
from groupdp.mechanisms.search import FIELDS
from groupdp.neighbours import ADJACENCIES
from groupdp.printing import given
from groupdp.question import unit_of
from groupdp.run_file.filled import adjacency_for, with_sizes
from groupdp.run_file.read import RunFile, file_and_size, read_run_file, read_run_files
from groupdp.run_file.write import described, remarks_on, run_file_text, stated
from groupdp.samplings import SAMPLINGS, PoissonSampling

if TYPE_CHECKING:
    from groupdp.data.manifest import Manifest

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
            raise InvalidArgument(
                "group_size",
                NOT_SHOWN,
                "be given: how many examples one person may have, like --group-size 9, or --group-size 1 for one",
            )
        return {"group_size": self._of_sources("group_size"), "adjacency": self.file.adjacency}

    def require_counted_by_source(self) -> None:
        """Refuses one number for a group of a run that draws from several sources."""
        for key in ("group_size", "removed", "added"):
            if getattr(self.file, key) is not None:
                self._of_sources(key)

    def require_one_source(self, what: str) -> None:
        """Refuses several sources for an answer whose group sizes are one number each."""
        sources = self.file.sources
        if sources is not None:
            written = ",".join(f"{source}=1" for source in sources[:2])
            raise InvalidArgument(
                "run",
                InWords(f"{len(sources)} sources"),
                f"draw from one source for {what}, whose group sizes are one number each",
                f"use groupdp epsilon --group-size {written} for each group instead",
            )

    def _of_sources(self, key: str) -> Any:
        """What is said of a group; a run that draws from sources has it counted for each. Nobody, if nothing is said of
        those who leave or join.
        """
        size = getattr(self.file, key)
        sources = self.file.sources
        if sources is None:
            return 0 if size is None else size
        if size is None and key != "group_size":
            size = {}
        if not isinstance(size, Mapping):
            written = f"--{key.replace('_', '-')} {','.join(f'{source}=1' for source in sources[:2])}"
            got = "nothing" if size is None else shown(size)
            raise InvalidArgument(key, InWords(got), f"say how many examples of each source, like {written}")
        return {**dict.fromkeys(sources, 0), **size}

    def as_json_fields(self) -> dict[str, Any]:
        """The question and the run under the names of the run file."""
        return {**self.neighbours, "run": self.run_as_json()}

    def run_as_json(self) -> Any:
        """The run under the names of the run file: one phase, or a list of phases."""
        phases = [phase.values() for phase in self.file.phases]
        return phases[0] if len(phases) == 1 else phases

    def group_text(self) -> str:
        """Whom the answer is about: "groups of up to 9"."""
        if self.file.removed is not None or self.file.added is not None:
            gone, come = (_told(self.neighbours[key]) for key in ("removed", "added"))
            return f"{gone} removed while {come} are added"
        if all(isinstance(phase, OfGroup) for phase in self.file.phases):
            return "a person with the examples stated for each release"
        size = self.neighbours["group_size"]
        if not (any(size.values()) if isinstance(size, Mapping) else size):
            return "nobody (a group of size 0)"
        unit = self.file.neighbours.unit
        if size == 1:
            return f"one {unit} (group size 1)"
        people = " people" if unit == "person" else ""
        return f"up to {_told(size)}" if isinstance(size, Mapping) else f"groups of up to {size}{people}"

    def summary(self, *, group: bool = True) -> list[str]:
        """The run as it was understood: a line for each phase, and one for the neighbours unless without the group."""
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

    def remarks(self, *, group: bool = True) -> list[str]:
        """Sentences about a question whose answer says little."""
        return remarks_on(self.file, group=group)

    def save(self) -> None:
        """Write the run file that --save names, if it does."""
        if self.save_as is None:
            return
        from groupdp._files import NewFiles

        with NewFiles("save") as files:
            files.write_text(self.save_as, run_file_text(self.file, folder=Path(self.save_as).parent))
        typer.echo(f"wrote {self.save_as}", err=True)


def _told(size: Any) -> str:
    """A number, or a number of each source."""
    if isinstance(size, Mapping):
        return " and ".join(f"{count} of {source}" for source, count in size.items()) if any(size.values()) else "0"
    return str(size)


#: Ways to describe what a step visits; an option of this kind replaces all that a file says of it.
_LENGTHS = ("steps", "epochs")


def asked_of(given: Mapping[str, Any], *, assumed: Mapping[str, str] = MappingProxyType({})) -> Asked:
    """From the options' texts to the run and the question."""
    fields = phase_fields()
    values = {key: given[key] for key in ("mechanism", "sampling", *fields) if given.get(key) not in (None, False, [])}
    for key, texts in values.items():
        if key in fields and fields[key].kind == "table":
            values[key] = _pairs(fields[key].option.removeprefix("--"), texts)
    data = _manifest(given.get("data"))
    option = given.get("run_option")
    paths = [option] if option is not None else given.get("run_file") or []
    base = read_run_files(paths, read=_run_or_ledger) if paths else None
    if not paths and not values and not given.get("phases") and "run_option" in given:
        raise InvalidArgument("run", NOT_SHOWN, "be given: a run file (--run RUN.TOML), or sampling with its options")
    question = _question(given)
    written = _written(base, values, given.get("phases") or [], assumed)
    start = RunFile(phases=(), adjacency_open=True) if base is None else base
    data = data or start.data
    adjacency = question.pop("adjacency", None) or (None if start.adjacency_open else start.adjacency)
    several = start.several_owners or (data is not None and data.owners is not None)
    meant = adjacency or adjacency_for(written, several=several)
    if data is not None:
        written = [with_sizes(one, data, meant) for one in written]
    untouched = base is not None and not values and given.get("data") is None
    phases = start.phases if untouched else tuple(phase_of(one) for one in written)
    file = replace(
        start,
        phases=phases,
        written=tuple(written),
        data=data,
        adjacency=meant,
        adjacency_open=adjacency is None,
        **question,
    )
    if data is not None and file.group_size is file.removed is file.added is None:
        file = replace(file, group_size=data.group_size(file.sources, unit_of(phases)))
    if len(paths) > 1 and file.group_size is None:
        raise InvalidArgument("group_size", NOT_SHOWN, "be given for every run file, as FILE:K or by --group-size")
    if given.get("group_size") is not None and all(isinstance(phase, OfGroup) for phase in phases):
        raise InvalidArgument(
            "group_size", InWords(shown(given["group_size"])), "be left out where every release has one of its own"
        )
    if given.get("adjacency") is not None and (file.removed is not None or file.added is not None):
        name = shown(given["adjacency"])
        raise InvalidArgument("adjacency", InWords(name), "be left out where removed or added is given")
    typed = [_pairs("phase", text.split(",")) for text in given.get("phases") or []] or [values]
    unnamed = [base is None and "sampling" not in one for one in typed]
    asked = Asked(
        file=file,
        force=bool(given.get("force")),
        save_as=given.get("save"),
        names=tuple(file_and_size(path)[0] for path in paths),
        assumes_poisson=any(
            not_named and isinstance(phase, DPSGD) and phase.sampling.name == PoissonSampling.name
            for phase, not_named in zip(phases, unnamed, strict=False)
        ),
    )
    asked.require_counted_by_source()
    if asked.save_as == "-":
        raise InvalidArgument("save", InWords("'-'"), "be the name of a file")
    require_new(asked.save_as, "save", force=asked.force)
    return asked


def _run_or_ledger(path: str) -> RunFile:
    """A run file, or everything that a ledger holds."""
    if not path.endswith(".jsonl"):
        return read_run_file(path)
    from groupdp.ledger import read_ledger

    return read_ledger(path).run_file(path)


def _manifest(path: str | None) -> Manifest | None:
    """What is known of the data that --data names."""
    if path is None:
        return None
    from groupdp.data.manifest import read_manifest

    return read_manifest(path)


def _written(
    base: RunFile | None, values: dict[str, Any], texts: list[str], assumed: Mapping[str, str]
) -> list[Mapping[str, Any]]:
    """The phases as options and file give them."""
    if texts:
        if values or base is not None:
            raise InvalidArgument(
                "phase", NOT_SHOWN, "describe whole phases, without a run file or other options of the run"
            )
        typed = [_pairs("phase", text.split(",")) for text in texts]
        return [_phase({key.replace("-", "_"): value for key, value in one.items()}) for one in typed]
    if base is not None:
        said = [stated(base, index) for index in range(len(base.phases))]
        if not values:
            return [*said]
        if len(said) > 1:
            first = next(iter(values))
            raise InvalidArgument.saying(
                first, f"{first} can override a run file with one phase, this one has {len(base.phases)}."
            )
        values = _overridden(said[0], values)
    elif "mechanism" not in values and "sampling" not in values:
        values = {"sampling": assumed.get("sampling") or _meant(values), **values}
    if values.get("mechanism", DPSGD.name) != DPSGD.name:
        return [values]
    if not any(key in values or key in assumed for key in _LENGTHS):
        raise InvalidArgument("steps or epochs", NOT_SHOWN, "be given")
    return [{**_assumed(values, assumed), **values}]


def _assumed(values: Mapping[str, Any], assumed: Mapping[str, str]) -> dict[str, str]:
    """What is assumed and neither said, in these words or others, nor unknown to the sampling."""
    known = keys_of(values["sampling"]) if values["sampling"] in SAMPLINGS else ()
    alike = (_LENGTHS, ("sampling_rate", "batch_size") if "sampling_rate" in known else ())
    said = {one for key in values for one in (key, *(other for group in alike if key in group for other in group))}
    return {key: value for key, value in assumed.items() if key in known and key not in said}


def _overridden(described: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """What a file says of its phase, with what the options say in its place."""
    if values.get("mechanism", described.get("mechanism")) is not None:
        same = values.get("mechanism", described.get("mechanism")) == described.get("mechanism")
        return {**(described if same else {}), **values}
    kind = values.get("sampling", described["sampling"])
    require_choice("sampling", kind, tuple(SAMPLINGS))
    known = {*keys_of(kind), GROUP_SIZE, *(field.name for field in FIELDS.values())} - {"sampling"}
    kept = {key: value for key, value in described.items() if key in known}
    if any(key in values for key in _LENGTHS):
        kept = {key: value for key, value in kept.items() if key not in _LENGTHS}
    if "batch_size" in values:
        kept.pop("sampling_rate", None)
    if "sampling_rate" in values:
        own = {field.name for field in SAMPLINGS[kind].fields}
        kept = {key: value for key, value in kept.items() if key in own or key not in ("batch_size", "dataset_size")}
    return {"sampling": kind, **kept, **values}


def _phase(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """One --phase."""
    refuse_unknown(values, known_keys(), where=" in a phase")
    return values if "mechanism" in values else {"sampling": _meant(values), **values}


def _meant(values: Mapping[str, Any]) -> str:
    """The sampling that the options name, or else the one that they can only mean."""
    found = with_sampling(values).get("sampling")
    if found is not None:
        return str(found)
    telling = [key for key in values if 0 < len(samplings_with([key])) < len(SAMPLINGS)]
    if telling:
        names = ", ".join(samplings_with(telling))
        raise InvalidArgument("sampling", InWords("nothing"), f"say how batches of that size are chosen ({names})")
    raise InvalidArgument(f"a run file, or sampling ({', '.join(SAMPLINGS)}) with its options,", NOT_SHOWN, "be given")


def _question(given: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if given.get("delta") is not None:
        found["delta"] = number("delta", given["delta"], above=0.0, below=1.0)
    for key in ("group_size", "removed", "added"):
        if given.get(key) is not None:
            found[key] = _group(key, given[key])
    if given.get("adjacency") is not None:
        found["adjacency"] = require_choice("adjacency", given["adjacency"], ADJACENCIES)
    if "removed" in found or "added" in found:
        if "group_size" in found:
            size = shown(given["group_size"])
            raise InvalidArgument("group_size", size, "be left out where removed or added is given")
        found["group_size"] = None
    elif "group_size" in found:
        found |= {"removed": None, "added": None}
    return found


def _group(key: str, text: str) -> Any:
    """A number, or source=number,source=number."""
    if "=" in text:
        counts = _pairs(key, text.split(","))
        return {source: integer(f"{key} of {source}", count, at_least=0) for source, count in counts.items()}
    return integer(key, text, at_least=0, at_most=LARGEST_GROUP)


def _pairs(name: str, texts: list[str]) -> dict[str, str]:
    """name=value, each name once."""
    found: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key.strip() or not value.strip() or key.strip() in found:
            raise InvalidArgument(name, text, "be written name=value, each name once")
        found[key.strip()] = value.strip()
    return found
