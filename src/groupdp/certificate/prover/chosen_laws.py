"""Choose the laws of hidden allocations for a claim, and compute their epsilon (C-30)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb

from groupdp.certificate.checker import proof_of
from groupdp.certificate.checker.laws import SECRET, THROWN, Change, Composition, Gaussians, changes
from groupdp.certificate.checker.lines import Factor, Hidden
from groupdp.certificate.checker.reading import Clock, Undecided
from groupdp.certificate.prover.proving import Proving, with_laws
from groupdp.compositions import epsilon_of
from groupdp.engines import Options
from groupdp.errors import LimitExceeded
from groupdp.floats import FloatArray
from groupdp.laws.blocks import JOINING_ORDERS, LEAVING_ORDERS, collision_blocks
from groupdp.pairs import ZERO, Allocation, AllocationRound, AnyRound, Branch, Round, Side, compose

#: Larger groups in balls in bins are certified with the allocation revealed: hidden ones would take minutes.
_LARGEST_HIDDEN = 16


def laws_of_claim(claim: dict[str, Any], delta: float, clock: Clock) -> Iterator[dict[str, list[Any]]]:
    """Laws of hidden allocations by the names of the pairs: those with the smallest epsilon, then all revealed (C-30).

    They are compared phase by phase. Nothing is said where no phase has a hidden allocation.
    """
    secret = [index for index, phase in enumerate(claim["run"]) if phase.get("sampling") in SECRET]
    best: dict[str, list[Any]] = {}
    for change in changes(claim) if secret else ():
        laws: list[Any] = [None] * len(claim["run"])
        for index in secret:
            candidates = [(math.inf, "revealed")]
            for law in _candidates(claim["run"][index], change):
                try:
                    parts = proof_of([claim["run"][index]], change, with_laws([law]), [], clock).parts
                    candidates.append((_epsilon_of_parts(parts, delta)[1], law))
                except (Undecided, LimitExceeded):
                    continue
            laws[index] = min(candidates, key=lambda candidate: candidate[0])[1]
        best[change.name] = laws
    yield best
    revealed = {name: ["revealed" if law else law for law in laws] for name, laws in best.items()}
    if revealed != best:
        yield revealed


def _candidates(phase: dict[str, Any], change: Change) -> list[Any]:
    """Laws that the checker has for one phase: hidden, with rare counts revealed, with collisions hidden, revealed."""
    sizes = change.removed, change.added
    if phase["sampling"] != THROWN or max(sizes) == 1:
        return ["hidden", "revealed" if phase["sampling"] != "allocation" else {"parts": max(sizes), "least": 0.0}]
    k, n, noise = max(sizes), phase["batches"], float(phase["noise_multiplier"])
    if k > _LARGEST_HIDDEN:
        return ["revealed"]
    laws: list[Any] = [{"least": least} for least in (1e-20, 1e-12, 1e-9)]
    if sizes[0] == 0 or sizes[1] == 0 or sizes[0] == sizes[1]:
        shift = math.sqrt(2.0 if 0 not in sizes else 1.0) / noise if noise > 0.0 else 1.0
        for order in JOINING_ORDERS if sizes[0] == 0 else LEAVING_ORDERS:
            if (blocks := collision_blocks(k, n, shift, order)) is not None:
                laws.append({"single": blocks[0], "blocks": [list(block) for block in blocks[1]]})
    if k >= 8:
        laws.append({"parts": max(-(-k // 12), 2), "least": 1e-20})
    return [*laws, "revealed"]


def sides_of_laws(proving: Proving, delta: float) -> tuple[float, float] | None:
    """The sides to claim: those of the checker's own laws, which dominate the run (C-27, C-30); the checker decides."""
    bounds = [_epsilon_of_parts(pair.parts, delta) for pair in proving.pairs]
    lower, upper = (max((sides[side] for sides in bounds), default=math.inf) for side in (0, 1))
    if not math.isfinite(upper):
        return None
    return (0.0, upper * (1.0 + 1e-9)) if proving.has_larger_laws else (lower, upper)


def _epsilon_of_parts(parts: Composition, delta: float) -> tuple[float, float]:
    """The engines' epsilon of the checker's laws, missing mass counted as lost; infinite where they have none."""
    rounds: list[tuple[AnyRound, int]] = []
    left = delta
    for round_, times in parts:
        if isinstance(round_, Hidden):
            products = tuple(tuple((_allocation(factor), n) for factor, n in product) for _, product in round_.coin)
            logs = _logarithms([weight for weight, _ in round_.coin])
            rounds.append((AllocationRound(products, tuple(logs.tolist()), round_.reverse), times))
        elif isinstance(round_, Gaussians):
            branches = [Branch(Side.point(math.sqrt(_rounded(square))), ZERO) for _, square in round_.coin]
            rounds.append((Round(branches, _logarithms([weight for weight, _ in round_.coin]).tolist()), times))
        else:
            return math.inf, math.inf
        left -= times * _rounded(round_.missing)
    if left <= 0.0:
        return math.inf, math.inf
    bounds = epsilon_of(compose(rounds), math.log(left), Options())
    return bounds.lower, bounds.upper


def _allocation(factor: Factor) -> Allocation:
    return Allocation(factor.places, float(arb(factor.square).sqrt()), min(float(arb(factor.taking).log()), 0.0))


def _logarithms(weights: list[Any]) -> FloatArray:
    """Of weights that are made to sum to 1."""
    logs = np.array([float(arb(weight).log()) for weight in weights])
    return np.asarray(np.minimum(logs - np.logaddexp.reduce(logs), 0.0))


def _rounded(number: Any) -> float:
    """The double next to a rational."""
    return float(Fraction(int(number.p), int(number.q)))
