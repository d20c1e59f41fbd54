"""How far a group can move a release with correlated noise: norms of C c over the admissible patterns c.

A pattern c counts the group's examples in each round. All results are upper bounds, rounded up; `exact` says whether
some pattern attains them. With negative entries they are those of |C| (M-10).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from groupdp.floats import FloatArray
from groupdp.mechanisms.correlated.strategies import LARGEST_DENSE, Strategy, Tree, rounded_up

#: Entries of its table that the exact dynamic programme may fill.
LARGEST_PROGRAMME = 40_000_000
#: Shares of a row's variance stay as far from 0 and 1.
_LEAST_SHARE = 1e-9
#: Additions that a sum over patterns may take; beyond it a simpler and larger bound serves.
LARGEST_WORK = 200_000_000
#: Bands up to which the exact dynamic programme keeps the last rounds as bits.
MOST_BITS = 12


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """An upper bound on |C c| over the admissible patterns, and whether one of them attains it."""

    value: float
    exact: bool

    def times(self, group: int) -> Sensitivity:
        """The sensitivity of so many examples that take part together."""
        return self if group == 1 else Sensitivity(float(np.nextafter(group * self.value, np.inf)), self.exact)


@lru_cache(maxsize=32)
def one_example(strategy: Strategy, rounds: int, *, separation: int, participations: int) -> Sensitivity:
    """max |C c| over c in {0, 1}^T with at most `participations` ones, at least `separation` rounds apart (M-4, M-5).

    Exact where the columns of rounds so far apart are orthogonal, and for decreasing Toeplitz matrices, where the
    pattern 0, b, 2b, .. is the worst.
    """
    most = min(participations, -(-rounds // separation))
    exact = strategy.is_nonnegative
    if strategy.bands(rounds) <= separation:  # columns so far apart share no row: their squared norms add up
        squares = strategy.column_norms(rounds) ** 2
        counted = most * separation >= rounds or most * rounds <= LARGEST_WORK or bool(np.all(np.diff(squares) <= 0.0))
        square = float(_best_separated(squares, separation, most))
        return Sensitivity(_root_up(square, most + 4), exact and counted)
    if strategy.is_decreasing:
        total, complete = _summed_columns(_padded(strategy, rounds), separation, most)
        return Sensitivity(_root_up(float(np.sum(total * total)), 2 * most + rounds + 4), exact=complete)
    if isinstance(strategy, Tree):
        return Sensitivity(_tree(strategy, rounds, separation=separation, ones=most, together=1), exact=False)
    return Sensitivity(_by_rows(strategy, rounds, separation=separation, most=most), exact=False)


@lru_cache(maxsize=32)
def spread_group(strategy: Strategy, rounds: int, *, separation: int, participations: int, group: int) -> Sensitivity:
    """max |C c| over c in {0, 1}^T with at most group * participations ones, at most `group` in `separation` rounds.

    These are the sums of `group` patterns of `one_example` of which no two share a round (M-6). Exact by a dynamic
    programme over the last rounds where C has few bands; a proved bound elsewhere (M-7), and never more than `group`
    times one example.
    """
    single = one_example(strategy, rounds, separation=separation, participations=participations)
    together = Sensitivity(rounded_up(group * single.value, 1), single.exact and group == 1)
    if group == 1:
        return single
    ones = min(group * participations, rounds)
    group = min(group, separation)
    bands = strategy.bands(rounds)
    column = strategy.first_column(rounds)
    if column is not None and bands <= separation <= MOST_BITS:
        states = sum(math.comb(separation - 1, taken) for taken in range(group + 1))
        if rounds * states * (ones + 1) <= LARGEST_PROGRAMME:
            square = _programme(np.abs(column), rounds, separation=separation, group=group, ones=ones)
            return Sensitivity(_root_up(square, ones * (bands + 4) + bands), strategy.is_nonnegative)
    if strategy.is_decreasing and column is not None:
        bound = Sensitivity(_decreasing(column, separation=separation, group=group, ones=ones), exact=False)
        return min(bound, together, key=lambda result: result.value)
    if isinstance(strategy, Tree):
        value = _tree(strategy, rounds, separation=separation, ones=ones, together=group)
        return min(Sensitivity(value, exact=False), together, key=lambda result: result.value)
    return together


@lru_cache(maxsize=32)
def fixed_order(strategy: Strategy, rounds: int, *, batches: int) -> Sensitivity:
    """max over j of |sum_i C[:, j + i N]|: one example in the same batch of every epoch of N rounds (M-8)."""
    if strategy.bands(rounds) <= batches:
        squares = strategy.column_norms(rounds) ** 2
        sums = [float(np.sum(squares[j::batches])) for j in range(min(batches, rounds))]
        return Sensitivity(_root_up(max(sums), rounds + 4), strategy.is_nonnegative)
    if strategy.is_decreasing or rounds > LARGEST_DENSE:
        epochs = -(-rounds // batches)
        return one_example(strategy, rounds, separation=batches, participations=epochs)
    matrix = np.abs(strategy.matrix(rounds))
    totals = [np.sum(matrix[:, j::batches], axis=1) for j in range(min(batches, rounds))]
    square = max(float(np.sum(total * total)) for total in totals)
    return Sensitivity(_root_up(square, 3 * rounds + 4), strategy.is_nonnegative)


@lru_cache(maxsize=32)
def window_factor(strategy: Strategy, rounds: int, *, parts: int) -> float:
    """f of M-3: with examples in any parts, ceil(T / parts) windows of (f Binom(k, q)) dominate; needs bands <= parts.

    Any shares of the variance are valid; these are chosen to make f small.
    """
    bands = strategy.bands(rounds)
    column = strategy.first_column(rounds)
    if bands == 1 or parts == 1:
        return float(np.max(strategy.column_norms(rounds)))
    if column is None:
        return rounded_up(math.sqrt(2.0) * float(np.max(strategy.column_norms(rounds))), 4)
    newer, older = _window_squares(column, parts)
    shares = np.array(row_shares(strategy, rounds, parts=parts))
    return _root_up(float(np.max(_window_norms(newer, older, shares))), parts + 8)


@lru_cache(maxsize=32)
def row_shares(strategy: Strategy, rounds: int, *, parts: int) -> tuple[float, ...]:
    """The shares l_r of a row's variance that the older window gets in `window_factor` (M-3): any are valid."""
    column = strategy.first_column(rounds)
    if column is None or len(column) == 1 or parts == 1:
        return (0.0,) * parts
    newer, older = _window_squares(column, parts)
    choices = _row_shares(newer, older)
    return tuple(min(choices, key=lambda shares: float(np.max(_window_norms(newer, older, shares)))).tolist())


