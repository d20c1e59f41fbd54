"""What a command line says about the run and the question: one object for every command.

A run is a file, options, or a file with options that override it. `with_run` gives a command all the options that
describe a run, and hands it an `Asked`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, get_type_hints

import typer

from groupdp._validation import require_choice, shown
from groupdp.adjacency import ADJACENCIES
from groupdp.cli.options import RUN_PARAMETERS, parameters_of
from groupdp.cli.support import require_new
from groupdp.dpsgd import DPSGD
from groupdp.errors import InvalidArgument
from groupdp.run_file.describe import run_as_json
from groupdp.run_file.phases import (
    KNOWN_KEYS,
    integer,
    keys_of,
    number,
    phase_of,
    refuse_unknown,
    samplings_with,
    with_sampling,
)
from groupdp.run_file.read import RunFile, read_run_file
from groupdp.run_file.remarks import remarks_on
from groupdp.samplings import SAMPLINGS

#: Options that describe a phase, in the order of the help.
PHASE_KEYS = (
    "sampling",
    "sampling_rate",
    "batch_size",
    "dataset_size",
    "largest_batch",
    "batches",
    "one_per_batch",
    "sampling_rates",
    "noise_multiplier",
    "steps",
    "epochs",
    "microbatch_size",
)
#: What a command asks about a run, unless it says otherwise.
QUESTION = ("delta", "group_size", "adjacency", "removed", "added")
#: Ways to describe what a step visits; an option of this kind replaces all that a file says of it.
_LENGTHS = ("steps", "epochs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The run and the question, validated."""

    file: RunFile
    force: bool = False
    """Whether files that exist may be replaced."""
    save_as: str | None = None
    """The run file that --save names."""

    @property
    def run(self) -> DPSGD | tuple[DPSGD, ...]:
        """One phase, or all of them."""
        return self.file.phases[0] if len(self.file.phases) == 1 else self.file.phases

    @property
    def delta(self) -> float:
        """The delta, which must have been given."""
        return self.file.stated_delta

    @property
    def neighbours(self) -> dict[str, Any]:
        """The arguments of the library's functions that say which datasets are neighbours."""
        if self.file.removed is not None or self.file.added is not None:
            return {"removed": self._of_sources("removed", 0), "added": self._of_sources("added", 0)}
        return {"group_size": self._of_sources("group_size", 1), "adjacency": self.file.adjacency}

    def require_counted_by_source(self) -> None:
        """Refuses one number for a group of a run that draws from several sources."""
        for key in ("group_size", "removed", "added"):
            if getattr(self.file, key) is not None:
                self._of_sources(key, 0)

    def require_one_source(self, what: str) -> None:
        """Refuses several sources for an answer whose group sizes are one number each."""
        sources = self.file.phases[0].sampling.sources
        if sources is not None:
            written = ",".join(f"{source}=1" for source in sources[:2])
            raise InvalidArgument(
                f"run must draw from one source for {what}, whose group sizes are one number each, got {len(sources)} "
                f"sources: use groupdp epsilon --group-size {written} for each group instead."
            )

    def _of_sources(self, key: str, default: int) -> Any:
        """What is said of a group, or else the default; a run that draws from sources has it counted for each."""
        size = getattr(self.file, key)
        sources = self.file.phases[0].sampling.sources
        if sources is None:
            return default if size is None else size
        if size is None and default == 0:
            size = {}
        if not isinstance(size, Mapping):
            written = f"--{key.replace('_', '-')} {','.join(f'{source}=1' for source in sources[:2])}"
            got = "nothing" if size is None else shown(size)
            raise InvalidArgument(f"{key} must say how many examples of each source, like {written}, got {got}.")
        return size if default else {**dict.fromkeys(sources, 0), **size}

    def as_json_fields(self) -> dict[str, Any]:
        """The question and the run under the names of the run file."""
        phases = [run_as_json(phase) for phase in self.file.phases]
        return {**self.neighbours, "run": phases[0] if len(phases) == 1 else phases}

    def group_text(self) -> str:
        """Whom the answer is about: "groups of up to 9"."""
        if self.file.removed is not None or self.file.added is not None:
            gone, come = (_told(self.neighbours[key]) for key in ("removed", "added"))
            return f"{gone} removed while {come} are added"
        size = self.neighbours["group_size"]
        if not (any(size.values()) if isinstance(size, Mapping) else size):
            return "nobody (a group of size 0)"
        return f"up to {_told(size)}" if isinstance(size, Mapping) else f"groups of up to {size}"

    def summary(self, *, group: bool = True) -> list[str]:
        """The run as it was understood: a line for each phase, and one for the neighbours unless without the group."""
        lines = []
        for index, phase in enumerate(self.file.phases, 1):
            prefix = f"phase {index}: " if len(self.file.phases) > 1 else ""
            micro = f", microbatches of {phase.microbatch_size}" if phase.in_microbatches else ""
            steps = f"{phase.steps} step{'' if phase.steps == 1 else 's'}"
            run = f"{phase.sampling.describe()}, noise multiplier {phase.noise_multiplier!r}"
            lines.append(f"{prefix}{run}{micro}, {steps}")
        if not group:
            return lines
        adjacency = "" if "removed" in self.neighbours else f", {self.file.adjacency}"
        return [*lines, f"{self.group_text()}{adjacency}"]

    def title(self, *, delta: bool = True, group: bool = True) -> list[str]:
        """The run and the question as the lines of a picture's title."""
        lines = self.summary(group=group)
        if not group:
            lines.append(self.file.adjacency)
        return [*lines[:-1], f"{lines[-1]}, δ = {self.delta:g}"] if delta else lines

    def remarks(self, *, group: bool = True) -> list[str]:
        """Sentences about a question whose answer says little."""
        return remarks_on(self.file, group=group)

    def save(self) -> None:
        """Write the run file that --save names, if it does."""
        if self.save_as is None:
            return
        from groupdp._files import NewFiles
        from groupdp.run_file.write import run_file_text

        with NewFiles("save") as files:
            files.write_text(self.save_as, run_file_text(self.file))
        typer.echo(f"wrote {self.save_as}", err=True)


