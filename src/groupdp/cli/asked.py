"""The run and the question of a command: from its options to what it prints and hands to the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from groupdp.cli.options import pairs
from groupdp.errors import NOT_SHOWN, InvalidArgument, require_choice
from groupdp.fields import Field
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.mechanisms.mechanism import Mechanism
from groupdp.mechanisms.named_values import (
    GROUP_SIZE,
    keys_of,
    known_keys,
    phase_fields,
    refuse_unknown,
    samplings_with,
    with_sampling,
)
from groupdp.mechanisms.wrappers import FIELDS, OfGroup
from groupdp.printing import given
from groupdp.run_file import file_and_size, read_run_file, read_run_files, run_of
from groupdp.run_file.run import GROUPS, RunFile, described, remarks_on, run_file_text, stated
from groupdp.samplings import SAMPLINGS, PoissonSampling

#: Two ways to give the length of a run: an option for one of them replaces what a file says of either.
_LENGTHS = ("steps", "epochs")
#: What is said before an answer that rests on a sampling rate alone.
_ASSUMES_POISSON = (
    "Assumes Poisson sampling; if the loader shuffles, type --sampling shuffled with --batch-size and --dataset-size "
    "instead of --sampling-rate."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The run and the question, validated."""

    file: RunFile
    save_as: str | None = None
    """The run file that --save names."""
    names: tuple[str, ...] = ()
    """The run files."""
    assumes_poisson: bool = False
    """Whether no sampling was named, so that a sampling rate is taken for Poisson sampling."""

    @property
    def run(self) -> Mechanism | tuple[Mechanism, ...]:
        """What the library's functions take."""
        return self.file.run

    @property
    def delta(self) -> float:
        """The delta, which must have been given."""
        return self.file.stated_delta

    @property
    def neighbours(self) -> dict[str, Any]:
        """The arguments of the library's functions that say which datasets are neighbours."""
        if self.file.looked:
            sentence = (
                "Some parameters in this ledger were chosen after looking at outcomes, so this command has no valid "
                "answer: groupdp ledger show has the figure that applies."
            )
            raise InvalidArgument.saying("ledger", sentence)
        return self.file.keywords

    def require_one_source(self, what: str) -> None:
        """Refuses several sources for an answer whose group sizes are one number each."""
        sources = self.file.sources
        if sources is not None:
            each = ",".join(f"{source}=1" for source in sources[:2])
            sentence = (
                f"A run with one source is needed for {what}, where a group size is one number; this run draws from "
                f"{len(sources)} sources: use groupdp epsilon --group-size {each} for each group instead."
            )
            raise InvalidArgument.saying("run", sentence)

    def run_as_json(self) -> Any:
        """The run under the names of the run file: one phase, or a list of phases."""
        phases = [phase.values() for phase in self.file.phases]
        return phases[0] if len(phases) == 1 else phases

    def as_json_fields(self) -> dict[str, Any]:
        """The question and the run under the names of the run file."""
        return {**self.neighbours, "run": self.run_as_json()}

    def group_text(self) -> str:
        """Whom the answer covers: "groups of up to 9"."""
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
        phases = [described(self.file, index) for index in range(len(self.file.phases))]
        if len(phases) > 1:
            phases = [f"phase {number}: {phase}" for number, phase in enumerate(phases, 1)]
        lines = [*([_ASSUMES_POISSON] if self.assumes_poisson else []), *phases]
        if not group:
            return lines
        adjacency = "" if "removed" in self.neighbours else f", {self.file.adjacency}"
        return [*lines, f"{self.group_text()}{adjacency}"]

    def about(self, *, group: bool = True) -> list[str]:
        """The run as it was understood and the remarks on the question, before an answer."""
        return [*self.summary(group=group), *remarks_on(self.file, group=group)]

    def title(self, *, delta: bool = True, group: bool = True) -> list[str]:
        """The run and the question as the lines of a picture's title."""
        lines = self.summary(group=group)[1 if self.assumes_poisson else 0 :]
        if not group:
            lines.append(self.file.adjacency)
        return [*lines[:-1], f"{lines[-1]}, δ = {given(self.delta)}"] if delta else lines

    def run_text(self) -> str:
        """The run file that --save writes."""
        return run_file_text(self.file, folder=Path(self.save_as or "").parent)


def _in_words(size: Any) -> str:
    """A number, or a number for each source, in words."""
    if not isinstance(size, Mapping):
        return str(size)
    return " and ".join(f"{count} of {source}" for source, count in size.items()) if any(size.values()) else "0"


