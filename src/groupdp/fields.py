"""The fields that describe a sampling or a mechanism, declared once, on its class.

The command line's options, the keys of run files, the page's form and the API's description are made from them.

Values are numbers, or texts that spell them ("0.01", "256/60000"). A wrong one is an `InvalidArgument` whose `name` is
the field's, so that a caller can point at a line of a file or at a field of a form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, TypeVar

from groupdp.errors import LARGEST_DATASET, InvalidArgument, InWords, require_boolean, require_integer, require_number
from groupdp.printing import given

#: Longer texts are refused as numbers.
LONGEST_NUMBER = 100

_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
#: A saved run has the ratio of a decimal that no double is: 45 digits are enough for what is typed.
_RATIO = re.compile(r"(\d{1,45})\s*/\s*(\d{1,45})", re.ASCII)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,60}", re.ASCII)
#: Names that a run file, a command or a question has already.
_OF_PHASES = ("mechanism", "sampling", "epochs")
_OF_QUESTIONS = ("delta", "epsilon", "group_size", "adjacency", "removed", "added", "title", "phase", "phases")
_OF_COMMANDS = "data save force out json as_json run run_file run_option memory help file files"
RESERVED = frozenset((*_OF_PHASES, *_OF_QUESTIONS, *_OF_COMMANDS.split()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Slider:
    """What the page's form shows first, and the ends of its slider. What may be typed is decided by the parser."""

    start: Any
    low: float = 0.0
    high: float = 1.0
    logarithmic: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field: what it is called, what it means, what is allowed, and how it is typed and dragged."""

    name: str
    """Its name in run files and questions; the option is --name, with dashes."""
    attribute: str = ""
    """The attribute of the class that it sets, where that has another name."""
    label: str = ""
    unit: str = ""
    meaning: str
    """One sentence, for the help of the option and for the page."""
    kind: Literal["number", "integer", "flag", "table"]
    """A table has a number for each source."""
    above: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    parser: Callable[[str, Any], Any] | None = None
    """Reads the value from (name, value or text); if None, its kind and range decide."""
    default: Any = None
    """The value where none is given; None if it is required."""
    ratio_of: tuple[str, str] | None = None
    """Two other fields whose ratio may be given in its place."""
    option: str = ""
    example: str = ""
    """The start of its slider, where that is a number and no other example is given."""
    slider: Slider

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidArgument("name", self.name, "be lower-case letters, digits and underscores")
        for attribute, value in (
            ("attribute", self.name),
            ("label", self.name.replace("_", " ").capitalize()),
            ("option", f"--{self.name.replace('_', '-')}"),
            ("example", given(self.slider.start) if self.kind in ("number", "integer") else ""),
        ):
            object.__setattr__(self, attribute, getattr(self, attribute) or value)

    @property
    def metavar(self) -> str:
        """What stands for its value in the help of the option."""
        return {"flag": "", "table": "NAME=NUMBER"}.get(self.kind, self.kind.upper())

    def stated(self, value: Any) -> str:
        """The field with its value: "batch size 256", "100 batches per epoch"; nothing for a flag that is not set."""
        words = self.name.replace("_", " ")
        if self.kind == "flag":
            return words if value else ""
        return f"{value!r} {words} {self.unit}" if self.unit == "per epoch" else f"{words} {value!r}"

    def read(self, value: Any) -> Any:
        """The value that `value`, a number or a text, stands for."""
        if self.parser is not None:
            return self.parser(self.name, value)
        if self.kind == "flag":
            return truth(self.name, value)
        if self.kind == "table":
            return table(self.name, value, lambda key, text: number(key, text, **self._limits))
        if self.kind == "number":
            return number(self.name, value, **self._limits)
        return integer(self.name, value, **self._whole_limits)

    def checked(self, value: Any) -> Any:
        """`value` for the attribute, if it is of the field's kind and in its range; the class checks a table itself."""
        if self.kind == "flag":
            return require_boolean(self.attribute, value)
        if self.kind == "integer":
            return require_integer(self.attribute, value, **self._whole_limits)
        return require_number(self.attribute, value, **self._limits) if self.kind == "number" else value

    @property
    def _limits(self) -> dict[str, float | None]:
        return {"above": self.above, "at_least": self.at_least, "at_most": self.at_most}

    @property
    def _whole_limits(self) -> dict[str, int]:
        return {"at_least": int(self.at_least or 0), **({} if self.at_most is None else {"at_most": int(self.at_most)})}

    def schema(self) -> dict[str, Any]:
        """Its JSON schema."""
        limits = {"exclusiveMinimum": self.above, "minimum": self.at_least, "maximum": self.at_most}
        stated = {name: limit for name, limit in limits.items() if limit is not None}
        kinds: dict[str, dict[str, Any]] = {
            "number": {"type": "number", **stated},
            "integer": {"type": "integer", **stated},
            "flag": {"type": "boolean"},
            "table": {"type": "object", "additionalProperties": {"type": "number", **stated}},
        }
        unit = f" ({self.unit})" if self.unit else ""
        return {**kinds[self.kind], "description": f"{self.label}{unit}. {self.meaning}"}

    def as_json(self) -> dict[str, Any]:
        """What the page's form shows of it."""
        return {
            "name": self.name,
            "label": self.label,
            "unit": self.unit,
            "meaning": self.meaning,
            "kind": self.kind,
            "default": self.slider.start,
            "low": self.slider.low,
            "high": self.slider.high,
            "logarithmic": self.slider.logarithmic,
            "optional": self.default is not None,
        }


