"""How numbers are printed: an input as it was given, a bound rounded in its safe direction.

An input is what a claim is about, so no digit of it may be dropped: `given` prints the shortest decimal that is read
back as the same double. A bound may lose digits only outward: an upper bound is rounded up, a lower bound down.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

#: What is counted in sentences: numbers before these words, and after "size", have spaces between thousands.
_COUNTED = "steps|rounds|examples|people|batches|epochs|rows|runs|trials|indices|bands|counts|releases|microbatches"
_COUNT = re.compile(rf"(?<![\w.,:/=-])\d{{4,}}(?= (?:{_COUNTED})\b)|(?<= size )\d{{4,}}\b", re.ASCII)
#: Enough for the exact decimal of any double, and for a hundred times as much.
_EXACT = Context(prec=1100)


def given(value: float) -> str:
    """An input as it was given: the shortest decimal that is read back as this double; an integer without a point."""
    number = float(value)
    return str(int(number)) if number.is_integer() and abs(number) < 1e16 else repr(number)


def counted(number: int) -> str:
    """A count with spaces between thousands: 60 000."""
    return f"{number:,}".replace(",", " ")


def grouped(sentence: str, *, space: str = " ") -> str:
    """A sentence with spaces between the thousands of what it counts: "2 000 steps"."""
    return _COUNT.sub(lambda match: f"{int(match[0]):,}".replace(",", space), sentence)


def complement(value: float) -> str:
    """One minus an input, for the decimal that was given: 0.7 for 0.3."""
    return f"{_EXACT.subtract(Decimal(1), Decimal(repr(float(value)))).normalize(_EXACT):f}"


def given_percent(share: float) -> str:
    """A share that was given, as a percentage, for the decimal that was given."""
    percent = _EXACT.multiply(Decimal(repr(float(share))), Decimal(100)).normalize(_EXACT)
    return f"{percent:f} %" if percent == 0 or percent.adjusted() > -7 else f"{percent:e} %"


def round_up(value: float | Decimal, digits: int) -> str:
    """The shortest decimal of at most `digits` significant digits that is not below `value`."""
    return _rounded(value, digits, ROUND_CEILING)


def round_down(value: float | Decimal, digits: int) -> str:
    """The shortest decimal of at most `digits` significant digits that is not above `value`."""
    return _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: float | Decimal, digits: int, rounding: str) -> str:
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    # A double converts to Decimal exactly, so this is the only rounding: without this context, normalize would round
    # again, to nearest, in the precision that the caller has set for decimals.
    context = Context(prec=digits, rounding=rounding)
    rounded = context.create_decimal(Decimal(value)).normalize(context)
    exponent = rounded.adjusted()
    return f"{rounded:f}" if -5 < exponent < 16 else f"{rounded:e}"


def upper_text(value: float, digits: int = 8) -> str:
    """An upper bound for people: rounded up."""
    return round_up(value, digits) if math.isfinite(value) else _infinite(value)


def lower_text(value: float, digits: int = 8) -> str:
    """A lower bound for people: rounded down."""
    return round_down(value, digits) if math.isfinite(value) else _infinite(value)


def _infinite(value: float) -> str:
    return "infinity" if value > 0 else "-infinity"


def upper_percent(share: float) -> str:
    """An upper bound on a share as a percentage, rounded up; below 100 % it has as many nines as it needs."""
    percent = _EXACT.multiply(Decimal(share), Decimal(100))
    for digits in (3, 4, 5, 6, 8, 12):
        text = round_up(percent, digits)
        if float(text) < 100.0:
            return f"{text} %"
    return "100 %"


def lower_percent(share: float) -> str:
    """A share that is kept or protected, as a percentage with one decimal, rounded down: 99.99 % is not 100 %."""
    percent = _EXACT.multiply(Decimal(repr(float(share))), Decimal(100))
    return f"{percent.quantize(Decimal('0.1'), rounding=ROUND_FLOOR):f} %"


def sides(bounds: Any) -> dict[str, float]:
    """Both sides of certified bounds, as JSON has them."""
    return {"lower": bounds.lower, "upper": bounds.upper}


def json_ready(value: Any) -> Any:
    """The value with infinities as the strings "Infinity" and "-Infinity", which JSON has no numbers for."""
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {key: json_ready(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(item) for item in value]
    return value
