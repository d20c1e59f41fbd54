"""The errors that groupdp raises, and the checks of arguments that raise them.

    GroupDPError
    ├── InvalidArgument (also a ValueError)    the input is not a run, a group or a target
    └── LimitExceeded   (also a RuntimeError)  a valid question that would need more than the stated budget

An invalid argument is one sentence, made here from its parts: the argument's name, its value and what would be right.
Code that needs to know which argument it was reads the attribute and never parses the sentence.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any, TypeVar

from groupdp.printing import given

_Error = TypeVar("_Error", bound="InvalidArgument")


class InWords(str):
    """A value that a sentence describes in words, without quotes: "several sources"."""

    __slots__ = ()


#: The value of an argument whose sentence shows none: it was not given, or the sentence says enough.
NOT_SHOWN: Any = InWords()


def shown(value: object) -> str:
    """`value` as it may stand in an error message: never longer than a line."""
    if isinstance(value, InWords):
        return str(value)
    if isinstance(value, int) and value.bit_length() > 128:  # Python refuses to print thousands of digits
        return f"about {'-' if value < 0 else ''}2^{value.bit_length() - 1}"
    try:
        text = repr(value)
    except Exception:  # a broken __repr__ must not hide the error
        text = f"an object of type {type(value).__name__}"
    if len(text) > 60:
        text = f"{text[:40]}... ({len(text)} characters)"
    return text.replace("\n", " ")


class GroupDPError(Exception):
    """The root: catch this to catch every error of groupdp."""


class InvalidArgument(GroupDPError, ValueError):
    """The input is not a valid run, group or target: `argument` must `requirement`, got `value`.

    `reason` follows the value, after a colon. `place` stands before the sentence: a file and a line.
    """

    def __init__(self, argument: str, value: object, requirement: str, reason: str = "", *, place: str = "") -> None:
        super().__init__(argument, value, requirement, reason)
        self.argument = argument
        self.value = value
        self.requirement = requirement
        self.reason = reason
        self.place = place
        self.phase: int | None = None
        """The phase of the run that the error is about, counted from 0, if known."""

    @classmethod
    def saying(cls: type[_Error], argument: str, sentence: str) -> _Error:
        """An error about an argument with a sentence of its own, where the usual form does not fit."""
        error = cls(argument, NOT_SHOWN, "")
        error.__dict__["_said"] = sentence
        return error

    @property
    def name(self) -> str:
        """The argument without its index: "group_size" of "group_size['web']"."""
        return self.argument.partition("[")[0].partition(".")[0]

    @property
    def sentence(self) -> str:
        """The sentence without the place."""
        if "_said" in self.__dict__:
            return str(self.__dict__["_said"])
        got = "" if self.value is NOT_SHOWN else f", got {shown(self.value)}"
        reason = f": {self.reason}" if self.reason else ""
        end = "" if f"{self.requirement}{got}{reason}".endswith(("?", ".")) else "."
        return f"{self.argument} must {self.requirement}{got}{reason}{end}"

    def __str__(self) -> str:
        return f"{self.place}: {self.sentence}" if self.place else self.sentence

    def about(self: _Error, argument: str) -> _Error:
        """The same error about an argument that its caller knows by another name."""
        return self._with(argument=argument)

    def at(self: _Error, place: str) -> _Error:
        """The same error, with its file and line."""
        return self._with(place=place)

    def _with(self: _Error, **parts: str) -> _Error:
        copy: _Error = type(self).__new__(type(self))
        copy.args = self.args
        copy.__dict__.update(self.__dict__, **parts)
        return copy

    def __reduce__(self) -> tuple[Any, ...]:
        parts = {**self.__dict__, "value": NOT_SHOWN if self.value is NOT_SHOWN else InWords(shown(self.value))}
        return _restored, (type(self), parts)


def _restored(kind: type[InvalidArgument], parts: dict[str, Any]) -> InvalidArgument:
    """An error from another process: its value is the text that the sentence showed."""
    error = kind.__new__(kind)
    if parts["value"] == "":
        parts["value"] = NOT_SHOWN
    error.__dict__.update(parts)
    return error


class LimitExceeded(GroupDPError, RuntimeError):
    """The question is valid, but answering it would exceed a stated limit of time or memory."""


#: Counts beyond this are refused: doubles no longer hold every integer.
LARGEST_COUNT = 2**53
#: Largest dataset size accepted.
LARGEST_DATASET = 10**15


def require_number(
    name: str,
    value: Any,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
) -> float:
    """`value` as a finite float in the stated range; booleans, strings, NaN and infinities are refused."""
    number = math.nan
    if type(value) is float:
        number = value
    elif _is_number(value):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
    inside = (
        math.isfinite(number)
        and (at_least is None or number >= at_least)
        and (above is None or number > above)
        and (at_most is None or number <= at_most)
        and (below is None or number < below)
    )
    if not inside:
        limits = {"of at least": at_least, "above": above, "of at most": at_most, "below": below}
        raise InvalidArgument(name, value, f"be {_wanted(value, limits)}")
    return number


def _is_number(value: Any) -> bool:
    """Whether `value` is a float, an integer, a Fraction or one of NumPy's; booleans and Decimals are not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _wanted(value: Any, limits: Mapping[str, float | None]) -> str:
    """What would be right in place of a number outside of the limits, or of a value that is not a number."""
    said = {words: given(limit) for words, limit in limits.items() if limit is not None}
    interval = ""
    if len(said) > 1:
        low, high = said.values()
        interval = f"in {'[' if 'of at least' in said else '('}{low}, {high}{']' if 'of at most' in said else ')'}"
    one_sided = "".join(f" {words} {limit}" for words, limit in said.items())
    if _is_number(value):
        return interval or f"a finite number{one_sided}"
    noun = f"a number ({'not a text' if isinstance(value, str) else 'a float, an int or a Fraction'})"
    return f"{noun} {interval}" if interval else f"{noun}{one_sided}"


def require_integer(name: str, value: Any, *, at_least: int, at_most: int = LARGEST_COUNT) -> int:
    """`value` as an int in [at_least, at_most]; booleans and floats (even 3.0) are refused."""
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, numbers.Integral)):
        raise InvalidArgument(name, value, f"be an integer of at least {at_least}")
    number = int(value)
    if number < at_least:
        raise InvalidArgument(name, number, f"be an integer of at least {at_least}")
    if number > at_most:
        raise InvalidArgument(name, number, f"be an integer of at most {at_most}")
    return number


def require_boolean(name: str, value: Any) -> bool:
    """`value` if it is True or False."""
    if not isinstance(value, bool):
        raise InvalidArgument(name, value, "be true or false")
    return value


def require_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """`value` if it is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidArgument(name, value, f"be one of {', '.join(choices)}")
    return value


def require_line(name: str, value: Any) -> str:
    """`value` without spaces at its ends, if it is one line of text."""
    if not isinstance(value, str) or not value.strip() or len(value) > 200 or not value.isprintable():
        raise InvalidArgument(name, value, "be one line of at most 200 characters")
    return value.strip()