Kind = TypeVar("Kind", bound=type[Any])


def add_to(registry: dict[str, Kind], kind: Kind) -> Kind:
    """`kind`, offered by its name from now on; a name or a field that already means something else is refused."""
    if registry.get(kind.name, kind) is not kind:
        raise InvalidArgument("name", kind.name, f"not be taken: {', '.join(registry)} are")
    for field in kind.fields:
        if field.name in RESERVED:
            raise InvalidArgument("field", field.name, f"not be a name that every question has: {sorted(RESERVED)}")
        for other in registry.values():
            if any(its.name == field.name and its.kind != field.kind for its in other.fields):
                raise InvalidArgument("field", field.name, f"be of the same kind as in {other.name}")
    registry[kind.name] = kind
    return kind


def exact(key: str, value: Any, *, above: float | None = None, at_least: float | None = None) -> Fraction:
    """A number exactly as it was written: a text is a decimal or a ratio, a double the decimal it prints as."""
    if isinstance(value, str):
        fraction = _exact_text(key, value)
    else:
        double = require_number(key, float(value) if isinstance(value, Decimal) else value)
        if double == 0.0:  # the exact fraction of 1e-999999999 would have a thousand million digits
            if value:
                raise InvalidArgument(key, value, "be 0 or a number that a double can hold")
            value = 0
        fraction = Fraction(value) if isinstance(value, int | Decimal | Fraction) else Fraction(repr(double))
    require_number(key, _as_double(key, fraction, value), above=above, at_least=at_least)
    return fraction


def _exact_text(key: str, text: str) -> Fraction:
    stripped = text.strip()
    if len(text) <= LONGEST_NUMBER:
        ratio = _RATIO.fullmatch(stripped)
        if ratio and int(ratio[2]) > 0:
            return Fraction(int(ratio[1]), int(ratio[2]))
        if _DECIMAL.fullmatch(stripped):
            return Fraction(stripped)
    reason = "1 % is written 0.01" if stripped.endswith("%") else ""
    raise InvalidArgument(key, text, "be a finite number", reason)


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


def probability(key: str, value: Any) -> Fraction:
    """A probability above 0, exactly as it was written."""
    rate = exact(key, value)
    if rate > 1:
        raise InvalidArgument(
            key, InWords(f"{given(float(rate))} (a percentage p is written p / 100)"), "be a probability in (0, 1]"
        )
    require_number(key, float(rate), above=0.0, at_most=1.0)
    return rate


def truth(key: str, value: Any) -> bool:
    """True or false, or a text that says which."""
    return require_boolean(key, {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value)


def table(key: str, value: Any, entry: Callable[[str, Any], Any]) -> dict[str, Any]:
    """A value for each source, each read by `entry`."""
    if not isinstance(value, Mapping):
        raise InvalidArgument(key, value, "be a table of sources with their numbers")
    return {str(source): entry(f"{key}.{source}", text) for source, text in value.items()}


def flag(name: str, meaning: str) -> Field:
    """A field that is true or false, and false where it is not given."""
    return Field(name=name, unit="", meaning=meaning, kind="flag", default=False, slider=Slider(start=False))


def count(name: str, meaning: str, slider: tuple[int, int, int], *, logarithmic: bool = True, **more: Any) -> Field:
    """A whole number of at least 1; `slider` has its start and its ends."""
    start, low, high = slider
    drawn = Slider(start=start, low=low, high=high, logarithmic=logarithmic)
    return Field(name=name, meaning=meaning, kind="integer", slider=drawn, **{"at_least": 1, **more})


def real(name: str, meaning: str, slider: tuple[float, float, float], **more: Any) -> Field:
    """A number; `slider` has its start and its ends."""
    start, low, high = slider
    return Field(name=name, meaning=meaning, kind="number", slider=Slider(start=start, low=low, high=high), **more)


#: Fields that several samplings have.
SAMPLING_RATE = real(
    "sampling_rate",
    "Probability that an example joins a batch.",
    (0.01, 1e-4, 1.0),
    attribute="rate",
    unit="probability",
    above=0.0,
    at_most=1.0,
    parser=probability,
    ratio_of=("batch_size", "dataset_size"),
    example="0.01 or 256/60000",
)
_OF_DATA: dict[str, Any] = {"unit": "examples", "at_most": LARGEST_DATASET}
BATCH_SIZE = count(
    "batch_size", "Examples in a batch (with poisson, on average).", (500, 1, 100_000), **_OF_DATA, example="256"
)
DATASET_SIZE = count(
    "dataset_size",
    "Examples in the dataset, or in the smaller of two neighbouring ones.",
    (50_000, 100, 10_000_000),
    **_OF_DATA,
    example="60000",
)
BATCHES = count(
    "batches", "How many batches an epoch has.", (100, 2, 10_000), unit="per epoch", at_most=LARGEST_DATASET
)