def asked_of(options: Mapping[str, Any], *, assumed: Mapping[str, str] = MappingProxyType({})) -> Asked:
    """The run and the question, from the options that were typed."""
    given = {name: value for name, value in options.items() if not (value is None or value is False or value == [])}
    fields = phase_fields()
    values = {key: given[key] for key in ("mechanism", "sampling", *fields) if key in given}
    for key in values.keys() & {name for name, field in fields.items() if field.kind == "table"}:
        values[key] = pairs(fields[key].option.removeprefix("--"), values[key])
    typed = [pairs("phase", text.split(",")) for text in given.get("phases", [])]
    paths = [given["run_option"]] if "run_option" in given else given.get("run_file", [])
    if "run_option" in options and not (paths or values or typed):
        needed = "be given: a run file (--run RUN.TOML), or options like --sampling-rate 0.01"
        raise InvalidArgument("run", NOT_SHOWN, needed)
    base = read_run_files(paths, read=_run_or_ledger) if paths else None
    question = _question(given)
    if base is not None and not values and not typed and "data" not in given:
        is_open = base.adjacency_open and "adjacency" not in question
        file = replace(base, adjacency_open=is_open, **question)
    else:
        file = _changed(base, _written(base, values, typed, assumed), question, typed=bool(typed))
    _require_consistent(file, given, several=len(paths) > 1)
    named = [base is not None or "sampling" in phase for phase in typed or [values]]
    poisson = [
        isinstance(phase, DPSGD) and isinstance(phase.sampling, PoissonSampling) and phase.sampling.rate < 1.0
        for phase in file.phases
    ]
    return Asked(
        file=file,
        save_as=given.get("save"),
        names=tuple(file_and_size(path)[0] for path in paths),
        assumes_poisson=any(is_poisson and not known for is_poisson, known in zip(poisson, named, strict=False)),
    )


def _changed(
    base: RunFile | None, written: list[Mapping[str, Any]], question: dict[str, Any], *, typed: bool
) -> RunFile:
    """The run of the phases written, with what the run file and the options say of the question."""
    start = RunFile(phases=(), adjacency_open=True) if base is None else base
    kept = ("title", "delta", *GROUPS, "data", "owners", "looked", "parts")
    said = {name: getattr(start, name) for name in kept}
    adjacency = None if start.adjacency_open else start.adjacency
    try:
        return run_of(written, **{**said, "adjacency": adjacency, **question})
    except InvalidArgument as error:
        raise _what_to_type(error, written, typed=typed) from None


def _require_consistent(file: RunFile, given: Mapping[str, Any], *, several: bool) -> None:
    """Refuse options that do not apply to this run, and missing ones."""
    changed = file.removed is not None or file.added is not None
    if several and file.group_size is None:
        raise InvalidArgument("group_size", NOT_SHOWN, "be given for every run file, as FILE:K or by --group-size")
    if "group_size" in given and all(isinstance(phase, OfGroup) for phase in file.phases):
        needed = "be left out where every release has a group size of its own"
        raise InvalidArgument("group_size", given["group_size"], needed)
    if "adjacency" in given and changed:
        raise InvalidArgument("adjacency", given["adjacency"], "be left out where removed or added is given")
    if given.get("save") == "-":
        raise InvalidArgument("save", "-", "be the name of a file")
    if file.has_group:
        _ = file.keywords  # refuses one number for a run that draws from several sources


def _what_to_type(error: InvalidArgument, written: Sequence[Mapping[str, Any]], *, typed: bool) -> InvalidArgument:
    """The error; where a value is missing, with what to type, as an option or (`typed`) in --phase."""

    def to_type(field: Field) -> str:
        example = field.example.partition(" ")[0]
        return f"{field.name}={example}" if typed else f"{field.option} {example}"

    fields = phase_fields()
    field = fields.get(error.argument)
    if field is None or error.phase is None or error.value is not NOT_SHOWN or field.name in written[error.phase]:
        return error
    if field.kind == "flag":
        no, yes = f"{field.name}=false", f"{field.name}=true" if typed else field.option
        where = "in every --phase" if typed else "in a --phase or a run file"
        return InvalidArgument(error.argument, NOT_SHOWN, f"be given: {yes}, or {no} {where}")
    like = [to_type(field)]
    if field.ratio_of is not None:
        like.append(" and ".join(to_type(fields[name]) for name in field.ratio_of) + " instead")
    where = " in every --phase" if typed else ""
    return InvalidArgument(error.argument, NOT_SHOWN, f"be given, like {', or '.join(like)}{where}")