def _told(size: Any) -> str:
    """A number, or a number of each source."""
    if isinstance(size, Mapping):
        return " and ".join(f"{count} of {source}" for source, count in size.items() if count) or "0"
    return str(size)


def with_run(
    *,
    question: tuple[str, ...] = QUESTION,
    assumed: Mapping[str, str] = MappingProxyType({}),
    run_as_option: bool = False,
    saves_itself: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options that describe a run and its question, as its argument `asked`.

    `assumed` are values of options that the command does not need (a calibration of the noise needs no noise).
    `saves_itself`: what --save is to write is not the run that was given but one that the command finds.
    `run_as_option`: the run file is the option --run, because the command's arguments are other files.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        own = [
            one.replace(annotation=hints[one.name])
            for one in inspect.signature(command).parameters.values()
            if one.name != "asked"
        ]
        names = [name for name in RUN_PARAMETERS if not (run_as_option and name == "run_file")]
        shared = parameters_of((*(["run_option"] if run_as_option else []), *names, *question))

        @functools.wraps(command)
        def wrapped(**given: Any) -> None:
            about_run = {one.name: given.pop(one.name) for one in shared}
            if run_as_option:
                names = [given[one.name] for one in own if one.name in ("file", "files")]
                require_run_option(names[0] if isinstance(names[0], list) else names, about_run["run_option"])
            asked = asked_of(about_run, assumed=assumed)
            if asked.save_as is not None and not saves_itself:
                asked.save()
            command(asked=asked, **given)

        positional = [one for one in own if one.kind is not inspect.Parameter.KEYWORD_ONLY]
        others = [one for one in own if one.kind is inspect.Parameter.KEYWORD_ONLY]
        wrapped.__signature__ = inspect.Signature([*positional, *shared, *others])  # type: ignore[attr-defined]
        wrapped.__annotations__ = {one.name: one.annotation for one in (*shared, *own)}
        return wrapped

    return decorate


def require_run_option(files: Sequence[str], run: str | None) -> None:
    """Refuses a run file among a command's data, and two standard inputs."""
    if run == "-" and "-" in files:
        raise InvalidArgument("run must be a file where the data are the standard input: only one of them can be -.")
    for file in files:
        if run is None and file.lower().endswith(".toml"):
            raise InvalidArgument(f"run must be given as the option --run {file}, got {shown(file)} among the data.")


