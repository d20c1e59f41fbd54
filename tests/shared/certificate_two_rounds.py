"""delta after one round and after two, in floats and by the textbook: shares nothing with the checker."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtr


def in_floats(one: Any) -> list[tuple[Any, Any]]:
    """(probability, shift) of both sides of every branch."""
    unit = float(one.unit.p) / float(one.unit.q)
    return [
        tuple([(float(p.p) / float(p.q), i * unit) for i, p in enumerate(law) if p != 0] for law in branch)
        for branch in one.branches
    ]


def loss_of(branch: Any, u: Any) -> Any:
    right, left = branch
    a = sum(p * np.exp(x * u - x * x / 2) for p, x in right)
    return np.log(a / sum(p * np.exp(-y * u - y * y / 2) for p, y in left))


def one_round_in_floats(one: Any, x: Any) -> Any:
    """delta after one round at every x, by bisection."""
    total = 0.0
    for branch in in_floats(one):
        low, high = np.full_like(x, -40.0), np.full_like(x, 60.0)
        for _ in range(80):
            middle = (low + high) / 2
            above = loss_of(branch, middle) > x
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        p, q = (sum(w * ndtr(s - low) for w, s in branch[0]), sum(w * ndtr(-s - low) for w, s in branch[1]))
        total = total + p - np.exp(x) * q
    return total


def two_rounds(one: Any, epsilon: float) -> float:
    """delta after two rounds: the expectation of one round's, by the trapezoid rule."""
    total = 0.0
    for branch in in_floats(one):
        u = np.arange(-16.0, 20.0, 0.02)
        density = sum(p * np.exp(-((u - x) ** 2) / 2) for p, x in branch[0]) / math.sqrt(2 * math.pi)
        total += float((density * one_round_in_floats(one, epsilon - loss_of(branch, u))).sum()) * 0.02
    return total
