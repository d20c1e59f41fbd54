"""Hints for the checker, in plain floats: where the contour lies, how fine, how far.

Nothing here is proved and nothing has to be: a bad hint leaves a claim undecided, and never makes a false one verified.
Names as in docs/certificate.md: K(c) the log moment, c the abscissa, T the number of times a round is run.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from groupdp.certificate.checker import largest_loss
from groupdp.certificate.float_rounds import FloatArray, FloatGaussians, FloatProfile, floats_of
from groupdp.certificate.laws import Composition, Profile
from groupdp.certificate.reading import Undecided

_TAIL = 4.0  # nats to spare, everywhere
_SMALLEST_ABSCISSA, _LARGEST_ABSCISSA = 1e-7, 1e6
_LARGEST_ENVELOPE = 32  # the lattice takes larger groups


def hints_for(parts: Composition, *, epsilon: float, log_delta: float, accuracy: float) -> dict[str, Any]:
    """Hints to enclose delta near `epsilon`, where it is e^log_delta, as if epsilon moved by `accuracy` at most."""
    times = [float(t) for _, t in parts]
    if any(isinstance(one, Profile) and len(one.law) > 1 + _LARGEST_ENVELOPE for one, _ in parts):
        raise Undecided(f"the contour of an envelope is for groups of up to {_LARGEST_ENVELOPE}")
    rounds = floats_of(parts, log_delta - 20.0 - math.log(sum(times)))

    def cumulant(c: float) -> FloatArray:
        return np.asarray(sum(t * np.array(one.cumulants(c)) for one, t in zip(rounds, times, strict=True)))

    screen = _screen(cumulant, epsilon, log_delta)
    if screen is not None:
        found = [_grid_hints(one, screen, screen * 1.01, 0.0, 50.0) for one in rounds]
        placed = {"abscissa": screen, "beyond": screen * 1.01, "step": 1.0, "points": 0}
        return {"precision": 128, **placed, "rounds": found}
    tolerance = min(max(accuracy * saddle(cumulant, epsilon), 1e-60), 1e-3)
    rounds = floats_of(parts, log_delta + math.log(tolerance) - math.log(sum(times)) - _TAIL)
    c = saddle(cumulant, epsilon)
    k, _, variance = (float(x) for x in cumulant(c))
    peak = k - c * epsilon
    log_error = log_delta + math.log(tolerance) - math.log(4)
    period, beyond = _period(cumulant, c, epsilon, log_error, float(largest_loss(parts)))
    step = 2 * math.pi / period
    length = _length(rounds, times, c, peak, log_error, math.sqrt(2 * max(peak - log_error, 1.0) / variance))
    nats = max(peak - log_error, 0.0) + math.log(sum(times)) + _TAIL
    found = [_grid_hints(one, c, beyond, length, nats) for one in rounds]
    return {
        "precision": 64 + 32 * math.ceil((1.45 * nats + 10) / 32),
        "abscissa": c,
        "beyond": beyond,
        "step": step,
        "points": math.ceil(length / step) + 2,
        "rounds": found,
    }


def _screen(cumulant: Any, epsilon: float, log_delta: float) -> float | None:
    """An abscissa at which Chernoff's bound (C-11) alone shows delta(epsilon) <= e^log_delta; None if there is none."""
    before = math.inf
    for c in np.geomspace(1e-3, 1e5, 60).tolist():
        bound = float(cumulant(c)[0]) - c * epsilon + c * math.log(c) - (1 + c) * math.log1p(c)
        if bound < log_delta - 1e-2:
            return float(c)
        if bound > before:
            return None  # it is convex in c
        before = bound
    return None


def saddle(cumulant: Any, epsilon: float) -> float:
    """The minimiser of K(c) - c epsilon - log c - log(1 + c), by bisection on its increasing derivative."""
    low, high = _SMALLEST_ABSCISSA, 1.0

    def slope(c: float) -> float:
        return float(cumulant(c)[1]) - epsilon - 1 / c - 1 / (1 + c)

    while slope(high) < 0:
        low, high = high, 2 * high
        if high > _LARGEST_ABSCISSA:
            raise Undecided("no saddle point below the largest abscissa")
    while high > 1.002 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return low


def _period(cumulant: Any, c: float, epsilon: float, log_error: float, largest: float) -> tuple[float, float]:
    """A period whose aliases are below e^log_error on both sides, and the abscissa that shows it."""
    shortest, best = math.inf, 2 * c
    for ratio in np.geomspace(0.01, 3.0, 24):
        b = c * (1 + float(ratio))
        kappa = b * math.log(b) - (1 + b) * math.log1p(b)
        period = (kappa + float(cumulant(b)[0]) - b * epsilon - log_error) / (b - c)
        if period < shortest:
            shortest, best = period, b
    if largest - epsilon < shortest:
        shortest, best = largest - epsilon, 1.01 * c
    return max(shortest, -log_error / c, 1e-9) * 1.01, best


def _length(rounds: Any, times: list[float], c: float, peak: float, log_error: float, start: float) -> float:
    """The s beyond which the points of the contour are proved to matter less than e^log_error."""
    rectangles = [one.rectangles(c) for one in rounds]
    s = start
    for _ in range(200):
        decay = sum(t * one.decay(r, s, c) for one, t, r in zip(rounds, times, rectangles, strict=True))
        if peak + decay - math.log(s * math.pi) < log_error:
            return s
        s *= 1.12
    raise Undecided("the contour would be too long: too few rounds")


def _grid_hints(one: Any, c: float, beyond: float, length: float, nats: float) -> dict[str, Any]:
    """The quadrature of one round: its strip, its step, its range."""
    if isinstance(one, FloatGaussians):
        return {}
    if isinstance(one, FloatProfile):
        end = -(1 + beyond) * float(one.mu[-1]) - math.sqrt(2 * nats) - 2.0 - one.behind
        return {"events": [event for event in one.events() if event[0] > end], "end": end, "cells": 1000}
    best, strip = 0.0, 0.0
    widest = min(math.pi / max(*one.spans, 1e-9), 8.0)
    for d in (widest * np.linspace(0.05, 0.97, 47)).tolist():
        cosine = math.cos(one.spans[1] * d / 2) if one.spans[1] else 1.0
        exponent = nats + math.log(2) + d * d / 2 + length * d * sum(one.largest) - beyond * math.log(cosine)
        if 2 * math.pi * d / exponent > best:
            best, strip = 2 * math.pi * d / exponent, d
    lows, highs = [], []
    for a in (beyond, c, beyond):  # the first only extends the grid
        lw = one.log_weights(a)
        inside = np.flatnonzero((lw > lw.max() - nats - 12.0).any(axis=0))
        lows.append(float(one.u[max(inside[0] - 1, 0)]))
        falling = int(np.flatnonzero(~one.falls(a))[-1]) + 1
        highs.append(float(one.u[min(max(inside[-1], falling) + 1, len(one.u) - 1)]))
    lowest = one.unit * (1 + c) * one.right_from
    return {
        "step": best,
        "strip": strip,
        "first": math.floor(min(*lows, lowest - 1.0) / best),
        "last": math.ceil(max(highs) / best),
        "right_from": one.right_from,
        "right_to": one.right_to,
        "left_to": one.left_to,
    }
