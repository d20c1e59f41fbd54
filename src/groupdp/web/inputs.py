"""What a question brings besides the run and the neighbour: checked, or refused by the field's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupdp._validation import require_integer, require_number
from groupdp.errors import NOT_SHOWN, InvalidArgument
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.web.description import Question, plain
from groupdp.web.fields import CLASSIC_ADJACENCIES, CLASSIC_SAMPLINGS, MOST_GROUP_SIZES

#: False positive rates of the drawn trade-off curve, where each takes long.
FEW_RATES = (
    *(10.0**exponent for exponent in (-9, -8, -7, -6, -5, -4, -3, -2)),
    *(0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9),
)
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


def tally_of(document: Mapping[str, Any]) -> tuple[list[int], list[int]]:
    """Distinct counts in increasing order, and how many people have each."""
    from groupdp.people.counts_file import parse_counts
    from groupdp.people.view import MOST_PEOPLE, tally

    if ("csv" in document) == ("tally" in document):
        raise InvalidArgument("csv or tally", NOT_SHOWN, "be given, and not both")
    if "csv" in document:
        text, column = document["csv"], document.get("column")
        if not isinstance(text, str):
            raise InvalidArgument("csv", text, "be the text of a CSV file")
        if column is not None and not isinstance(column, str):
            raise InvalidArgument("column", column, "be the name of a column")
        return tally(parse_counts(text, column))
    rows = document["tally"]
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 2 for row in rows):
        raise InvalidArgument("tally", rows, "be a list of [examples, people]")
    found: dict[int, int] = {}
    for count, number in rows:
        size = require_integer("counts", plain(count), at_least=1)
        found[size] = found.get(size, 0) + require_integer("people", plain(number), at_least=1, at_most=MOST_PEOPLE)
    counts = tally(list(found))[0]  # refuses what is no list of counts
    return counts, [found[count] for count in counts]


def require_group_size(question: Question) -> None:
    """Refuses removed and added where the library's function takes a group size alone."""
    if "removed" in question.document or "added" in question.document:
        raise InvalidArgument("group_size", NOT_SHOWN, "be given for this question, instead of removed and added")


def require_classic(question: Question) -> None:
    """Refuses what a baseline would answer with a number for something else."""
    if question.adjacency not in CLASSIC_ADJACENCIES:
        allowed = " or ".join(CLASSIC_ADJACENCIES)
        raise InvalidArgument("adjacency", question.adjacency, f"be {allowed} for this baseline")
    for phase in question.phases:
        name = phase.sampling.name if isinstance(phase, DPSGD) else phase.name
        if name not in CLASSIC_SAMPLINGS:
            allowed = " or ".join(CLASSIC_SAMPLINGS)
            raise InvalidArgument("sampling", name, f"be {allowed} for this baseline")
