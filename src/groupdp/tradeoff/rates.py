"""Rates of errors: those that are asked about, and certified ones, complemented and intersected."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from groupdp._validation import require_number
from groupdp.bounds import Bounds
from groupdp.errors import InvalidArgument
from groupdp.pairs import FloatArray


def complement(rate: Bounds) -> Bounds:
    """1 - rate, rounded outward."""
    lower = max(math.nextafter(1.0 - rate.upper, -math.inf), 0.0) if rate.upper > 0.0 else 1.0
    upper = min(math.nextafter(1.0 - rate.lower, math.inf), 1.0) if rate.lower > 0.0 else 1.0
    return Bounds(lower if rate.upper < 1.0 else 0.0, upper)


def both(one: Bounds, other: Bounds) -> Bounds:
    """What is in both intervals, each of which contains the truth."""
    return Bounds(max(one.lower, other.lower), min(one.upper, other.upper))


def require_log_rate(value: Any) -> float:
    """The logarithm of a false positive rate, -inf for 0."""
    if isinstance(value, float) and value == -math.inf:
        return value
    return require_number("log_false_positive_rate", value, at_most=0.0)


def rates_asked(rates: Any) -> FloatArray:
    """False positive rates, at least one; those of a whole curve if None are given."""
    if rates is None:
        small = np.geomspace(1e-12, 0.05, 33)
        return np.concatenate((small, np.linspace(0.08, 0.92, 29), 1.0 - small[::-1]))
    given = list(rates) if isinstance(rates, Iterable) and not isinstance(rates, str) else []
    if not given:
        raise InvalidArgument("false_positive_rates", rates, "be a sequence of at least one rate")
    return np.array([require_number("false_positive_rate", rate, at_least=0.0, at_most=1.0) for rate in given])
