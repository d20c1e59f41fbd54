"""A run as a TOML file that `read_run_file` reads back as the same run, and remarks on a question that says little."""

from __future__ import annotations

import os
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from groupdp.fields import exact
from groupdp.groups import in_words
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.mechanisms.mechanism import Mechanism
from groupdp.mechanisms.named_values import phase_of
from groupdp.mechanisms.of_group import OfGroup
from groupdp.neighbours import ADJACENCIES
from groupdp.question import unit_of
from groupdp.run_file.run import RunFile

#: What a sampling rate may have been given by.
_SIZES = ((("sampling_rate",), "sampling_rate"), (("batch_size", "dataset_size"), "sampling_rate"))


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
    found = phase.stated()
    if len(file.written) != len(file.phases) or isinstance(phase, OfGroup) or not isinstance(phase, DPSGD):
        return found
    given = file.written[index]
    for keys, instead in (*_SIZES, (("epochs",), "steps")):
        if instead in found and all(key in given for key in keys):
            values = {key: _number(given[key]) for key in keys}
            trial: dict[str, Any] = {}
            for key, value in found.items():  # in the place of what they are given instead of
                trial |= values if key == instead else {key: value}
            if phase_of(trial) == phase:
                found = trial
    return found


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
    sizes = f"batches of {said['batch_size']} of {said['dataset_size']} {what} on average"
    return text.replace(f"sampling_rate = {rate!r}", sizes)


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
        return "{ " + ", ".join(f"{_text(str(key))} = {_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, str):
        return _text(value)
    return repr(value)


def _text(value: str) -> str:
    """A basic string: quotes, backslashes and control characters escaped."""
    escaped = "".join(
        f"\\{one}" if one in '"\\' else f"\\u{ord(one):04x}" if ord(one) < 32 or ord(one) == 127 else one
        for one in value
    )
    return f'"{escaped}"'


def remarks_on(run: RunFile, *, group: bool = True) -> list[str]:
    """Remarks on a run and, with `group`, on the group that it is asked about."""
    found = []
    if all(phase.releases == 0 for phase in run.phases):
        found.append("Note: with 0 steps nothing is released about the data.")
    one_group = run.removed is None and run.added is None
    groups = [1 if run.group_size is None else run.group_size] if one_group else [run.removed, run.added]
    if group and not any(map(_counts, groups)):
        found.append("Note: a group of size 0 changes nothing; a person has at least 1 example.")
    if run.adjacency_open and run.adjacency != ADJACENCIES[0]:
        found.append(
            f"Note: no adjacency was given; {run.adjacency} is used, because this sampling has a bound for it."
        )
    if group and (uncovered := run.uncovered) is not None:
        key, size, requirement = uncovered
        found.append(f"Note: this does not cover everybody: {key} is {size}, and must {requirement}.")
    largest = 0 if run.data is None or unit_of(run.phases) == "person" else run.data.largest
    if group and run.data is not None and isinstance(run.group_size, int) and run.group_size > largest > 0:
        found.append(
            f"Note: group_size is {run.group_size}, and nobody has more than {in_words(largest)} in {run.data.file}: "
            f"--group-size {largest} covers everybody."
        )
    if run.data is not None and not run.data.checked:
        found.append(f"Note: {run.data.file} is not beside its manifest, so its digest was not checked.")
    return found


def _counts(size: Any) -> bool:
    return any(size.values()) if isinstance(size, Mapping) else bool(size)
