"""Where increasing functions pass zero, at many places at once: approximately, then checked on either side."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Function = Callable[[FloatArray], FloatArray]
Condition = Callable[[FloatArray], npt.NDArray[np.bool_]]

#: No argument beyond this is looked at.
FARTHEST = 1e160
_MOST_STEPS = 100
_MOST_DOUBLINGS = 1200
_UNIT = 2.0**-53


def bracket(excess: Function, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(low, high) with excess(low) <= 0 <= excess(high), as far as there are such places, from a first guess."""
    width = high - low
    for _ in range(_MOST_DOUBLINGS):
        short = (excess(high) < 0.0) & (high < FARTHEST)
        if not np.any(short):
            break
        low = np.where(short, high, low)
        width = np.where(short, 4.0 * width, width)
        high = np.where(short, high + width, high)
    for _ in range(_MOST_DOUBLINGS):
        short = (excess(low) > 0.0) & (low > -FARTHEST)
        if not np.any(short):
            break
        high = np.where(short, low, high)
        width = np.where(short, 4.0 * width, width)
        low = np.where(short, low - width, low)
    return low, high


def solve(excess: Function, low: FloatArray, high: FloatArray, accuracy: FloatArray) -> FloatArray:
    """About where an increasing function passes 0 between low and high: regula falsi (Illinois) and bisection.

    Ends where the function is within `accuracy` of 0, or neighbouring doubles are reached.
    """
    at_low, at_high = excess(low), excess(high)
    before = np.zeros(len(low))
    middle = 0.5 * (low + high)
    settled = high - low <= 4.0 * _UNIT * (np.abs(low) + np.abs(high))
    for step in range(_MOST_STEPS):
        if np.all(settled):
            break
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            secant = high - at_high * ((high - low) / (at_high - at_low))
            usable = (secant > low) & (secant < high) & (step % 4 != 3)
        middle = np.where(settled, middle, np.where(usable, secant, 0.5 * low + 0.5 * high))
        value = excess(middle)
        up = value < 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            at_low = np.where(up, value, np.where(before < 0.0, 0.5 * at_low, at_low))
            at_high = np.where(up, np.where(before > 0.0, 0.5 * at_high, at_high), value)
        low, high = np.where(up, middle, low), np.where(up, high, middle)
        before = np.where(up, 1.0, -1.0)
        settled |= (np.abs(value) <= accuracy) | (high - low <= 4.0 * _UNIT * (np.abs(low) + np.abs(high)))
    return middle


def step_out(start: FloatArray, direction: float, holds: Condition) -> FloatArray:
    """From `start` in a direction, by doubling steps, to where a condition holds (checked); infinite if nowhere."""
    u = np.array(start)
    step = 8.0 * _UNIT * np.maximum(np.abs(start), 1e-3)
    for _ in range(_MOST_DOUBLINGS):
        todo = ~holds(u) & np.isfinite(u)
        if not np.any(todo):
            break
        u = np.where(todo, u + direction * step, u)
        u = np.where(np.abs(u) > FARTHEST, direction * math.inf, u)
        step = np.minimum(2.0 * step, 2.0 * FARTHEST)
    return u
