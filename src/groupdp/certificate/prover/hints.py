"""Hints for the checker, in plain floats: where the contour lies, how fine and how far it or a lattice is.

Nothing here is proved and nothing has to be: a bad hint leaves a claim undecided, and never makes a false one verified.
Names as in docs/internals/certificate.md: K(c) the log moment, c the abscissa, T the number of times a round is run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from flint import arb, ctx

from groupdp.certificate.checker.contour import largest_loss
from groupdp.certificate.checker.lattice import MOST_BITS, MOST_WINDOW, Spread
from groupdp.certificate.checker.laws import Composition, Mixtures, Profile
from groupdp.certificate.checker.lines import Hidden
from groupdp.certificate.checker.reading import Clock, Undecided
from groupdp.certificate.prover.float_hidden import FloatHidden
from groupdp.certificate.prover.float_rounds import FloatGaussians, FloatMixtures, FloatProfile, floats_of
from groupdp.floats import FloatArray

_TAIL = 4.0  # nats to spare, everywhere
_SMALLEST_ABSCISSA, _LARGEST_ABSCISSA = 1e-7, 1e6
_LARGEST_ENVELOPE = 32  # the lattice takes larger groups


def hints_for(parts: Composition, *, epsilon: float, log_delta: float, accuracy: float) -> dict[str, Any]:
    """Hints to enclose delta near `epsilon`, where it is e^log_delta, as if epsilon moved by `accuracy` at most."""
    times = [float(t) for _, t in parts]
    if any(isinstance(round_, Profile) and len(round_.law) > 1 + _LARGEST_ENVELOPE for round_, _ in parts):
        raise Undecided(f"the contour of an envelope is for groups of up to {_LARGEST_ENVELOPE}")
    rounds = floats_of(parts, log_delta - 20.0 - math.log(sum(times)))
    cumulant = _cumulant(rounds, times)
    screen = _screen(cumulant, epsilon, log_delta)
    if screen is not None:
        per_round = [round_.hints(screen, screen * 1.01, 0.0, 50.0) for round_ in rounds]
        placed = {"abscissa": screen, "beyond": screen * 1.01, "step": 1.0, "points": 0}
        return {"precision": 128, **placed, "rounds": per_round}
    tolerance = min(max(accuracy * saddle(cumulant, epsilon), 1e-60), 1e-3)
    rounds = floats_of(parts, log_delta + math.log(tolerance) - math.log(sum(times)) - _TAIL)
    cumulant = _cumulant(rounds, times)
    c = saddle(cumulant, epsilon)
    k, _, variance = (float(x) for x in cumulant(c))
    peak = k - c * epsilon
    log_error = log_delta + math.log(tolerance) - math.log(4)
    has_hidden = any(isinstance(round_, FloatHidden) for round_ in rounds)
    widest = 0.5 if has_hidden else 3.0  # moments of high orders take long
    period, beyond = _period(cumulant, c, epsilon, log_error, float(largest_loss(parts)), widest)
    step = 2 * math.pi / period
    length = _length(rounds, times, c, peak, log_error, math.sqrt(2 * max(peak - log_error, 1.0) / variance))
    nats = max(peak - log_error, 0.0) + math.log(sum(times)) + _TAIL
    per_round = [round_.hints(c, beyond, length, nats) for round_ in rounds]
    bits = max(
        round_.bits(c, beyond, length, nats) if isinstance(round_, FloatHidden) else 1.45 * nats for round_ in rounds
    )
    return {
        "precision": 32 + 32 * math.ceil((bits + 26) / 32),
        "abscissa": c,
        "beyond": beyond,
        "step": step,
        "points": math.ceil(length / step) + 2,
        "rounds": per_round,
    }


def _cumulant(rounds: list[Any], times: list[float]) -> Callable[[float], FloatArray]:
    """K, K' and K'' of the composition as functions of c."""
    return lambda c: np.asarray(sum(t * np.array(round_.cumulants(c)) for round_, t in zip(rounds, times, strict=True)))


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


