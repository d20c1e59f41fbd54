"""One phase from named values, wherever they come from: a run file, the command line, a request.

Values are numbers, or texts that spell them ("0.01", "256/60000"). Whatever is wrong is an
`InvalidArgument` whose `name` is the key it is about, so that a caller can point at a line or at a field.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from groupdp._validation import LARGEST_DATASET, require_boolean, require_choice, require_integer, require_number, shown
from groupdp.epochs import steps_of_epochs
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.printing import given
from groupdp.samplings import SAMPLINGS, Sampling

#: Keys of every phase, whatever its sampling.
COMMON_KEYS = ("sampling", "noise_multiplier", "steps", "epochs", "microbatch_size")
#: What is required of a key that is missing.
GIVEN = "be given"
#: Longer texts are not numbers anybody means.
LONGEST_NUMBER = 100

_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_RATIO = re.compile(r"(\d{1,18})\s*/\s*(\d{1,18})", re.ASCII)


def phase_of(values: Mapping[str, Any]) -> DPSGD:
    """The phase that the values describe; `sampling` is its name, the other keys are those of `keys_of(sampling)`.

    Poisson sampling may be given by batch_size and dataset_size in place of a rate: each example with probability
    batch_size / dataset_size.
    """
    if "sampling" not in values:
        refuse_unknown(values, KNOWN_KEYS, where=" in a phase")
    kind = _checked("sampling", values, lambda key, value: require_choice(key, value, tuple(SAMPLINGS)))
    refuse_unknown(values, keys_of(kind), where=f" in a {kind} phase")
    sampling, share = _sampling(kind, values)
    noise = _checked("noise_multiplier", values, number)
    microbatch = _checked("microbatch_size", values, lambda key, value: integer(key, value, at_least=1), default=1)
    steps = _steps(values, share)
    return DPSGD(sampling, noise_multiplier=noise, steps=steps, microbatch_size=microbatch)


def with_sampling(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values with the sampling that they can only mean, where they name none; as they are where several can be."""
    if "sampling" in values:
        return values
    kind = next((kind for key, kind in _MEANT.items() if key in values), None)
    return values if kind is None else {"sampling": kind, **values}


def samplings_with(keys: Iterable[str]) -> tuple[str, ...]:
    """The samplings that take all of these keys."""
    wanted = set(keys)
    return tuple(kind for kind in SAMPLINGS if wanted <= set(keys_of(kind)))


def refuse_unknown(values: Mapping[str, Any], allowed: Sequence[str], *, where: str = "") -> None:
    """Refuses a key that is not allowed, and names the nearest one that is."""
    for key in values:
        if key not in allowed:
            near = [] if key in KNOWN_KEYS else difflib.get_close_matches(key, allowed, n=1, cutoff=0.7)
            meant = f" (did you mean {near[0]}?)" if near else ""
            sentence = f"{shown(key)} is not a known key{where}{meant}: {', '.join(allowed)} are."
            raise InvalidArgument.saying(key, sentence)


def keys_of(kind: str) -> tuple[str, ...]:
    """The keys that a phase with this sampling may have."""
    fields = tuple(SAMPLINGS[kind].fields)
    if "sampling_rate" in fields:
        fields = (*fields, *(key for key in ("batch_size", "dataset_size") if key not in fields))
    return (*COMMON_KEYS, *fields)


#: Every key that some phase may have.
KNOWN_KEYS = tuple(dict.fromkeys((*COMMON_KEYS, *(key for kind in SAMPLINGS for key in keys_of(kind)))))
#: Keys that only one sampling can be meant by, if they are looked for in this order.
_MEANT = {
    "largest_batch": "truncated-poisson",
    "sampling_rate": "poisson",
    "sampling_rates": "poisson-sources",
    "participations": "allocation",
    "batches": "balls-in-bins",
}


def _sampling(kind: str, values: Mapping[str, Any]) -> tuple[Sampling, Callable[[], Fraction]]:
    """The sampling, and the share of the data that a step visits, exactly as it was written."""
    chosen = SAMPLINGS[kind]
    attributes: dict[str, Any] = {}
    share: Fraction | None = None
    for key, attribute in chosen.fields.items():
        if key == "sampling_rate":
            share = _rate(values, needs_dataset="dataset_size" in chosen.fields)
            attributes[attribute] = float(share)
        else:
            attributes[attribute] = _checked(key, values, _READERS[key], default=_DEFAULTS.get(key))
    try:
        sampling = chosen(**attributes)
    except InvalidArgument as error:
        keys = {attribute: key for key, attribute in chosen.fields.items()}
        raise error.about(keys.get(error.name, error.name) + error.argument.removeprefix(error.name)) from None
    return sampling, (sampling.share_of_data if share is None else lambda: share)


