"""The errors that groupdp raises.

    GroupDPError
    ├── InvalidArgument (also a ValueError)    the input is not a run, a group or a target
    └── LimitExceeded   (also a RuntimeError)  a valid question that would need more than the stated budget

An invalid argument is one sentence, made here from its parts: the argument's name, its value and what would be right.
Code that needs to know which argument it was reads the attribute and never parses the sentence.
"""

from __future__ import annotations

from typing import Any, TypeVar

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
    """The input does not describe a run, a group or a target: `argument` must `requirement`, got `value`.

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
        """The phase of a run that it is about, counted from 0, where that is known."""

    @classmethod
    def saying(cls: type[_Error], argument: str, sentence: str) -> _Error:
        """An error about an argument with a sentence of its own, where the usual form does not fit."""
        error = cls(argument, NOT_SHOWN, "")
        error.__dict__["_said"] = sentence
        return error

    @property
    def name(self) -> str:
        """The argument without what it is indexed by: "group_size" of "group_size['web']"."""
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
        """The same error, with the file and the line that it is about."""
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
    """From another process: the value is what its sentence showed."""
    error = kind.__new__(kind)
    if parts["value"] == "":
        parts["value"] = NOT_SHOWN
    error.__dict__.update(parts)
    return error


class LimitExceeded(GroupDPError, RuntimeError):
    """The question is valid, but answering it would exceed a stated limit of time or memory."""
