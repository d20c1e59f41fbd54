"""A question in JSON, as the library's objects; the names are those of run files (docs/statement.md).

Numbers arrive as exact decimals, so that epochs are counted without rounding. Whatever is wrong gets the library's
sentence, and with it the field, and the phase counted from 0, it is about.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import groupdp
from groupdp._validation import require_choice, require_integer, require_number, shown
from groupdp.dpsgd import DPSGD
from groupdp.epochs import steps_of_epochs
from groupdp.errors import InvalidArgument
from groupdp.web.fields import FIELDS, MOST_PHASES, SAMPLINGS, SamplingChoice

_COMMON = ("sampling", "noise_multiplier", "steps", "epochs", "microbatch_size")


class InvalidField(InvalidArgument):
    """An invalid argument that says which field of a form it is about."""

    def __init__(self, sentence: str, field: str | None = None, phase: int | None = None) -> None:
        super().__init__(sentence)
        self.field = field
        self.phase = phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A run and whom it is asked about."""

    phases: tuple[DPSGD, ...]
    document: Mapping[str, Any]
    """The question as it came, for what else is in it."""

    @property
    def run(self) -> DPSGD | list[DPSGD]:
        """What the library's functions take."""
        return self.phases[0] if len(self.phases) == 1 else list(self.phases)

    @property
    def neighbour(self) -> dict[str, Any]:
        """The arguments that say whom the guarantee is about."""
        return {**self.group, "adjacency": self.adjacency}

    @property
    def group(self) -> dict[str, Any]:
        """The group's size."""
        if "group_size" not in self.document:
            raise InvalidField("group_size must be given: how many examples may one person have?", "group_size")
        size = self.document["group_size"]
        if isinstance(size, Mapping):
            return {"group_size": {str(name): plain(count) for name, count in size.items()}}
        return {"group_size": require_integer("group_size", plain(size), at_least=1)}

    @property
    def adjacency(self) -> str:
        """The adjacency's name."""
        from groupdp.guarantees import ADJACENCIES

        return require_choice("adjacency", self.document.get("adjacency", "add-or-remove"), tuple(ADJACENCIES))

    def number(self, name: str, **limits: float | None) -> float:
        """A number of the question that must be given."""
        if name not in self.document:
            raise InvalidField(f"{name} must be given.", name)
        return require_number(name, plain(self.document[name]), **limits)

    @property
    def delta(self) -> float:
        """The target delta."""
        return self.number("delta", above=0.0, below=1.0)


def read_json(body: bytes) -> dict[str, Any]:
    """The JSON object in a request's body, its decimals exact."""
    try:
        document = json.loads(body, parse_float=_decimal, parse_constant=_no_constant)
    except (ValueError, ArithmeticError, RecursionError):
        raise InvalidField("body must be a JSON object, and is not.") from None
    if not isinstance(document, dict):
        raise InvalidField(f"body must be a JSON object, got {shown(document)}.")
    return document


def read_question(document: Mapping[str, Any], *, also: Sequence[str] = ()) -> Question:
    """The run that a question describes; `also` are the fields it may have besides the usual ones."""
    allowed = ("phases", "group_size", "adjacency", "delta", *also)
    _refuse_unknown(document, allowed, None)
    phases = document.get("phases")
    if not isinstance(phases, list) or not phases or not all(isinstance(phase, dict) for phase in phases):
        raise InvalidField(f"phases must be a list of one object or more, got {shown(phases)}.", "phases")
    if len(phases) > MOST_PHASES:
        raise InvalidField(f"phases must be at most {MOST_PHASES}, got {len(phases)}.", "phases")
    return Question(phases=tuple(_phase(phase, index) for index, phase in enumerate(phases)), document=document)


def plain(value: Any) -> Any:
    """A value of the document as the library takes it: exact decimals become doubles."""
    if isinstance(value, Decimal):
        return float(value)
    return value


def field_of(error: InvalidArgument) -> str | None:
    """The field that a sentence of the library begins with, under its name in forms."""
    if isinstance(error, InvalidField):
        return error.field
    word = str(error).partition(" ")[0]
    names = {"rate": "sampling_rate", "rates": "sampling_rates"}
    word = names.get(word, word)
    return word if word in FIELDS or word in ("sampling", "adjacency", "phases", "counts", "column") else None


def _phase(table: Mapping[str, Any], index: int) -> DPSGD:
    try:
        choice = SAMPLINGS[require_choice("sampling", table.get("sampling"), tuple(SAMPLINGS))]
        _refuse_unknown(table, (*_COMMON, *choice.arguments), index, of=f" of a {choice.name} phase")
        sampling = _sampling(choice, table)
        for name in ("noise_multiplier",):
            _require_given(table, name)
        return DPSGD(
            sampling=sampling,
            noise_multiplier=plain(table["noise_multiplier"]),
            steps=_steps(table, sampling),
            microbatch_size=plain(table.get("microbatch_size", 1)),
        )
    except InvalidArgument as error:
        sentence = str(error)
        if sentence.startswith(("rate ", "rates ")):
            sentence = f"sampling_{sentence}"
        raise InvalidField(sentence, field_of(error), index) from None


def _sampling(choice: SamplingChoice, table: Mapping[str, Any]) -> Any:
    arguments: dict[str, Any] = {}
    for name, argument in choice.arguments.items():
        if FIELDS[name].kind == "flag":
            arguments[argument] = _flag(name, table.get(name, False))
            continue
        _require_given(table, name)
        value = table[name]
        if isinstance(value, Mapping):
            value = {str(key): plain(item) for key, item in value.items()}
        arguments[argument] = plain(value)
    return getattr(groupdp, choice.class_name)(**arguments)


def _steps(table: Mapping[str, Any], sampling: Any) -> int:
    if ("steps" in table) == ("epochs" in table):
        raise InvalidField("steps or epochs must be given, and not both.", "steps")
    if "steps" in table:
        return require_integer("steps", plain(table["steps"]), at_least=0)
    epochs = table["epochs"]
    require_number("epochs", plain(epochs), above=0.0)
    return steps_of_epochs(Fraction(epochs), _fraction_of_data(table, sampling))


def _fraction_of_data(table: Mapping[str, Any], sampling: Any) -> Fraction:
    """What part of the data one round visits, exactly as it was written."""
    if "sampling_rate" in table:
        return Fraction(table["sampling_rate"])
    if "batch_size" in table:
        return Fraction(sampling.batch_size, sampling.dataset_size)
    if "batches" in table:
        return Fraction(1, sampling.batches)
    raise InvalidField("steps must be given instead of epochs: sources have no common epoch.", "steps")


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidField(f"{name} must be true or false, got {shown(value)}.", name)
    return value


def _require_given(table: Mapping[str, Any], name: str) -> None:
    if name not in table:
        raise InvalidField(f"{name} must be given.", name)


def _refuse_unknown(table: Mapping[str, Any], allowed: Sequence[str], phase: int | None, of: str = "") -> None:
    for name in table:
        if name not in allowed:
            raise InvalidField(f"{shown(name)} is not a known field{of}: {', '.join(allowed)} are.", None, phase)


def _decimal(text: str) -> Decimal:
    return Decimal(text)


def _no_constant(text: str) -> Any:
    raise ValueError(text)