def _window_squares(column: FloatArray, parts: int) -> tuple[FloatArray, FloatArray]:
    """[u, r] -> the square of column u's entry in row r of its own window, and in row r of the next one."""
    squares = np.zeros(parts)
    squares[: len(column)] = column * column
    newer, older = np.zeros((parts, parts)), np.zeros((parts, parts))
    for u in range(parts):
        newer[u, u:] = squares[: parts - u]
        older[u, :u] = squares[parts - u :]
    return newer, older


def _window_norms(newer: FloatArray, older: FloatArray, shares: FloatArray) -> FloatArray:
    """For each column u: sum_{r >= u} C_{r-u}^2 / (1 - l_r) + sum_{r < u} C_{b+r-u}^2 / l_r."""
    used = shares > 0.0
    old = older[:, used] @ (1.0 / shares[used])
    return np.asarray(newer @ (1.0 / (1.0 - shares)) + old)


def _row_shares(newer: FloatArray, older: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Shares l_r in [0, 1) of the older window: one half in every row that it touches, and ones with a small largest
    norm, by Newton's method on a smooth maximum.

    The norms are convex in the shares. Only tightness depends on how well this converges.
    """
    rows = np.flatnonzero(np.any(older > 0.0, axis=0))
    equal = np.zeros(newer.shape[1])
    equal[rows] = 0.5
    shares = equal.copy()
    old, new = np.sqrt(older.sum(axis=0)), np.sqrt(newer.sum(axis=0))
    shares[rows] = np.clip(old[rows] / (old[rows] + new[rows]), _LEAST_SHARE, 1.0 - _LEAST_SHARE)
    sharpness = 10.0 / float(np.max(_window_norms(newer, older, shares)))
    for _ in range(8):
        for _ in range(20):
            trial = _newton_step(newer, older, shares, rows, sharpness)
            if trial is None:
                break
            shares = trial
        sharpness *= 5.0
    return equal, shares


def _newton_step(
    newer: FloatArray, older: FloatArray, shares: FloatArray, rows: npt.NDArray[np.intp], sharpness: float
) -> FloatArray | None:
    """Shares with a smaller smooth maximum, or None where a step finds none."""
    norms = _window_norms(newer, older, shares)
    weights = np.exp(sharpness * (norms - np.max(norms)))
    weights /= weights.sum()
    x = shares[rows]
    gradient_of_each = newer[:, rows] / (1.0 - x) ** 2 - older[:, rows] / x**2
    curvature = 2.0 * (newer[:, rows] / (1.0 - x) ** 3 + older[:, rows] / x**3)
    gradient = weights @ gradient_of_each
    centred = gradient_of_each - gradient
    hessian = np.diag(weights @ curvature) + sharpness * (centred.T * weights) @ centred
    hessian += np.eye(len(rows)) * (1e-14 * np.trace(hessian))  # rows that no large norm depends on
    step = np.linalg.solve(hessian, gradient)
    now = _smooth(newer, older, shares, sharpness)
    for halving in range(30):
        trial = shares.copy()
        trial[rows] = np.clip(x - step * 0.5**halving, _LEAST_SHARE, 1.0 - _LEAST_SHARE)
        if _smooth(newer, older, trial, sharpness) < now:
            return trial
    return None


def _smooth(newer: FloatArray, older: FloatArray, shares: FloatArray, sharpness: float) -> float:
    norms = _window_norms(newer, older, shares)
    largest = float(np.max(norms))
    return largest + math.log(float(np.sum(np.exp(sharpness * (norms - largest))))) / sharpness


def _best_separated(weights: FloatArray, separation: int, most: int) -> FloatArray:
    """For each row of weights, the largest sum of at most `most` at places at least `separation` apart.

    The number is not counted (a larger sum) where counting takes long.
    """
    rounds = weights.shape[-1]
    if np.all(weights[..., :-1] >= weights[..., 1:]):  # decreasing: as early as possible
        return np.asarray(np.sum(weights[..., ::separation][..., :most], axis=-1))
    if separation == 1:
        return np.asarray(np.sum(np.sort(weights, axis=-1)[..., -most:], axis=-1))
    best = np.zeros((*weights.shape[:-1], rounds + separation))
    if most * separation >= rounds + separation or most * weights.size > LARGEST_WORK:
        for t in range(rounds):
            best[..., t + separation] = np.maximum(best[..., t + separation - 1], best[..., t] + weights[..., t])
        return np.asarray(best[..., -1])
    for _ in range(most):
        taken = best[..., :rounds] + weights
        best[..., separation:] = np.maximum(best[..., separation:], np.maximum.accumulate(taken, axis=-1))
    return np.asarray(best[..., -1])


def _programme(column: FloatArray, rounds: int, *, separation: int, group: int, ones: int) -> float:
    """max |C c|^2 by the last separation - 1 rounds as bits and the number of ones so far (M-6)."""
    bits = separation - 1
    bands = len(column)
    states = np.array([s for s in range(1 << bits) if s.bit_count() <= group])
    index = {int(s): i for i, s in enumerate(states)}
    mask = (1 << bits) - 1
    after_zero = np.array([index[(int(s) << 1) & mask] for s in states])
    can_take = np.array([int(s).bit_count() < group for s in states])
    after_one = np.array([index[((int(s) << 1) | 1) & mask] if c else 0 for s, c in zip(states, can_take, strict=True)])
    present = np.array([[(int(s) >> (d - 1)) & 1 for d in range(1, bands)] for s in states], dtype=np.float64)
    best = np.full((len(states), ones + 1), -np.inf)
    best[index[0], 0] = 0.0
    for t in range(rounds):
        length = min(bands, rounds - t)  # the column of round t has so many entries
        products = np.array(
            [float(np.sum(column[d : min(bands, d + length)] * column[: min(bands - d, length)])) for d in range(bands)]
        )
        gain = products[0] + (2.0 * present @ products[1:] if bands > 1 else 0.0)
        fresh = np.full_like(best, -np.inf)
        np.maximum.at(fresh, after_zero, best)
        taken = best[can_take, :-1] + np.broadcast_to(gain, len(states))[can_take, None]
        np.maximum.at(fresh[:, 1:], after_one[can_take], taken)
        best = fresh
    return float(np.max(best))


def _decreasing(column: FloatArray, *, separation: int, group: int, ones: int) -> float:
    """sqrt of n g_0 + 2 sum_{m < n} (n - m) g(lag_m), lag_m = floor(m / k) b + m mod k (M-7).

    The m-th next one of a pattern is at least lag_m rounds later, and g, the inner product of two columns, falls with
    their distance.
    """
    if len(column) * min(ones, len(column)) > LARGEST_WORK:
        return math.inf
    total = ones * float(np.sum(column * column))
    terms = 0
    for m in range(1, ones):
        lag = (m // group) * separation + m % group
        if lag >= len(column):
            break
        total += 2.0 * (ones - m) * float(np.sum(column[lag:] * column[: len(column) - lag]))
        terms += 1
    return _root_up(total, len(column) + terms + 8)


def _tree(strategy: Tree, rounds: int, *, separation: int, ones: int, together: int) -> float:
    """sqrt of the sum over levels of n min(n, k ceil(2^h / b)): a node of 2^h rounds holds at most so many (M-9)."""
    total = 0
    for level in range(strategy.levels(rounds)):
        total += ones * min(ones, 1 << level, together * -(-(1 << level) // separation))
    return _root_up(float(total), 4)


def _by_rows(strategy: Strategy, rounds: int, *, separation: int, most: int) -> float:
    """sqrt of max_c sum_i c_i max_c' sum_j c'_j |C^T C|_ij: each row's worst pattern by itself (M-5)."""
    if rounds > LARGEST_DENSE:
        return rounded_up(most * float(np.max(strategy.column_norms(rounds))), 2)
    matrix = np.abs(strategy.matrix(rounds))
    products = matrix.T @ matrix
    best = _best_separated(products, separation, most)
    return _root_up(float(_best_separated(best, separation, most)), 2 * rounds + 4 * most)


def _summed_columns(column: FloatArray, separation: int, most: int) -> tuple[FloatArray, bool]:
    """sum_{i < most} c_{t - i b} for every t; with all later columns too (a larger sum) where that is much work."""
    rounds = len(column)
    blocks = -(-rounds // separation)
    if most < blocks and most * rounds <= LARGEST_WORK:
        total = np.zeros(rounds)
        for i in range(most):
            total[i * separation :] += column[: rounds - i * separation]
        return total, True
    table = np.concatenate((column, np.zeros(blocks * separation - rounds))).reshape(blocks, separation)
    return np.cumsum(table, axis=0).ravel()[:rounds], most >= blocks


def _padded(strategy: Strategy, rounds: int) -> FloatArray:
    column = strategy.first_column(rounds)
    if column is None:
        raise AssertionError("a decreasing strategy has a first column")
    return np.concatenate((column, np.zeros(rounds - len(column))))


def _root_up(square: float, operations: int) -> float:
    return rounded_up(math.sqrt(rounded_up(square, operations)), 2)
