"""One phase from named values, wherever they come from: a run file, the command line, a request.

A phase has the fields of its mechanism; DP-SGD, which is meant where no mechanism is named, has those of its sampling
as well. Whatever is wrong is an `InvalidArgument` whose `name` is the key it is about.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar

from groupdp.errors import NOT_SHOWN, InvalidArgument, require_choice, shown
from groupdp.fields import BATCH_SIZE, DATASET_SIZE, Field, integer
from groupdp.mechanisms import MECHANISMS
from groupdp.mechanisms.dpsgd import DPSGD, EPOCHS, steps_of_epochs
from groupdp.mechanisms.mechanism import Mechanism
from groupdp.mechanisms.wrappers import FIELDS, OfGroup, Search
from groupdp.samplings import SAMPLINGS, Sampling

#: The key of a phase in which a person has another number of examples.
GROUP_SIZE = "group_size"
#: What is required of a key that is missing.
GIVEN = "be given"
#: Fields that a ratio is given by.
_SIZES = {field.name: field for field in (BATCH_SIZE, DATASET_SIZE)}

_Made = TypeVar("_Made", Mechanism, Sampling)


def phase_of(values: Mapping[str, Any]) -> Mechanism:
    """The phase that the values describe: the fields of the mechanism named, or those of DP-SGD and its sampling.

    With a `group_size` a person has another number of examples in this phase than in the others; with one of the
    keys of a search it is run several times.
    """
    if GROUP_SIZE in values:
        others = {key: value for key, value in values.items() if key != GROUP_SIZE}
        size = values[GROUP_SIZE]
        sizes = dict(size) if isinstance(size, Mapping) else integer(GROUP_SIZE, size, at_least=0)
        return OfGroup.of(phase_of(others), sizes)
    searches = [(law, field) for law, field in FIELDS.items() if field.name in values]
    if searches:
        if len(searches) > 1:
            names = " and ".join(field.name for _, field in searches)
            raise InvalidArgument(searches[1][1].name, NOT_SHOWN, f"be the only number of runs, not {names}")
        law, field = searches[0]
        others = {key: value for key, value in values.items() if key != field.name}
        return Search(phase_of(others), field.read(values[field.name]), law)
    name = values.get("mechanism", DPSGD.name)
    kind = MECHANISMS[require_choice("mechanism", name, tuple(MECHANISMS))]
    if kind is DPSGD:
        return training_of(values)
    refuse_unknown(values, ("mechanism", *(field.name for field in kind.fields)), where=_in_phase(kind.name))
    return _made(kind, {field.name: _checked(field, values) for field in kind.fields})


def training_of(values: Mapping[str, Any]) -> DPSGD:
    """The phase of DP-SGD that the values describe; `sampling` is its name, the others are `keys_of(sampling)`.

    A sampling rate may be given as batch_size and dataset_size: each example with probability batch_size /
    dataset_size.
    """
    if "sampling" not in values:
        refuse_unknown(values, known_keys(), where=" in a phase")
        raise InvalidArgument("sampling", NOT_SHOWN, GIVEN)
    kind = require_choice("sampling", values["sampling"], tuple(SAMPLINGS))
    refuse_unknown(values, keys_of(kind), where=_in_phase(kind))
    sampling, share = _sampling(SAMPLINGS[kind], values)
    others = {field.name: _checked(field, values) for field in DPSGD.fields if field.name != "steps"}
    return DPSGD(sampling, steps=_steps(values, share), **others)


def with_sampling(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values with the sampling that they imply, if they name none; unchanged if several are possible."""
    if "sampling" in values or "mechanism" in values:
        return values
    meant = [kind for kind in SAMPLINGS.values() if kind.meant_by in values]
    if not meant:
        return values
    return {"sampling": max(meant, key=lambda kind: len(kind.fields)).name, **values}


def samplings_with(keys: Iterable[str]) -> tuple[str, ...]:
    """The samplings that take all of these keys."""
    wanted = set(keys)
    return tuple(kind for kind in SAMPLINGS if wanted <= set(keys_of(kind)))


def _in_phase(kind: str) -> str:
    return f" in {'an' if kind[0] in 'aeiou' else 'a'} {kind} phase"


