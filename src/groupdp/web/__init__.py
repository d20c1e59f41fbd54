"""The page that answers while you drag, and the JSON interface under it (docs/page.md). Here: its form, and a question
in JSON as the library's objects.

Names are those of run files and of the command line. The fields of samplings and mechanisms are declared on their
classes (groupdp/fields.py); those of every question are here. Numbers arrive as exact decimals, so that epochs are
counted without rounding. An error carries its field, and the phase counted from 0.

answers.py   one function per question, from JSON to JSON
texts.py     numbers and guarantees for people; the same question as a command line, as Python, as a run file
worker.py    the process that answers, one question at a time
pool.py      processes with time limits and cancellation, and whose question is next
openapi.py   the description of the interface
app.py       HTTP: routes, limits, headers; connections that ask nothing are closed
static/      the page, as plain HTML, CSS and JavaScript modules

Only `app` needs the extra `web` (starlette, uvicorn); it is imported by `groupdp serve`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from groupdp._version import VERSION
from groupdp.data.manifest import Counts
from groupdp.errors import (
    NOT_SHOWN,
    InvalidArgument,
    InWords,
    require_choice,
    require_integer,
    require_line,
    require_number,
    shown,
)
from groupdp.fields import Field, count, real
from groupdp.mechanisms import DPSGD, MECHANISMS
from groupdp.mechanisms.named_values import phase_fields
from groupdp.neighbours import ADJACENCIES, MEANINGS, ONE_SIDED
from groupdp.question import question_of
from groupdp.run_file import run_of
from groupdp.run_file.run import DEFAULT_TITLE, GROUPS, RunFile
from groupdp.samplings import SAMPLINGS


def _examples(name: str, meaning: str, start: int, low: int, label: str = "") -> Field:
    """A field that counts examples."""
    more: dict[str, Any] = {"label": label, "unit": "examples", "at_least": 0, "logarithmic": False}
    return count(name, meaning, (start, low, 32), **more)


#: Who the guarantee is about, and its target.
QUESTION_FIELDS = (
    _examples("group_size", "Nobody has more than this many in the dataset.", 9, 1, "Examples of one person"),
    _examples("removed", "How many examples the second dataset lacks.", 4, 0),
    _examples("added", "How many examples the second dataset has instead.", 4, 0),
    real(
        "delta",
        "Of (ε, δ): well below one over the number of people.",
        (1e-6, 1e-12, 1e-2),
        unit="probability",
        at_least=0.0,
    ),
    real(
        "epsilon",
        "The ε that the parameter is chosen for.",
        (8.0, 0.1, 100.0),
        label="Target epsilon",
        unit="nats",
        at_least=0.0,
    ),
)

#: Samplings that the older baselines are for.
CLASSIC_SAMPLINGS = ("poisson", "fixed-batch")

#: Longest list of phases in one question.
MOST_PHASES = 20
#: Most group sizes of one curve.
MOST_GROUP_SIZES = 128


def fields() -> dict[str, Field]:
    """Every field of a question, by its name."""
    return {**phase_fields(), **{field.name: field for field in QUESTION_FIELDS}}


def as_json() -> dict[str, Any]:
    """What the page builds its form from."""
    return {
        "fields": {name: field.as_json() for name, field in fields().items()},
        "mechanisms": [
            {**_described(kind), "fields": [field.as_json() for field in kind.fields], "has_sampling": kind is DPSGD}
            for kind in MECHANISMS.values()
        ],
        "samplings": [
            {
                **_described(kind),
                "fields": [field.name for field in kind.fields],
                "has_baselines": kind.name in CLASSIC_SAMPLINGS,
                "shuffles": kind.shuffles,
            }
            for kind in SAMPLINGS.values()
        ],
        "adjacencies": [
            {"name": name, "label": label, "meaning": meaning, "has_baselines": name in ONE_SIDED}
            for name, (label, meaning) in MEANINGS.items()
        ],
        "most_phases": MOST_PHASES,
        "version": VERSION,
    }


def _described(kind: Any) -> dict[str, Any]:
    """What the form says of a sampling or mechanism."""
    label = kind.title.removeprefix("a ")
    return {
        "name": kind.name,
        "label": label[:1].upper() + label[1:],
        "meaning": kind.meaning,
        "adjacencies": list(kind.adjacencies),
    }


#: What says whom the guarantee is about.
NEIGHBOUR = (*GROUPS, "adjacency")
#: Fields of the page besides those of a run and its question.
_OTHER_FIELDS = ("mechanism", "sampling", "adjacency", "phases", "counts", "column", "title", "group_sizes")
#: Arguments that come from one field.
_FIELDS_OF = {"csv": "counts", "tally": "counts", "csv or tally": "counts"}


def read_json(body: bytes) -> dict[str, Any]:
    """The JSON object in a request's body, its decimals exact."""
    try:
        document = json.loads(body, parse_float=Decimal, parse_constant=_no_constant, object_pairs_hook=_object)
    except InvalidArgument:
        raise
    except (ValueError, ArithmeticError, RecursionError):
        raise InvalidArgument("body", NOT_SHOWN, "be a JSON object") from None
    if not isinstance(document, dict):
        raise InvalidArgument("body", plain(document), "be a JSON object")
    return document


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, whose names must differ: of two values one would be lost."""
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidArgument(twice, InWords(f"it {names.count(twice)} times"), "be given once in an object")
    return values


def read_question(document: Mapping[str, Any], *, also: Sequence[str] = ()) -> RunFile:
    """The question that a document asks; `also` are the fields it may have besides the usual ones."""
    allowed = ("phases", *NEIGHBOUR, "delta", *also)
    for name in document:
        if name not in allowed:
            raise InvalidArgument.saying("", f"{shown(name)} is not a known field: {', '.join(allowed)} are.")
    tables = document.get("phases")
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise InvalidArgument("phases", plain(tables), "be a list of one object or more")
    if len(tables) > MOST_PHASES:
        raise InvalidArgument("phases", len(tables), f"be at most {MOST_PHASES}")
    adjacency = require_choice("adjacency", document.get("adjacency", ADJACENCIES[0]), ADJACENCIES)
    about = {name: plain(document.get(name)) for name in (*GROUPS, "delta")}  # checked where they are needed
    title = require_line("title", document.get("title", DEFAULT_TITLE))
    return run_of(tables, adjacency=adjacency, title=title, **about)


def neighbours_in(question: RunFile) -> dict[str, Any]:
    """The arguments that say whom the guarantee is about; the library refuses those that exclude each other."""
    sizes = {name: size for name in GROUPS if (size := getattr(question, name)) is not None}
    if not sizes:
        raise InvalidArgument("group_size", NOT_SHOWN, "be given: how many examples may one person have?")
    if isinstance(question.group_size, int):
        require_integer("group_size", question.group_size, at_least=1)
    return {**sizes, "adjacency": question.adjacency}


def delta_in(question: RunFile) -> float:
    """The target delta."""
    if question.delta is None:
        raise InvalidArgument("delta", NOT_SHOWN, "be given")
    return require_number("delta", question.delta, above=0.0, below=1.0)


def require_answered(question: RunFile) -> None:
    """Refuse a question without a delta, and a group that the run has no answer for."""
    delta_in(question)
    question_of(question.phases, **neighbours_in(question))


def number_of(document: Mapping[str, Any], name: str, **limits: float | None) -> float:
    """A number of the question that must be given."""
    if name not in document:
        raise InvalidArgument(name, NOT_SHOWN, "be given")
    return require_number(name, plain(document[name]), **limits)


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


def _no_constant(text: str) -> Any:
    raise ValueError(text)


#: False positive rates of the drawn trade-off curve, where each takes long.
FEW_RATES = (*(10.0**exponent for exponent in (-9, -8, -7, -6, -5, -4, -3, -2)), *(0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9))
#: The same where it does not: eight a decade. A curve lies above its chords where it is concave; these are so close
#: together that it does so by less than a pixel.
RATES = tuple(10.0 ** (step / 8 - 9) for step in range(72))


def group_sizes_of(document: Mapping[str, Any]) -> list[int]:
    sizes = document.get("group_sizes", list(range(1, 33)))
    if not isinstance(sizes, list) or not sizes or len(sizes) > MOST_GROUP_SIZES:
        raise InvalidArgument("group_sizes", sizes, f"be a list of 1 to {MOST_GROUP_SIZES} integers")
    checked = [require_integer("group_sizes", plain(size), at_least=1) for size in sizes]
    return sorted(set(checked))


def rates_of(document: Mapping[str, Any]) -> list[float] | None:
    """The false positive rates that were asked for; None if a curve is to be drawn."""
    if "false_positive_rates" not in document:
        return None
    rates = document["false_positive_rates"]
    if not isinstance(rates, list) or not rates or len(rates) > 100:
        raise InvalidArgument("false_positive_rates", rates, "be a list of 1 to 100 numbers")
    return [require_number("false_positive_rates", plain(rate), at_least=0.0, at_most=1.0) for rate in rates]


def counts_of(document: Mapping[str, Any]) -> Counts:
    """How many people have how many examples."""
    from groupdp.people import MOST_PEOPLE, histogram_of
    from groupdp.people.counts_file import parse_counts

    if ("csv" in document) == ("tally" in document):
        raise InvalidArgument("csv or tally", NOT_SHOWN, "be given, and not both")
    if "csv" in document:
        text, column = document["csv"], document.get("column")
        if not isinstance(text, str):
            raise InvalidArgument("csv", text, "be the text of a CSV file")
        if column is not None and not isinstance(column, str):
            raise InvalidArgument("column", column, "be the name of a column")
        return parse_counts(text, column)
    rows = document["tally"]
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 2 for row in rows):
        raise InvalidArgument("tally", rows, "be a list of [examples, people]")
    people: dict[int, int] = {}
    for examples, number in rows:
        size = require_integer("counts", plain(examples), at_least=1)
        people[size] = people.get(size, 0) + require_integer("people", plain(number), at_least=1, at_most=MOST_PEOPLE)
    counts, _ = histogram_of(list(people))  # refuses what is not a list of counts
    return Counts(examples=counts, people_with=np.array([people[int(count)] for count in counts]))


def require_group_size(question: RunFile) -> None:
    """Refuses removed and added where the library's function takes a group size alone."""
    if question.removed is not None or question.added is not None:
        raise InvalidArgument("group_size", NOT_SHOWN, "be given for this question, instead of removed and added")


def require_classic(question: RunFile) -> None:
    """Refuse an adjacency or a sampling that the older baselines have no bound for."""
    if question.adjacency not in ONE_SIDED:
        allowed = " or ".join(ONE_SIDED)
        raise InvalidArgument("adjacency", question.adjacency, f"be {allowed} for this baseline")
    for phase in question.phases:
        name = phase.sampling.name if isinstance(phase, DPSGD) else phase.name
        if name not in CLASSIC_SAMPLINGS:
            allowed = " or ".join(CLASSIC_SAMPLINGS)
            raise InvalidArgument("sampling", name, f"be {allowed} for this baseline")
