"""A composition as the kernel reads it: buffers of doubles, and branches N(mu, 1) against N(0, 1) apart from the rest.

A branch of two points, N(x, 1) against N(-y, 1), is N(x + y, 1) against N(0, 1) moved by y, and has closed forms.
Allocations to one place are such branches, or mixtures of two shifts; a product without a coin is rounds of their own.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from groupdp.allocations import Allocation, AllocationRound
from groupdp.errors import LimitExceeded
from groupdp.pairs import ZERO, Branch, Composition, FloatArray, Round, Side

if TYPE_CHECKING:
    from groupdp.engines.spectral._kernel import PackedAllocation, PackedBranch, PackedRound


_NONE = np.empty(0)


def packed(composition: Composition) -> list[PackedRound]:
    """The rounds with their numbers of repetitions, for the functions of `_kernel`; LimitExceeded for profiles."""
    result: list[PackedRound] = []
    for one, times in composition:
        if isinstance(one, Round):
            result.append((float(times), *_packed_round(one)))
        elif isinstance(one, AllocationRound):
            result += _packed_allocations(one, times)
        else:
            raise LimitExceeded(
                "the spectral engine composes pairs of mixtures, and members replaced or zeroed in fixed-size batches "
                "have none: the lattice engine answers for them."
            )
    return result


@lru_cache(maxsize=256)
def _packed_allocations(one: AllocationRound, times: int) -> tuple[PackedRound, ...]:
    """A product without a coin, factor by factor; a coin as one round. Factors with shift 0 are left out."""
    products = [[(factor, times) for factor, times in product if factor.shift > 0.0] for product in one.products]
    if len(products) == 1:
        return tuple(_packed_factor(factor, count * times, one.reverse) for factor, count in products[0])
    factors = sorted({factor for product in products for factor, _ in product}, key=lambda one: one.places)
    counts = np.zeros((len(products), len(factors)))
    for row, product in zip(counts, products, strict=True):
        for factor, count in product:
            row[factors.index(factor)] += count
    allocated = _allocated(factors, one.reverse, np.array(one.log_weights), counts.ravel())
    return ((float(times), (), _NONE, _NONE, allocated),)


def _packed_factor(factor: Allocation, times: int, reverse: bool) -> PackedRound:
    if factor.places > 1:
        return (float(times), (), _NONE, _NONE, _allocated([factor], reverse, np.zeros(1), np.ones(1)))
    if factor.log_probability == 0.0:
        return (float(times), (), np.array([factor.shift]), np.zeros(1))
    present = math.exp(factor.log_probability)
    absent = -math.expm1(factor.log_probability)
    log_absent = math.log(absent) if absent < 0.5 else math.log1p(-present)
    law = Side(
        np.array([0.0, factor.shift]), (np.array([absent, present]), np.array([log_absent, factor.log_probability]))
    )
    branch = Branch(ZERO, law) if reverse else Branch(law, ZERO)
    return (float(times), *_packed_round(Round((branch,))))


def _allocated(
    factors: list[Allocation], reverse: bool, log_weights: FloatArray, times: FloatArray
) -> PackedAllocation:
    return (
        reverse,
        np.array([float(factor.places) for factor in factors]),
        np.array([factor.shift for factor in factors]),
        np.array([factor.log_probability for factor in factors]),
        log_weights.astype(np.float64),
        times,
    )


@lru_cache(maxsize=256)
def _packed_round(one: Round) -> tuple[tuple[PackedBranch, ...], FloatArray, FloatArray]:
    branches, shifts, log_weights = [], [], []
    for branch, log_weight in zip(one.branches, one.log_weights, strict=True):
        if len(branch.right.shifts) == len(branch.left.shifts) == 1:
            shifts.append(float(branch.right.shifts[0] + branch.left.shifts[0]))
            log_weights.append(log_weight)
        else:
            branches.append(_packed_branch(branch, log_weight))
    if not shifts:
        return tuple(branches), _NONE, _NONE
    return tuple(branches), np.array(shifts, dtype=np.float64), np.array(log_weights, dtype=np.float64)


def _packed_branch(branch: Branch, log_weight: float) -> PackedBranch:
    right, left = branch.right, branch.left
    return (
        log_weight,
        right.shifts,
        right.probabilities,
        right.log_probabilities,
        left.shifts,
        left.probabilities,
        left.log_probabilities,
    )