def refuse_unknown(values: Mapping[str, Any], allowed: Sequence[str], *, where: str = "") -> None:
    """Refuse a key that is not allowed, and name the nearest one that is."""
    for key in values:
        if key not in allowed:
            near = [] if key in known_keys() else difflib.get_close_matches(key, allowed, n=1, cutoff=0.7)
            meant = f" (did you mean {near[0]}?)" if near else ""
            sentence = f"{shown(key)} is not a known key{where}{meant}: {', '.join(allowed)} are."
            raise InvalidArgument.saying(key, sentence)


def keys_of(kind: str) -> tuple[str, ...]:
    """The keys that a phase of DP-SGD with this sampling may have."""
    fields = SAMPLINGS[kind].fields
    ratios = (name for field in fields for name in field.ratio_of or ())
    return tuple(
        dict.fromkeys(("sampling", *_training_fields(), *(field.name for field in fields), *ratios, "mechanism"))
    )


def known_keys() -> tuple[str, ...]:
    """Every key that some phase may have."""
    return tuple(dict.fromkeys(("mechanism", "sampling", *phase_fields(), GROUP_SIZE)))


def phase_fields() -> dict[str, Field]:
    """Every field that some phase may have, by its name: of samplings, of DP-SGD, of other mechanisms."""
    of_samplings = [field for kind in SAMPLINGS.values() for field in kind.fields]
    of_mechanisms = [field for kind in MECHANISMS.values() for field in kind.fields]
    fields: dict[str, Field] = {}
    for field in (*of_samplings, *_training_fields().values(), *of_mechanisms, *FIELDS.values()):
        fields.setdefault(field.name, field)
    return fields


def _training_fields() -> dict[str, Field]:
    """The fields of DP-SGD without its sampling's, epochs beside steps."""
    fields = {}
    for field in DPSGD.fields:
        fields[field.name] = field
        if field.name == "steps":
            fields[EPOCHS.name] = EPOCHS
    return fields


def _sampling(kind: type[Sampling], values: Mapping[str, Any]) -> tuple[Sampling, Callable[[], Fraction]]:
    """The sampling, and the share of the data that a step visits, exactly as it was written."""
    checked: dict[str, Any] = {}
    share: Fraction | None = None
    for field in kind.fields:
        if field.ratio_of is None:
            checked[field.name] = _checked(field, values)
        else:
            share = _rate(field, values, own={other.name for other in kind.fields})
            checked[field.name] = float(share)
    sampling = _made(kind, checked)
    return sampling, (sampling.share_of_data if share is None else lambda: share)


def _made(kind: type[_Made], values: dict[str, Any]) -> _Made:
    """A sampling or mechanism from the values of its fields; a refusal names the field, not the attribute."""
    names = {field.attribute: field.name for field in kind.fields}
    try:
        return kind(**{field.attribute: values[field.name] for field in kind.fields})
    except InvalidArgument as error:
        raise error.about(names.get(error.name, error.name) + error.argument.removeprefix(error.name)) from None


def _rate(field: Field, values: Mapping[str, Any], *, own: set[str]) -> Fraction:
    """A rate, or the ratio of two sizes in its place."""
    numerator, denominator = field.ratio_of or ("", "")
    if field.name in values:
        other = next((size for size in (numerator, denominator) if size in values and size not in own), None)
        if other is not None:
            raise InvalidArgument(other, NOT_SHOWN, f"not be given together with {field.name}")
        rate: Fraction = field.read(values[field.name])
        return rate
    if numerator not in values:
        raise InvalidArgument(field.name, NOT_SHOWN, f"be given, or {numerator} and {denominator} instead")
    batch, dataset = (_checked(_SIZES[size], values) for size in (numerator, denominator))
    if batch > dataset:
        raise InvalidArgument(numerator, batch, f"be at most {denominator}={dataset}")
    return Fraction(batch, dataset)


def _steps(values: Mapping[str, Any], share: Callable[[], Fraction]) -> int:
    if "steps" in values and EPOCHS.name in values:
        raise InvalidArgument(EPOCHS.name, NOT_SHOWN, "not be given together with steps")
    if EPOCHS.name in values:
        return steps_of_epochs(EPOCHS.read(values[EPOCHS.name]), share())
    steps: int = _checked(_training_fields()["steps"], values)
    return steps


def _checked(field: Field, values: Mapping[str, Any]) -> Any:
    if field.name in values:
        return field.read(values[field.name])
    if field.default is None:
        raise InvalidArgument(field.name, NOT_SHOWN, GIVEN)
    return field.default