def _rate(values: Mapping[str, Any], *, needs_dataset: bool) -> Fraction:
    if "sampling_rate" in values:
        if "batch_size" in values or ("dataset_size" in values and not needs_dataset):
            other = "batch_size" if "batch_size" in values else "dataset_size"
            raise InvalidArgument(other, NOT_SHOWN, "not be given together with sampling_rate")
        rate: Fraction = _checked("sampling_rate", values, _probability)
        return rate
    if "batch_size" not in values:
        raise InvalidArgument("sampling_rate", NOT_SHOWN, "be given, or batch_size and dataset_size instead")
    batch = _checked("batch_size", values, _READERS["batch_size"])
    dataset = _checked("dataset_size", values, _READERS["dataset_size"])
    if batch > dataset:
        raise InvalidArgument("batch_size", batch, f"be at most dataset_size={dataset}")
    return Fraction(batch, dataset)


def _steps(values: Mapping[str, Any], share: Callable[[], Fraction]) -> int:
    if "steps" in values and "epochs" in values:
        raise InvalidArgument("epochs", NOT_SHOWN, "not be given together with steps")
    if "epochs" not in values:
        steps: int = _checked("steps", values, lambda key, value: integer(key, value, at_least=0))
        return steps
    epochs = _checked("epochs", values, lambda key, value: exact(key, value, at_least=0.0))
    return steps_of_epochs(epochs, share())


def _checked(key: str, values: Mapping[str, Any], check: Callable[[str, Any], Any], default: Any = None) -> Any:
    if key not in values:
        if default is not None:
            return default
        raise InvalidArgument(key, NOT_SHOWN, GIVEN)
    return check(key, values[key])


def exact(key: str, value: Any, *, above: float | None = None, at_least: float | None = None) -> Fraction:
    """A number exactly as it was written: a text is a decimal or a ratio, a double the decimal it prints as."""
    if isinstance(value, str):
        found = _exact_text(key, value)
    else:
        double = require_number(key, float(value) if isinstance(value, Decimal) else value)
        if double == 0.0:  # exactly, 1e-999999999 would have a denominator of a thousand million digits
            if value:
                raise InvalidArgument(key, value, "be 0 or a number that a double can hold")
            value = 0
        found = Fraction(value) if isinstance(value, int | Decimal | Fraction) else Fraction(repr(double))
    require_number(key, _as_double(key, found, value), above=above, at_least=at_least)
    return found


def _exact_text(key: str, text: str) -> Fraction:
    stripped = text.strip()
    if len(text) <= LONGEST_NUMBER:
        ratio = _RATIO.fullmatch(stripped)
        if ratio and int(ratio[2]) > 0:
            return Fraction(int(ratio[1]), int(ratio[2]))
        if _DECIMAL.fullmatch(stripped):
            return Fraction(stripped)
    raise InvalidArgument(key, text, "be a finite number")


def _as_double(key: str, number: Fraction, value: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        raise InvalidArgument(key, value, "be a finite number") from None


def number(key: str, value: Any, **limits: float | None) -> float:
    """A double, from a number or a text that spells one."""
    if isinstance(value, str):
        return require_number(key, _as_double(key, _exact_text(key, value), value), **limits)
    return require_number(key, float(value) if isinstance(value, Decimal) else value, **limits)


def integer(key: str, value: Any, *, at_least: int, **limits: int) -> int:
    """An integer, or a text that spells one."""
    if isinstance(value, str):
        stripped = value.strip()
        if len(value) > LONGEST_NUMBER or not re.fullmatch(r"[+-]?\d+", stripped, re.ASCII):
            raise InvalidArgument(key, value, f"be an integer of at least {at_least}")
        value = int(stripped)
    if isinstance(value, Decimal):
        value = float(value)
    return require_integer(key, value, at_least=at_least, **limits)


def _probability(key: str, value: Any) -> Fraction:
    rate = exact(key, value)
    if rate > 1:
        raise InvalidArgument(
            key, InWords(f"{given(float(rate))} (a percentage p is written p / 100)"), "be a probability in (0, 1]"
        )
    require_number(key, float(rate), above=0.0, at_most=1.0)
    return rate


def _size(key: str, value: Any) -> int:
    return integer(key, value, at_least=1, at_most=LARGEST_DATASET)


def _truth(key: str, value: Any) -> bool:
    return require_boolean(key, {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value)


def _rates(key: str, value: Any) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise InvalidArgument(key, value, "be a table of sources with their rates")
    return {str(source): float(_probability(f"{key}.{source}", rate)) for source, rate in value.items()}


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "batch_size": _size,
    "dataset_size": _size,
    "largest_batch": _size,
    "batches": _size,
    "participations": _size,
    "one_per_batch": _truth,
    "sampling_rates": _rates,
}
_DEFAULTS: dict[str, Any] = {"one_per_batch": False}
