"""A question in JSON, as the library's objects: phases are read as in run files, the rest here.

Numbers arrive as exact decimals, so that epochs are counted without rounding. Whatever is wrong gets the library's
sentence, and with it the field, and the phase counted from 0, it is about.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from groupdp._validation import require_choice, require_integer, require_number, shown
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.mechanisms.mechanism import Mechanism, mechanisms_of
from groupdp.mechanisms.named_values import phase_of
from groupdp.neighbours import ADJACENCIES
from groupdp.question import sources_of
from groupdp.web.fields import MOST_PHASES, fields

#: What says whom the guarantee is about.
NEIGHBOUR = ("group_size", "removed", "added", "adjacency")
#: Fields of the page besides those of a run and its question.
_OTHER_FIELDS = ("mechanism", "sampling", "adjacency", "phases", "counts", "column", "title", "group_sizes")
#: Arguments that come from one field.
_FIELDS_OF = {"csv": "counts", "tally": "counts", "csv or tally": "counts"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A run and whom it is asked about."""

    phases: tuple[Mechanism, ...]
    document: Mapping[str, Any]
    """The question as it came, for what else is in it."""

    @property
    def run(self) -> Any:
        """What the library's functions take."""
        return self.phases[0] if len(self.phases) == 1 else list(self.phases)

    @property
    def training(self) -> tuple[DPSGD, ...]:
        """The phases of DP-SGD."""
        return tuple(phase for phase in self.phases if isinstance(phase, DPSGD))

    @property
    def neighbour(self) -> dict[str, Any]:
        """The arguments that say whom the guarantee is about."""
        return {**self.group, "adjacency": self.adjacency}

    @property
    def group(self) -> dict[str, Any]:
        """The group's size, or how many are removed and added instead."""
        given = {name: plain(self.document[name]) for name in NEIGHBOUR[:3] if name in self.document}
        if not given:
            raise InvalidArgument("group_size", NOT_SHOWN, "be given: how many examples may one person have?")
        if isinstance(given.get("group_size"), int):
            require_integer("group_size", given["group_size"], at_least=1)
        return given

    @property
    def has_one_size(self) -> bool:
        """Whether a group is one number of examples, so that there is a curve over it."""
        return sources_of(self.phases) is None and "removed" not in self.document

    @property
    def adjacency(self) -> str:
        """The adjacency's name."""
        return require_choice("adjacency", self.document.get("adjacency", ADJACENCIES[0]), ADJACENCIES)

    def number(self, name: str, **limits: float | None) -> float:
        """A number of the question that must be given."""
        if name not in self.document:
            raise InvalidArgument(name, NOT_SHOWN, "be given")
        return require_number(name, plain(self.document[name]), **limits)

    @property
    def delta(self) -> float:
        """The target delta."""
        return self.number("delta", above=0.0, below=1.0)


def read_json(body: bytes) -> dict[str, Any]:
    """The JSON object in a request's body, its decimals exact."""
    try:
        document = json.loads(body, parse_float=Decimal, parse_constant=_no_constant, object_pairs_hook=_object)
    except InvalidArgument:
        raise
    except (ValueError, ArithmeticError, RecursionError):
        raise InvalidArgument("body", NOT_SHOWN, "be a JSON object, and is not") from None
    if not isinstance(document, dict):
        raise InvalidArgument("body", plain(document), "be a JSON object")
    return document


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, whose names must differ: of two values one would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidArgument(twice, InWords(f"it {names.count(twice)} times"), "be given once in an object")
    return found


def read_question(document: Mapping[str, Any], *, also: Sequence[str] = ()) -> Question:
    """The run that a question describes; `also` are the fields it may have besides the usual ones."""
    allowed = ("phases", *NEIGHBOUR, "delta", *also)
    for name in document:
        if name not in allowed:
            raise InvalidArgument.saying("", f"{shown(name)} is not a known field: {', '.join(allowed)} are.")
    phases = document.get("phases")
    if not isinstance(phases, list) or not phases or not all(isinstance(phase, dict) for phase in phases):
        raise InvalidArgument("phases", plain(phases), "be a list of one object or more")
    if len(phases) > MOST_PHASES:
        raise InvalidArgument("phases", len(phases), f"be at most {MOST_PHASES}")
    return Question(
        phases=mechanisms_of([_phase(phase, index) for index, phase in enumerate(phases)]), document=document
    )


def plain(value: Any) -> Any:
    """A value of the document as the library takes it: exact decimals become doubles."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return value


def field_of(error: InvalidArgument) -> str | None:
    """The field of the form that an error is about."""
    field = _FIELDS_OF.get(error.argument, error.name)
    return field if field in fields() or field in _OTHER_FIELDS else None


def _phase(table: Mapping[str, Any], index: int) -> Mechanism:
    try:
        return phase_of(table)
    except InvalidArgument as error:
        error.phase = index
        raise


def _no_constant(text: str) -> Any:
    raise ValueError(text)