def asked_of(given: Mapping[str, Any], *, assumed: Mapping[str, str] = MappingProxyType({})) -> Asked:
    """From the options' texts to the run and the question."""
    values = {key: given[key] for key in PHASE_KEYS if given.get(key) not in (None, False)}
    if given.get("sources"):
        values["sampling_rates"] = _pairs("source", given["sources"])
    path = given.get("run_file") or given.get("run_option")
    base = read_run_file(path) if path is not None else None
    if path is None and not values and not given.get("phases") and "run_option" in given:
        raise InvalidArgument("run must be given: a run file (--run RUN.TOML), or sampling with its options.")
    phases = _phases(base, values, given.get("phases") or [], assumed)
    file = replace(base, phases=phases) if base is not None else RunFile(phases=phases)
    file = replace(file, **_question(given))
    if given.get("adjacency") is not None and (file.removed is not None or file.added is not None):
        chosen = shown(given["adjacency"])
        raise InvalidArgument(f"adjacency must be left out where removed or added is given, got {chosen}.")
    asked = Asked(file=file, force=bool(given.get("force")), save_as=given.get("save"))
    asked.require_counted_by_source()
    require_new(asked.save_as, "save", force=asked.force)
    return asked


def _phases(
    base: RunFile | None, values: dict[str, Any], texts: list[str], assumed: Mapping[str, str]
) -> tuple[DPSGD, ...]:
    if texts:
        if values or base is not None:
            raise InvalidArgument("phase must describe whole phases, without a run file or other options of the run.")
        described = [_pairs("phase", text.split(",")) for text in texts]
        return tuple(_phase({key.replace("-", "_"): value for key, value in one.items()}) for one in described)
    if base is not None:
        if not values:
            return base.phases
        if len(base.phases) > 1:
            raise InvalidArgument(
                f"{next(iter(values))} can override a run file with one phase, this one has {len(base.phases)}."
            )
        values = _overridden(run_as_json(base.phases[0]), values)
    elif "sampling" not in values:
        values = {"sampling": assumed.get("sampling") or _meant(values), **values}
    if not any(key in values or key in assumed for key in _LENGTHS):
        raise InvalidArgument("steps or epochs must be given.")
    return (phase_of({**_assumed(values, assumed), **values}),)


def _assumed(values: Mapping[str, Any], assumed: Mapping[str, str]) -> dict[str, str]:
    """What is assumed and neither said, in these words or others, nor unknown to the sampling."""
    known = keys_of(values["sampling"]) if values["sampling"] in SAMPLINGS else ()
    alike = (_LENGTHS, ("sampling_rate", "batch_size") if "sampling_rate" in known else ())
    said = {one for key in values for one in (key, *(other for group in alike if key in group for other in group))}
    return {key: value for key, value in assumed.items() if key in known and key not in said}


def _overridden(described: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """What a file says of its phase, with what the options say in its place."""
    kind = values.get("sampling", described["sampling"])
    require_choice("sampling", kind, tuple(SAMPLINGS))
    kept = {key: value for key, value in described.items() if key in keys_of(kind) and key != "sampling"}
    if any(key in values for key in _LENGTHS):
        kept.pop("steps", None)
    if "batch_size" in values and "sampling_rate" in kept:
        kept.pop("sampling_rate")
    return {"sampling": kind, **kept, **values}


def _phase(values: Mapping[str, Any]) -> DPSGD:
    """One --phase."""
    refuse_unknown(values, KNOWN_KEYS, where=" in a phase")
    return phase_of({"sampling": _meant(values), **values})


def _meant(values: Mapping[str, Any]) -> str:
    """The sampling that the options name, or else the one that they can only mean."""
    found = with_sampling(values).get("sampling")
    if found is not None:
        return str(found)
    sizes = [key for key in ("batch_size", "dataset_size", "one_per_batch") if key in values]
    if sizes:
        names = ", ".join(samplings_with(sizes))
        raise InvalidArgument(f"sampling must say how batches of that size are chosen ({names}), got nothing.")
    raise InvalidArgument(f"a run file, or sampling ({', '.join(SAMPLINGS)}) with its options, must be given.")


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
            raise InvalidArgument(f"group_size must be left out where removed or added is given, got {size}.")
        found["group_size"] = None
    elif "group_size" in found:
        found |= {"removed": None, "added": None}
    return found


def _group(key: str, text: str) -> Any:
    """A number, or source=number,source=number."""
    if "=" in text:
        counts = _pairs(key, text.split(","))
        return {source: integer(f"{key} of {source}", count, at_least=0) for source, count in counts.items()}
    return integer(key, text, at_least=0)


def _pairs(name: str, texts: list[str]) -> dict[str, str]:
    """name=value, each name once."""
    found: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key.strip() or not value.strip() or key.strip() in found:
            raise InvalidArgument(f"{name} must be written name=value, each name once, got {shown(text)}.")
        found[key.strip()] = value.strip()
    return found
