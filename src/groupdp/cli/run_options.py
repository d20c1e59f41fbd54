"""From the texts of options to the run and the question: a run file, options, or a file that options override."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from groupdp._validation import require_choice, shown
from groupdp.cli.asked import Asked
from groupdp.cli.output import require_new
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords
from groupdp.fields import Field, integer, number
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
from groupdp.question import unit_of
from groupdp.run_file.filled import adjacency_for, with_sizes
from groupdp.run_file.read import file_and_size, read_run_file, read_run_files
from groupdp.run_file.run import RunFile
from groupdp.run_file.write import stated
from groupdp.samplings import SAMPLINGS, PoissonSampling

#: Two ways to give the length of a run: an option for one of them replaces what a file says of either.
_LENGTHS = ("steps", "epochs")


def asked_of(given: Mapping[str, Any], *, assumed: Mapping[str, str] = MappingProxyType({})) -> Asked:
    """From the options' texts to the run and the question."""
    fields = phase_fields()
    values = {key: given[key] for key in ("mechanism", "sampling", *fields) if given.get(key) not in (None, False, [])}
    for key, texts in values.items():
        if key in fields and fields[key].kind == "table":
            values[key] = _pairs(fields[key].option.removeprefix("--"), texts)
    option = given.get("run_option")
    paths = [option] if option is not None else given.get("run_file") or []
    base = read_run_files(paths, read=_run_or_ledger) if paths else None
    if not paths and not values and not given.get("phases") and "run_option" in given:
        raise InvalidArgument(
            "run", NOT_SHOWN, "be given: a run file (--run RUN.TOML), or options like --sampling-rate 0.01"
        )
    question = _question(given)
    written = _written(base, values, given.get("phases") or [], assumed)
    start = RunFile(phases=(), adjacency_open=True) if base is None else base
    data = start.data
    if given.get("data") is not None:
        from groupdp.data.manifest import read_manifest

        data = read_manifest(given["data"])
    adjacency = question.pop("adjacency", None) or (None if start.adjacency_open else start.adjacency)
    several = start.several_owners or (data is not None and data.owners is not None)
    meant = adjacency or adjacency_for(written, several=several)
    if data is not None:
        written = [with_sizes(one, data, meant) for one in written]
    untouched = base is not None and not values and given.get("data") is None
    phases = start.phases if untouched else tuple(_phase_of(one, typed=bool(given.get("phases"))) for one in written)
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


def _phase_of(values: Mapping[str, Any], *, typed: bool) -> Mechanism:
    """The phase; where a value is missing, the error says what to type, as an option or (`typed`) in --phase."""
    try:
        return phase_of(values)
    except InvalidArgument as error:
        fields = phase_fields()
        field = fields.get(error.argument)
        if field is None or error.value is not NOT_SHOWN or field.name in values:
            raise
        like = [_typed(field, in_phase=typed)]
        if field.ratio_of is not None:
            like.append(" and ".join(_typed(fields[name], in_phase=typed) for name in field.ratio_of) + " instead")
        where = " in every --phase" if typed else ""
        raise InvalidArgument(error.argument, NOT_SHOWN, f"be given, like {', or '.join(like)}{where}") from None


def _typed(field: Field, *, in_phase: bool) -> str:
    """What to type for a field."""
    example = field.example.partition(" ")[0]
    return f"{field.name}={example}" if in_phase else f"{field.option} {example}"


def _run_or_ledger(path: str) -> RunFile:
    """A run file, or everything that a ledger holds."""
    if not path.endswith(".jsonl"):
        return read_run_file(path)
    from groupdp.ledger import read_ledger

    return read_ledger(path).run_file(path)


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
        raise InvalidArgument("steps", NOT_SHOWN, "be given, like --steps 2000, or --epochs 15 instead")
    return [{**_assumed(values, assumed), **values}]


def _assumed(values: Mapping[str, Any], assumed: Mapping[str, str]) -> dict[str, str]:
    """The assumed values that the sampling has, and that are not given, directly or by an equivalent key."""
    known = keys_of(values["sampling"]) if values["sampling"] in SAMPLINGS else ()
    alike = (_LENGTHS, ("sampling_rate", "batch_size") if "sampling_rate" in known else ())
    said = {one for key in values for one in (key, *(other for group in alike if key in group for other in group))}
    return {key: value for key, value in assumed.items() if key in known and key not in said}


def _overridden(described: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """The values of a file's phase, overridden by the options."""
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
    """The sampling that the options name or imply."""
    found = with_sampling(values).get("sampling")
    if found is not None:
        return str(found)
    telling = [key for key in values if 0 < len(samplings_with([key])) < len(SAMPLINGS)]
    if telling:
        names = ", ".join(samplings_with(telling))
        raise InvalidArgument("sampling", NOT_SHOWN, f"be given, like --sampling shuffled: one of {names}")
    raise InvalidArgument(
        "run", NOT_SHOWN, "be given: a run file, or options like --sampling-rate 0.01 --noise-multiplier 1 --steps 2000"
    )


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
            raise InvalidArgument("group_size", given["group_size"], "be left out where removed or added is given")
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
