"""One-sentence checks of arguments: name, value and what would be right."""

from __future__ import annotations

import math
import numbers
from fractions import Fraction
from typing import Any

from groupdp.errors import InvalidArgument
from groupdp.errors import shown as shown
from groupdp.printing import given

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
        raise InvalidArgument(
            name, value, f"be {_wanted_of(value, at_least=at_least, above=above, at_most=at_most, below=below)}"
        )
    return number


def _is_number(value: Any) -> bool:
    """Whether `value` is a float, an integer, a Fraction or one of NumPy's; booleans and Decimals are not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _wanted_of(value: Any, **limits: float | None) -> str:
    """What would be right in place of a number outside of the limits, or of a value that is not a number."""
    if _is_number(value):
        return _wanted("a finite number", **limits)
    noun = f"a number ({'not a text' if isinstance(value, str) else 'a float, an int or a Fraction'})"
    wanted = _wanted(noun, **limits)
    return wanted if wanted.startswith(noun) else f"{noun} {wanted}"


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


def require_fraction(name: str, value: Any) -> Fraction:
    """`value` as an exact number of at least 0: a number, or a text like "15", "0.5" or "256/60000".

    A double is taken as the decimal that it prints as, which is what was meant: 0.1 is 1/10.
    """
    try:
        if isinstance(value, bool) or (isinstance(value, str) and len(value) > 100):
            raise ValueError
        if isinstance(value, numbers.Rational):
            number = Fraction(value)
        else:
            text = value.strip() if isinstance(value, str) else repr(float(value))
            _, _, exponent = text.lower().partition("e")
            if exponent and abs(int(exponent)) > 400:
                raise ValueError
            number = Fraction(text)
        if number < 0:
            raise ValueError
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise InvalidArgument(name, value, "be a number of at least 0 or a fraction like 256/60000") from None
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


def _wanted(
    noun: str,
    *,
    at_least: float | None,
    above: float | None,
    at_most: float | None,
    below: float | None,
) -> str:
    low = at_least if at_least is not None else above
    high = at_most if at_most is not None else below
    if low is not None and high is not None:
        left = "[" if at_least is not None else "("
        right = "]" if at_most is not None else ")"
        return f"in {left}{given(low)}, {given(high)}{right}"
    if at_least is not None:
        return f"{noun} of at least {given(at_least)}"
    if above is not None:
        return f"{noun} above {given(above)}"
    if at_most is not None:
        return f"{noun} of at most {given(at_most)}"
    if below is not None:
        return f"{noun} below {given(below)}"
    return noun
