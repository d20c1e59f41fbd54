"""From the texts of options to the run and the question: a run file, options, or a file that options override."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from groupdp._validation import require_choice, shown
from groupdp.cli.asked import Asked
from groupdp.cli.support import require_new
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords
from groupdp.fields import integer, number
from groupdp.groups import LARGEST_GROUP
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.mechanisms.mechanism import Mechanism
from groupdp.mechanisms.named_values import (
    keys_of,
    known_keys,
    phase_fields,
    phase_of,
    refuse_unknown,
    samplings_with,
    with_sampling,
)
from groupdp.mechanisms.of_group import OfGroup
from groupdp.neighbours import ADJACENCIES
from groupdp.run_file.combine import read_run_files
from groupdp.run_file.read import RunFile
from groupdp.samplings import SAMPLINGS, PoissonSampling

#: Ways to describe what a step visits; an option of this kind replaces all that a file says of it.
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
    base = read_run_files(paths) if paths else None
    if not paths and not values and not given.get("phases") and "run_option" in given:
        raise InvalidArgument("run", NOT_SHOWN, "be given: a run file (--run RUN.TOML), or sampling with its options")
    phases = _phases(base, values, given.get("phases") or [], assumed)
    file = replace(base, phases=phases) if base is not None else RunFile(phases=phases)
    file = replace(file, **_question(given))
    if len(paths) > 1 and file.group_size is None:
        raise InvalidArgument("group_size", NOT_SHOWN, "be given for every run file, as FILE:K or by --group-size")
    if given.get("group_size") is not None and all(isinstance(phase, OfGroup) for phase in phases):
        raise InvalidArgument(
            "group_size", InWords(shown(given["group_size"])), "be left out where every release has one of its own"
        )
    if given.get("adjacency") is not None and (file.removed is not None or file.added is not None):
        chosen = shown(given["adjacency"])
        raise InvalidArgument("adjacency", InWords(chosen), "be left out where removed or added is given")
    described = [_pairs("phase", text.split(",")) for text in given.get("phases") or []] or [values]
    unnamed = [base is None and "sampling" not in one for one in described]
    asked = Asked(
        file=file,
        force=bool(given.get("force")),
        save_as=given.get("save"),
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


def _phases(
    base: RunFile | None, values: dict[str, Any], texts: list[str], assumed: Mapping[str, str]
) -> tuple[Mechanism, ...]:
    if texts:
        if values or base is not None:
            raise InvalidArgument(
                "phase", NOT_SHOWN, "describe whole phases, without a run file or other options of the run"
            )
        described = [_pairs("phase", text.split(",")) for text in texts]
        return tuple(_phase({key.replace("-", "_"): value for key, value in one.items()}) for one in described)
    if base is not None:
        if not values:
            return base.phases
        if len(base.phases) > 1:
            first = next(iter(values))
            raise InvalidArgument.saying(
                first, f"{first} can override a run file with one phase, this one has {len(base.phases)}."
            )
        values = _overridden(base.phases[0].values(), values)
    elif "mechanism" not in values and "sampling" not in values:
        values = {"sampling": assumed.get("sampling") or _meant(values), **values}
    if values.get("mechanism", DPSGD.name) != DPSGD.name:
        return (phase_of(values),)
    if not any(key in values or key in assumed for key in _LENGTHS):
        raise InvalidArgument("steps or epochs", NOT_SHOWN, "be given")
    return (phase_of({**_assumed(values, assumed), **values}),)


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
    kept = {key: value for key, value in described.items() if key in keys_of(kind) and key != "sampling"}
    if any(key in values for key in _LENGTHS):
        kept.pop("steps", None)
    if "batch_size" in values and "sampling_rate" in kept:
        kept.pop("sampling_rate")
    return {"sampling": kind, **kept, **values}


def _phase(values: Mapping[str, Any]) -> Mechanism:
    """One --phase."""
    refuse_unknown(values, known_keys(), where=" in a phase")
    return phase_of(values if "mechanism" in values else {"sampling": _meant(values), **values})


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