def _period(
    cumulant: Any, c: float, epsilon: float, log_error: float, largest: float, widest: float
) -> tuple[float, float]:
    """A period whose aliases are below e^log_error on both sides, and the abscissa that shows it."""
    shortest, best = math.inf, 2 * c
    for ratio in np.geomspace(0.01, widest, 24):
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
    decays = [round_.decay_at(c) for round_ in rounds]
    s = start
    for _ in range(200):
        decay = sum(t * decay_of(s) for decay_of, t in zip(decays, times, strict=True))
        if peak + decay - math.log(s * math.pi) < log_error:
            return s
        s *= 1.12
    raise Undecided("the contour would be too long: too few rounds")


#: Cells below and above the median that an offset is tried on, how many are tried, and the steps of one.
_CELLS_BELOW, _CELLS_ABOVE, _OFFSETS, _OFFSET_STEPS = 100, 20, 4, 100_000
#: Width of the cells beyond a loss that is this far above what decides on its own; no effect on validity.
_WIDE, _LINEAR_FROM = 0.25, 3.0


def lattice_hints(
    parts: Composition, *, epsilon: float, log_delta: float, accuracy: float, most: int
) -> dict[str, Any]:
    """Hints to enclose delta near `epsilon` as if it moved by `accuracy`, with up to `most` cells a round."""
    if any(isinstance(round_, Hidden) for round_, _ in parts):
        raise Undecided("a hidden allocation needs a contour")
    times = [float(t) for _, t in parts]
    cumulant = _cumulant(floats_of(parts, *[log_delta - 20.0 - math.log(sum(times))] * 2), times)
    c = saddle(cumulant, epsilon)
    k = float(cumulant(c)[0])
    tolerance = min(max(accuracy * c, 1e-18), 1e-2)
    rounds = floats_of(parts, *[log_delta + math.log(tolerance / 10) - math.log(sum(times))] * 2)
    log_error = log_delta + math.log(tolerance / 10)  # all errors together
    share = log_error - math.log(3 * sum(times))
    relative = math.log(tolerance / 10) - math.log(3 * sum(times))
    ends = [_ends(round_, c, relative, share) for round_ in rounds]
    coarsest = max((high - low) / (0.9 * most) for low, high, _ in ends)
    spread_out = sum(
        t * _spread_out(round_, part[2], c, coarsest) for round_, t, part in zip(rounds, times, ends, strict=True)
    )
    step = coarsest
    if k - c * epsilon - log_delta < 8.0:  # else delta falls faster than e^{-c epsilon}, and more is needed
        step = max(math.sqrt(4 * tolerance / (c * (c + 1) * max(spread_out, 1.0))), coarsest)
    per_round = []
    for (exact, _), round_, (low, high, spread) in zip(parts, rounds, ends, strict=True):
        kept = {"right_to": 0, "left_to": 0}
        if isinstance(round_, FloatMixtures):
            kept = {"right_to": round_.right_to, "left_to": round_.left_to}
        elif isinstance(round_, FloatProfile):
            kept["right_to"] = round_.largest
        offset = _offset(exact, spread, c, step, kept)
        cells = {"first": math.floor((low - offset) / step) - 1, "last": math.ceil((high - offset) / step) + 1}
        cells = {"first": min(cells["first"], -2), "last": max(cells["last"], 2)}
        per_round.append({"offset": offset, **cells, **kept})
    decisive = epsilon + _below(ends, times, 4.0 - math.log(tolerance)) + _LINEAR_FROM
    per_round = [part | _wide_cells(part, decisive, step) for part in per_round]
    offsets = sum(t * part["offset"] for t, part in zip(times, per_round, strict=True))
    high, beyond = _high(rounds, times, per_round, c, share)
    high = min(high, sum(t * part["last"] * step for t, part in zip(times, per_round, strict=True)))
    most_moment = sum(
        t * max(round_.cumulants(c)[0] - c * part["offset"], 0.0)
        for round_, t, part in zip(rounds, times, per_round, strict=True)
    )
    low, before = _low(ends, times, per_round, c, share - most_moment + c * (epsilon - offsets), 0.2 / step)
    least = sum(t * part["first"] * step for t, part in zip(times, per_round, strict=True))
    low = least if least > -most * step else max(min(low, -4 * step), least)
    window = (math.floor(low / step) - 2, math.ceil(max(high, epsilon - offsets) / step) + 8)
    spans = [round_.cumulants(c)[0] - c * min(part[0], 0.0) for round_, part in zip(rounds, ends, strict=True)]
    nats = max(k - c * epsilon - log_error, 0.0) + max(spans) + math.log(window[1] - window[0]) + 12.0
    precision = 64 + 32 * math.ceil(1.45 * nats / 32)
    if window[1] - window[0] > MOST_WINDOW or (window[1] - window[0]) * precision > MOST_BITS:
        if most < 1000:
            raise Undecided("a lattice of losses would have too many points")
        return lattice_hints(parts, epsilon=epsilon, log_delta=log_delta, accuracy=2 * accuracy, most=most // 2)
    placed = {"method": "lattice", "precision": precision, "abscissa": c, "beyond": beyond}
    return {**placed, "before": before, "step": step, "low": window[0], "high": window[1], "rounds": per_round}


def _ends(round_: Any, c: float, relative: float, share: float) -> tuple[float, float, tuple[FloatArray, FloatArray]]:
    """Losses of one round that matter, and its law: losses in order, with logarithms of probabilities under P."""
    log_moment = round_.cumulants(c)[0]
    losses, logs = _law(round_)
    above = np.flatnonzero(np.logaddexp.accumulate(logs[::-1])[::-1] > share)
    high = float(losses[above[-1]]) if len(above) else float(losses[0])
    below = np.flatnonzero(np.logaddexp.accumulate(logs) + c * losses > log_moment + relative)
    low = float(losses[below[0]]) if len(below) else high
    return min(low, high), high, (losses, logs)


def _law(round_: Any) -> tuple[FloatArray, FloatArray]:
    if isinstance(round_, FloatMixtures):
        losses = np.concatenate([la - lb for la, lb, _, _ in round_.logs])
        scale = math.log(round_.grid_step / math.sqrt(2 * math.pi))
        logs = np.concatenate([la - round_.u**2 / 2 + scale for la, _, _, _ in round_.logs])
    elif isinstance(round_, FloatGaussians):
        u = np.linspace(-40.0, 40.0, 801)
        heavy = np.argsort(round_.log_p)[-300:]
        mu = np.sqrt(round_.squares[heavy])[:, None]
        losses = (mu * u + mu**2 / 2).ravel()
        logs = (round_.log_p[heavy][:, None] - u**2 / 2 + math.log(0.1 / math.sqrt(2 * math.pi))).ravel()
    else:
        losses, logs = round_.losses, round_.log_p
    order = np.argsort(losses)
    return losses[order], logs[order]


def _offset(exact: Any, spread: tuple[FloatArray, FloatArray], c: float, step: float, kept: dict[str, int]) -> float:
    """An offset at which the measure from below (C-23) loses little around the median and where the law begins.

    Where probability begins sharply, no lower point can pay for a pair of cells whose mean is above its point. The
    offset moves to the mean that loses most, a few times, and a little below it: a mean just below a point may cost two
    whole steps.
    """
    losses, logs = spread
    p = np.exp(logs)
    middle = float(losses[np.searchsorted(np.cumsum(p), 0.5 * p.sum())])
    is_heavy = p[np.abs(losses - middle) < step].sum() >= 0.2 * p.sum()
    if isinstance(exact, Profile) or not (is_heavy or isinstance(exact, Mixtures)):
        return -1e-9 * step
    start = middle if is_heavy else 0.0
    begin = min(max(math.floor((float(losses[0]) - start) / step) - 4, -_CELLS_BELOW), -4)
    best, least, offset = start, math.inf, start
    with ctx.workprec(128):
        for _ in range(_OFFSETS):
            hints = {"first": begin, "last": _CELLS_ABOVE, "offset": offset, **kept}
            unpaid = Spread(exact, hints, (arb(c), arb(step)), Clock(steps=_OFFSET_STEPS)).unpaid
            lost = [(float(loss) * math.exp(c * step * n), float(loss / weight)) for n, weight, loss in unpaid]
            if (total := sum(weighted for weighted, _ in lost)) < least:
                best, least = offset, total
            if not total > 0.0:
                break
            offset += max(lost)[1]
            offset -= 2 * step * round((offset - start) / (2 * step))  # the same lattice, in steps of two
    return best - 1e-9 * step


def _below(ends: Any, times: list[float], nats: float) -> float:
    """How far below zero all losses together are with a probability of e^-nats at most."""
    laws = [(t, losses, logs) for t, (_, _, (losses, logs)) in zip(times, ends, strict=True)]

    def bound(a: float) -> float:
        return (sum(t * float(np.logaddexp.reduce(logs - a * losses)) for t, losses, logs in laws) + nats) / a

    return max(min(map(bound, np.geomspace(0.1, 300.0, 9).tolist())), 0.0)


def _wide_cells(part: dict[str, Any], loss: float, step: float) -> dict[str, int]:
    """Wide cells beyond a loss that decides on its own: delta is nearly linear in e^-loss there."""
    stride = 2 * round(_WIDE / (2 * step)) + 1
    fine = math.ceil((loss - part["offset"]) / step)
    fine += 1 - fine % 2
    if stride == 1 or not part["first"] + 4 <= fine < part["last"] - 4 * stride:
        return {}
    return {"fine": fine, "stride": stride, "last": fine + math.ceil((part["last"] - fine) / stride) * stride}


def _spread_out(round_: Any, spread: tuple[FloatArray, FloatArray], c: float, step: float) -> float:
    """The share of the tilted law that is not within a step of the median: only that is spoilt by the lattice."""
    losses, logs = spread
    p = np.exp(logs)
    middle = float(losses[np.searchsorted(np.cumsum(p), 0.5 * p.sum())])
    near = np.abs(losses - middle) < step
    if not near.any():
        return 1.0
    return 1.0 - min(
        math.exp(min(float(np.logaddexp.reduce(logs[near] + c * losses[near])) - round_.cumulants(c)[0], 0.0)), 1.0
    )


def _high(rounds: Any, times: list[float], per_round: Any, c: float, share: float) -> tuple[float, float]:
    """The sum of losses above which all may be cut, less the offsets, and the abscissa that shows it."""
    best, beyond = math.inf, 2 * c
    for ratio in np.concatenate((np.linspace(0.5, 1.0, 26), 1 + np.geomspace(1e-3, 3.0, 24))).tolist():
        b = c * ratio
        total = 0.0
        for round_, t, part in zip(rounds, times, per_round, strict=True):
            total += t * max(float(round_.cumulants(b)[0]) - b * part["offset"], 0.0)
        if (total - share) / b < best:
            best, beyond = (total - share) / b, b
    return best, beyond


def _low(ends: Any, times: list[float], per_round: Any, c: float, share: float, largest: float) -> tuple[float, float]:
    """The sum of losses below which all may be cut, less the offsets, and the abscissa that shows it."""
    best, before = share / c, 0.0
    for a in np.geomspace(0.1 * c, max(largest, 0.2 * c), 30).tolist():
        total = 0.0
        for (low, _, (losses, logs)), t, part in zip(ends, times, per_round, strict=True):
            raised = np.maximum(losses, low) - part["offset"]
            tilted = logs - a * raised
            top = float(tilted.max())
            total += t * max(top + math.log(float(np.exp(np.maximum(tilted - top, -100.0)).sum())), 0.0)
        if (share - total) / (c + a) > best:
            best, before = (share - total) / (c + a), a
    return best, before
