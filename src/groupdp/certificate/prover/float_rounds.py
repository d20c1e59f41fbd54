"""A round's law in plain floats: K(c) with its derivatives, and how fast the characteristic function falls; for hints.

Nothing here is proved and nothing has to be. Names as in docs/internals/certificate.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb

from groupdp.certificate.checker.laws import Composition, Gaussians, Law, Mixtures, Profile
from groupdp.certificate.checker.lines import Hidden, rectangles
from groupdp.certificate.checker.reading import Undecided
from groupdp.certificate.prover.float_hidden import FloatHidden, tilted
from groupdp.floats import FloatArray

_LARGEST_LOG_RATIO = 600.0
_LARGEST_GRID = 4e6  # numbers in the table of an envelope's ratios


#: Widths of the ellipses around the panels of an envelope, times its largest active shift.
_REACHES = np.geomspace(0.02, 2.9, 60)


class FloatMixtures:
    """A round of mixtures in floats, with the shifts that matter: log A, log B and the slopes on a grid of u."""

    def __init__(self, round_: Mixtures, log_left_out: float) -> None:
        self.unit = float(arb(round_.unit))
        logs = [[log_of(law) for law in branch] for branch in round_.branches]
        self.right_from, self.right_to = _kept([right for right, _ in logs], log_left_out, both=True)
        self.left_to = _kept([left for _, left in logs], log_left_out, both=False)[1]
        self.branches = [(right[: self.right_to + 1], left[: self.left_to + 1]) for right, left in logs]
        for right, _ in self.branches:
            right[: self.right_from] = -math.inf
        self.branches = [pair for pair in self.branches if np.isfinite(pair[0]).any()]
        self.largest = self.unit * self.right_to, self.unit * self.left_to
        self.spans = self.unit * (self.right_to - self.right_from), self.unit * self.left_to
        self.grid_step = 2 * math.pi * min(1.2 / max(*self.spans, 1e-3), 1.0) / 45.0
        self._grid(15.0)

    def _grid(self, high: float) -> None:
        self.high = high
        self.u = np.arange(-15.0, high + self.grid_step, self.grid_step)
        if len(self.u) * sum(len(r) + len(b) for r, b in self.branches) > 3e8:
            raise Undecided("hints would take too much memory")
        self.logs = []
        for right, left in self.branches:
            la, sa = _log_sum(self.u, right, self.unit, 1.0)
            lb, sb = _log_sum(self.u, left, self.unit, -1.0)
            self.logs.append((la, lb, sa, sb))

    def falls(self, c: float) -> npt.NDArray[np.bool_]:
        """Where u is large enough that phi A^{1+c} B^{-c} is bound to fall from there on, in every branch (C-9)."""
        slopes = [(1 + c) * self.largest[0] + c * sb for _, _, _, sb in self.logs]
        return np.asarray(self.u > np.max(slopes, axis=0) + 0.5)

    def log_weights(self, c: float) -> FloatArray:
        while True:
            lw = np.array([(1 + c) * la - c * lb - self.u**2 / 2 for la, lb, _, _ in self.logs])
            if self.falls(c)[-1] and lw[:, -1].max() < lw.max() - 150.0:
                return lw
            self._grid(1.5 * self.high + 5.0)

    def cumulants(self, c: float) -> tuple[float, float, float]:
        """log G, its first and second derivative."""
        lw = self.log_weights(c)
        log_total, mean, variance = tilted(lw, np.array([la - lb for la, lb, _, _ in self.logs]))
        return log_total + math.log(self.grid_step / math.sqrt(2 * math.pi)), mean, variance

    def decay_at(self, c: float) -> Callable[[float], float]:
        """log of a bound on |phi(s')| for s' >= s, by the layers of the tilted loss's density (C-10)."""
        lw = self.log_weights(c)
        log_g = self.cumulants(c)[0]
        layers: list[tuple[float, float]] = []
        for (la, lb, sa, sb), row in zip(self.logs, lw, strict=True):
            near = np.flatnonzero(row > row.max() - 40.0)
            part = slice(near[0], near[-1] + 1)
            thin = max(1, (near[-1] - near[0]) // 4000)
            row, loss, slope = row[part][::thin], (la - lb)[part][::thin], (sa + sb)[part][::thin]
            heights = np.exp(np.minimum(row[:-1], row[1:]) - log_g) / math.sqrt(2 * math.pi)
            heights = 0.9 * heights / np.maximum(np.maximum(slope[:-1], slope[1:]), 1e-300)
            layers += rectangles(loss.tolist(), heights.tolist())
        return partial(_decay_of, *np.array(layers).T)

    def hints(self, c: float, beyond: float, length: float, nats: float) -> dict[str, Any]:
        """The quadrature: its strip, its step, its range, and the shifts that are kept."""
        best, strip = 0.0, 0.0
        widest = min(math.pi / max(*self.spans, 1e-9), 8.0)
        for d in (widest * np.linspace(0.05, 0.97, 47)).tolist():
            cosine = math.cos(self.spans[1] * d / 2) if self.spans[1] else 1.0
            exponent = nats + math.log(2) + d * d / 2 + length * d * sum(self.largest) - beyond * math.log(cosine)
            if 2 * math.pi * d / exponent > best:
                best, strip = 2 * math.pi * d / exponent, d
        lows, highs = [], []
        for a in (beyond, c, beyond):  # the first only extends the grid
            lw = self.log_weights(a)
            inside = np.flatnonzero((lw > lw.max() - nats - 12.0).any(axis=0))
            lows.append(float(self.u[max(inside[0] - 1, 0)]))
            falling = int(np.flatnonzero(~self.falls(a))[-1]) + 1
            highs.append(float(self.u[min(max(inside[-1], falling) + 1, len(self.u) - 1)]))
        lowest = self.unit * (1 + c) * self.right_from
        return {
            "step": best,
            "strip": strip,
            "first": math.floor(min(*lows, lowest - 1.0) / best),
            "last": math.ceil(max(highs) / best),
            "right_from": self.right_from,
            "right_to": self.right_to,
            "left_to": self.left_to,
        }


class FloatGaussians:
    """A coin over Gaussian rounds in floats."""

    def __init__(self, round_: Gaussians) -> None:
        self.log_p = np.array([log_of([p])[0] for p, _ in round_.coin])
        self.squares = np.array([float(arb(square)) for _, square in round_.coin])

    def cumulants(self, c: float) -> tuple[float, float, float]:
        logs = self.log_p + self.squares * c * (1 + c) / 2
        return tilted(logs, self.squares * (1 + 2 * c) / 2, self.squares)

    def decay_at(self, c: float) -> Callable[[float], float]:
        """log of a bound on |phi(s')| for s' >= s (C-7)."""
        logs = self.log_p + self.squares * c * (1 + c) / 2
        logs -= np.logaddexp.reduce(logs)
        return lambda s: math.log(float(np.exp(logs - self.squares * s * s / 2).sum()) + 1e-300)

    def hints(self, c: float, beyond: float, length: float, nats: float) -> dict[str, Any]:
        """None."""
        return {}


class FloatProfile:
    """The envelope of fixed batches in floats: alpha(t) on a grid, and the changes of its active set."""

    def __init__(self, round_: Profile) -> None:
        self.h = np.exp(log_of(round_.law))
        self.largest = len(self.h) - 1
        self.mu = float(arb(round_.unit)) * np.arange(len(self.h))
        self.start = -float(self.mu[1]) / 2
        self.behind = float(np.max(-np.log(self.h[1:]) / self.mu[1:]))  # own thresholds come later than t
        self._grid(0.0)

    def _ratios(self, t: FloatArray) -> FloatArray:
        return np.exp(np.minimum(-self.mu[1:, None] * t - self.mu[1:, None] ** 2 / 2, _LARGEST_LOG_RATIO))

    def _excess(self, alpha: FloatArray, ratios: FloatArray) -> FloatArray:
        return np.asarray((1 - alpha) * self.h[0] + (self.h[1:, None] * np.maximum(ratios - alpha, 0.0)).sum(axis=0))

    def _grid(self, c: float) -> None:
        self.largest_c = max(1.5 * c, 1.0)
        end = -(1 + self.largest_c) * float(self.mu[-1]) - 25.0 - self.behind
        self.step = max(min(0.004, 0.02 / float(self.mu[-1])), (self.start - end) * len(self.h) / _LARGEST_GRID)
        if self.step > 0.05:
            raise Undecided("hints would take too much memory")
        steps = np.arange(int((self.start - end) / self.step), dtype=np.float64)
        self.t: FloatArray = self.start - self.step * (steps + 0.5)
        ratios = self._ratios(self.t)
        low, high = np.zeros(len(self.t)), np.log(np.maximum(ratios.max(axis=0), 1.0))
        for _ in range(40):
            middle = (low + high) / 2
            above = self._excess(np.exp(middle), ratios) > 0
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        self.x = (low + high) / 2
        active = ratios > np.exp(self.x)
        weight = self.h[0] + (self.h[1:, None] * active).sum(axis=0)
        log_phi = -(self.t**2) / 2 - 0.5 * math.log(2 * math.pi) + math.log(self.step)
        self.parts = [(self.x, np.log(weight) + log_phi)]  # loss, log of the density of Q
        for i in range(1, len(self.h)):
            alone = (self._excess(ratios[i - 1], ratios) >= 0) & (self.t <= -self.mu[i] / 2)
            own = -self.mu[i] * self.t[alone] - self.mu[i] ** 2 / 2
            self.parts.append((own, math.log(self.h[i]) + log_phi[alone]))
        self.active = active
        total = sum(float((np.exp(q + x) + np.exp(q)).sum()) for x, q in self.parts)
        atom = max(1.0 - total, 1e-300)
        self.losses = np.concatenate([[0.0], *(np.concatenate((x, -x)) for x, _ in self.parts)])
        self.log_p = np.concatenate([[math.log(atom)], *(np.concatenate((q + x, q)) for x, q in self.parts)])

    def cumulants(self, c: float) -> tuple[float, float, float]:
        if c > self.largest_c:
            self._grid(c)
        return tilted(self.log_p + c * self.losses, self.losses)

    def decay_at(self, c: float) -> Callable[[float], float]:
        """log of a bound on |phi(s')| for s' >= s, by the layers of the active part's density (C-20)."""
        log_g = self.cumulants(c)[0]
        x, q = self.parts[0]
        layers: list[tuple[float, float]] = []
        for row in (q + (1 + c) * x - log_g, q - c * x - log_g):
            thin = max(1, len(x) // 2000)
            edges = x[::thin]
            widths_between = np.maximum(np.diff(edges), 1e-300)
            heights = 0.85 * np.exp(np.minimum(row[::thin][:-1], row[::thin][1:])) * thin / widths_between
            layers += rectangles(edges.tolist(), heights.tolist())
        return partial(_decay_of, *np.array(layers).T)

    def events(self) -> list[list[float]]:
        """(t, i) where i becomes active or ceases to be, by bisection."""
        events = []
        known = -self.mu[-1] * self.t[1:] - self.mu[-1] ** 2 / 2 < _LARGEST_LOG_RATIO  # else ratios were made equal
        for i in range(1, len(self.h)):
            row = self.active[i - 1]
            for n in np.flatnonzero((row[1:] != row[:-1]) & known).tolist():
                high, low = float(self.t[n]), float(self.t[n + 1])
                for _ in range(60):
                    middle = (low + high) / 2
                    ratios = self._ratios(np.array([middle]))
                    is_active = bool(self._excess(ratios[i - 1], ratios)[0] < 0)
                    low, high = (low, middle) if is_active == bool(row[n]) else (middle, high)
                events.append([middle, i])
        return sorted(events, reverse=True)

    def hints(self, c: float, beyond: float, length: float, nats: float) -> dict[str, Any]:
        """The changes of the active set, the end, and as few nodes in all as there can be (C-101)."""

        def nodes(reach: float) -> int:
            grown = 1.2 * (1 + c) - c * math.log(math.cos(reach / 2)) / reach
            turned = max(length + grown, 1.2 * (1 + beyond)) * reach
            return max(math.ceil((nats + 4.0 + turned) / (2 * math.log(3.0))), 2)

        reach = min(_REACHES.tolist(), key=lambda reach: nodes(reach) / reach)
        end = -(1 + beyond) * float(self.mu[-1]) - math.sqrt(2 * nats) - 2.0 - self.behind
        events = [event for event in self.events() if event[0] > end]
        return {"events": events, "end": end, "cells": 1000, "nodes": nodes(reach), "reach": reach}


def floats_of(parts: Composition, log_left_out: float, envelope_left_out: float = -math.inf) -> list[Any]:
    """The rounds in floats, without the shifts whose probability is at most e^log_left_out in all."""
    rounds: list[Any] = []
    for round_, _ in parts:
        if isinstance(round_, Mixtures):
            rounds.append(FloatMixtures(round_, log_left_out))
        elif isinstance(round_, Profile):
            tails = np.logaddexp.accumulate(log_of(round_.law)[::-1])[::-1]
            largest = max(
                int(np.flatnonzero(tails > envelope_left_out)[-1]), 1
            )  # more of the group at once is left out
            rounds.append(_float_profile(tuple(round_.law[: largest + 1]), round_.unit))
        else:
            rounds.append(FloatHidden(round_) if isinstance(round_, Hidden) else FloatGaussians(round_))
    return rounds


def nodes_of_envelope(round_: Profile, hints: dict[str, Any]) -> float:
    """About how many nodes the checker's rule has (C-101)."""
    unit, reach, active, panels = float(arb(round_.unit)), float(hints["reach"]), {1}, 0.0

    def count(length: float, most: int) -> float:
        return 0.75 * max(length, 0.0) * max(most * unit / reach, 1.0) + 1

    starts = {i: -i * unit / 2 for i in range(2, len(round_.law))}  # of those that are not active
    high = -unit / 2
    for t, i in [*hints["events"], (hints["end"], 0)]:
        panels += count(high - t, max(active, default=0))
        if i in starts:
            panels += count(starts.pop(i) - t, i)
        else:
            starts[i] = t
        active, high = active ^ {i}, t
    starts.pop(0)
    return float(hints["nodes"]) * (panels + sum(count(start - hints["end"], i) for i, start in starts.items()))


@lru_cache(maxsize=8)
def _float_profile(law: tuple[Any, ...], unit: Any) -> FloatProfile:
    return FloatProfile(Profile(list(law), unit))


def log_of(law: Law) -> FloatArray:
    """Logarithms of probabilities, -inf for zero."""
    return np.array([float(arb(p).mid().log()) if arb(p).mid() > 0 else -math.inf for p in law])


def _kept(laws: list[FloatArray], log_left_out: float, *, both: bool) -> tuple[int, int]:
    """The first and last shift to keep: the others have at most the probability e^log_left_out in every law."""
    first, last = 10**9, 0
    for law in laws:
        tails = np.logaddexp.accumulate(law[::-1])[::-1]  # of i and more
        heads = np.logaddexp.accumulate(law)
        above = np.flatnonzero(tails > log_left_out + (0.0 if both else float(law.max())))
        last = max(last, int(above[-1]) if len(above) else 0)
        first = min(first, int(np.flatnonzero(heads > log_left_out)[0]) if both and heads[-1] > log_left_out else 10**9)
    return (first if both and first <= last else 0), last


def _log_sum(u: FloatArray, logs: FloatArray, unit: float, sign: float) -> tuple[FloatArray, FloatArray]:
    """log sum_i p_i e^{sign x_i u - x_i^2/2}, and the mean of x_i under these weights."""
    total = np.full(len(u), -math.inf)
    for i in np.flatnonzero(np.isfinite(logs)):
        total = np.logaddexp(total, logs[i] + sign * i * unit * u - (i * unit) ** 2 / 2)
    mean = np.zeros(len(u))
    for i in np.flatnonzero(np.isfinite(logs)):
        mean += i * unit * np.exp(logs[i] + sign * i * unit * u - (i * unit) ** 2 / 2 - total)
    return total, mean


def _decay_of(widths: FloatArray, heights: FloatArray, s: float) -> float:
    x = np.maximum(s * widths / 2, 1e-12)
    env = np.where(x < math.pi / 2, np.sin(x) / x, 1 / x)
    return math.log1p(-min(float((heights * widths * (1 - env)).sum()), 1 - 1e-12))