def _run_or_ledger(path: str) -> RunFile:
    """The content of a run file, or all releases of a ledger."""
    if not path.endswith(".jsonl"):
        return read_run_file(path)
    from groupdp.ledger import read_ledger

    return read_ledger(path).run_file(path)


def _written(
    base: RunFile | None, values: dict[str, Any], typed: list[dict[str, str]], assumed: Mapping[str, str]
) -> list[Mapping[str, Any]]:
    """The phases as options and file give them; `typed` are those of --phase."""
    if typed:
        if values or base is not None:
            needed = "describe whole phases, without a run file or other options of the run"
            raise InvalidArgument("phase", NOT_SHOWN, needed)
        phases = [{key.replace("-", "_"): value for key, value in phase.items()} for phase in typed]
        for phase in phases:
            refuse_unknown(phase, known_keys(), where=" in a phase")
        return [phase if "mechanism" in phase else {"sampling": _meant(phase), **phase} for phase in phases]
    if base is not None:
        said = [stated(base, index) for index in range(len(base.phases))]
        if not values:
            return [*said]
        if len(said) > 1:
            first = next(iter(values))
            sentence = f"{first} can override a run file with one phase, this one has {len(said)}."
            raise InvalidArgument.saying(first, sentence)
        values = _overridden(said[0], values)
    elif "mechanism" not in values and "sampling" not in values:
        values = {"sampling": assumed.get("sampling") or _meant(values), **values}
    if values.get("mechanism", DPSGD.name) != DPSGD.name:
        return [values]
    if not any(key in values or key in assumed for key in _LENGTHS):
        raise InvalidArgument("steps", NOT_SHOWN, "be given, like --steps 2000, or --epochs 15 instead")
    # Assumed values that the sampling has, and that are not given, directly or by an equivalent key.
    known = keys_of(values["sampling"]) if values["sampling"] in SAMPLINGS else ()
    alike = (_LENGTHS, ("sampling_rate", "batch_size") if "sampling_rate" in known else ())
    stated_keys = {*values, *(key for group in alike if not values.keys().isdisjoint(group) for key in group)}
    return [{**{key: value for key, value in assumed.items() if key in known and key not in stated_keys}, **values}]


def _overridden(described: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """The values of a file's phase, overridden by the options."""
    mechanism = values.get("mechanism", described.get("mechanism"))
    if mechanism is not None:
        return {**(described if mechanism == described.get("mechanism") else {}), **values}
    kind = values.get("sampling", described["sampling"])
    require_choice("sampling", kind, tuple(SAMPLINGS))
    known = {*keys_of(kind), GROUP_SIZE, *(field.name for field in FIELDS.values())} - {"sampling"}
    if any(key in values for key in _LENGTHS):
        known -= set(_LENGTHS)
    if "batch_size" in values:
        known.discard("sampling_rate")
    if "sampling_rate" in values:
        known -= {"batch_size", "dataset_size"} - {field.name for field in SAMPLINGS[kind].fields}
    return {"sampling": kind, **{key: value for key, value in described.items() if key in known}, **values}


def _meant(values: Mapping[str, Any]) -> str:
    """The sampling that the options name or imply."""
    sampling = with_sampling(values).get("sampling")
    if sampling is not None:
        return str(sampling)
    special = [key for key in values if 0 < len(samplings_with([key])) < len(SAMPLINGS)]
    if special:
        names = ", ".join(samplings_with(special))
        raise InvalidArgument("sampling", NOT_SHOWN, f"be given, like --sampling shuffled: one of {names}")
    needed = "be given: a run file, or options like --sampling-rate 0.01 --noise-multiplier 1 --steps 2000"
    raise InvalidArgument("run", NOT_SHOWN, needed)


def _question(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a run file that state the question."""
    question = {key: given[key] for key in ("delta", "adjacency", *GROUPS) if key in given}
    if "data" in given:
        from groupdp.data.manifest import read_manifest

        question["data"] = read_manifest(given["data"])
    if "removed" in given or "added" in given:
        if "group_size" in given:
            raise InvalidArgument("group_size", given["group_size"], "be left out where removed or added is given")
        question["group_size"] = None
    elif "group_size" in given:
        question |= {"removed": None, "added": None}
    return question
