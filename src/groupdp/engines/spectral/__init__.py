"""The spectral engine: delta as a contour integral of the composed moment function, compiled.

`kernel/` is the engine itself, in C, with its map at the top of kernel/spectral.h. The proofs are in
docs/internals/numerics.md; numbers S-1, S-2, ... in the code refer to it. Where there was no compiler at installation,
every function raises `LimitExceeded`, and `auto` uses the lattice engine.

Every function returns certified bounds or raises `LimitExceeded` with the limit that was met; none of them holds the
interpreter's lock while it computes, so that threads run at the same time. A `Neighbourhood` is one contour, good for
many evaluations close to where it was planned, with the same certified bounds.

The kernel reads buffers of doubles, and branches N(mu, 1) against N(0, 1) apart from the rest: a branch of two points,
N(x, 1) against N(-y, 1), is N(x + y, 1) against N(0, 1) moved by y, and has closed forms. Allocations to one place are
such branches, or mixtures of two shifts; a product without a coin is rounds of their own.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from groupdp.bounds import Bounds, Provenance
from groupdp.engines import counter
from groupdp.errors import LimitExceeded
from groupdp.floats import FloatArray
from groupdp.losses import AtomsRound
from groupdp.pairs import ZERO, Allocation, AllocationRound, Branch, Composition, Round, Side, SubstitutionEnvelope

if TYPE_CHECKING:
    from groupdp.engines.spectral._kernel import Found, PackedAllocation, PackedBranch, PackedRound

_NONE = np.empty(0)


@lru_cache(maxsize=64)
def packed(composition: Composition) -> tuple[PackedRound, ...]:
    """The rounds with their numbers of repetitions, for the functions of `_kernel`; LimitExceeded for profiles."""
    result: list[PackedRound] = []
    for round_, times in composition:
        if isinstance(round_, Round):
            result.append((float(times), *_packed_round(round_)))
        elif isinstance(round_, AllocationRound):
            result += _packed_allocations(round_, times)
        elif isinstance(round_, SubstitutionEnvelope) and len(composition) == 1:
            law = round_.side
            result.append((float(times), (), _NONE, _NONE, ((law.shifts, law.probabilities, law.log_probabilities),)))
        elif isinstance(round_, AtomsRound) and stands_beside_allocations(composition):
            result.append((float(times), (), _NONE, _NONE, (round_.losses, round_.log_p, round_.log_lost)))
        else:
            raise LimitExceeded(
                "the spectral engine composes pairs of mixtures; members replaced or zeroed in fixed-size batches have "
                "none, and are answered for without other rounds: the lattice engine answers for all."
            )
    return tuple(result)


def stands_beside_allocations(composition: Composition) -> bool:
    """Whether known losses are exact, and on the contour itself (S-94)."""
    known = [round_ for round_, _ in composition if isinstance(round_, AtomsRound)]
    exact = all(round_.loss_error == round_.mass_error == 0.0 for round_ in known)
    return exact and any(isinstance(round_, AllocationRound) for round_, _ in composition)


@lru_cache(maxsize=256)
def _packed_allocations(round_: AllocationRound, times: int) -> tuple[PackedRound, ...]:
    """A product without a coin, factor by factor; a coin as one round. Factors with shift 0 are left out."""
    products = [[(factor, times) for factor, times in product if factor.shift > 0.0] for product in round_.products]
    if len(products) == 1:
        return tuple(_packed_factor(factor, count * times, round_.reverse) for factor, count in products[0])
    factors = sorted({factor for product in products for factor, _ in product}, key=lambda factor: factor.places)
    counts = np.zeros((len(products), len(factors)))
    for row, product in zip(counts, products, strict=True):
        for factor, count in product:
            row[factors.index(factor)] += count
    allocated = _allocated(factors, round_.reverse, np.array(round_.log_weights), counts.ravel())
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
def _packed_round(round_: Round) -> tuple[tuple[PackedBranch, ...], FloatArray, FloatArray]:
    branches, shifts, log_weights = [], [], []
    for branch, log_weight in zip(round_.branches, round_.log_weights, strict=True):
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


try:
    from groupdp.engines.spectral import _kernel
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True

#: Questions passed to the kernel in one call: enough that the call itself costs nothing, few enough to fit in memory.
_AT_ONCE = 512
#: Questions that are worth a thread of their own.
_FOR_A_THREAD = 4
#: Products of nodes and contour steps to a unit of work (engines/__init__.py), and units of a call and of a refusal.
_PRODUCTS, _WORK_OF_A_CALL, _WORK_OF_A_REFUSAL = 50.0, 5_000, 1_000_000
#: What the kernel's reasons for declining mean (docs/internals/numerics.md, limits).
_LIMITS = {
    "argument": "it answers for finite arguments",
    "shifts": "it works with shifts from 1e-290 to 1e7 times the noise, and losses whose deviation is above 1e-140",
    "memory": "a call may take 400 MB, a composition 100 000 different rounds, 2^53 rounds in all",
    "work": "a call may take a fraction of a second, with random allocations two seconds",
    "nodes": "a quadrature may have 150 000 nodes, a table 30 million entries",
    "steps": "a contour may have 50 000 steps",
    "aliases": "no period was found whose aliases are negligible",
    "truncation": "there are too few rounds, whose characteristic function decays too slowly",
    "rounding": "rounding errors of single weights may be 0.5 per cent",
    "width": "no bounds narrower than 1e-6 were found",
    "rare losses": "the closed forms for rare, large losses reach up to epsilon 100 000",
    "answered": "a closed form answers at this epsilon, and has no contour for others",
    "contradiction": "an answer must have its lower side at or below its upper one",
}


def log_delta(composition: Composition, *, epsilon: float) -> Bounds:
    """Certified bounds on log delta(epsilon), for any real epsilon."""
    require_kernel()
    return _bounds(_kernel.log_delta(packed(composition), epsilon))


def epsilon(composition: Composition, *, log_delta: float) -> Bounds:
    """Certified bounds on the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta.

    `upper` satisfies delta_upper(upper) <= delta and `lower` satisfies delta_lower(lower) >= delta, or is 0.
    """
    require_kernel()
    return _bounds(_kernel.epsilon(packed(composition), log_delta))


def epsilons(
    questions: Iterable[tuple[Composition, float]], *, threads: int | None = 1
) -> list[Bounds | LimitExceeded]:
    """What `epsilon` answers, or would raise, for each (composition, log_delta): one call for many questions.

    The interpreter's lock is released for hundreds of them at a time. `threads` is None for one on each processor.
    """
    require_kernel()
    answers: list[Bounds | LimitExceeded] = []
    remaining = iter(questions)
    while part := [(packed(composition), target) for composition, target in islice(remaining, _AT_ONCE)]:
        found = _on_threads(_kernel.epsilons, part, threads)
        answers += (declined(result) if isinstance(result, str) else _bounds(result) for result in found)
    return answers


def _on_threads(function: Callable[[list[Any]], list[Any]], questions: list[Any], threads: int | None) -> list[Any]:
    """The answers of `function`, in order: every thread takes each n-th question, since neighbours cost alike."""
    count = min(threads or os.cpu_count() or 1, len(questions) // _FOR_A_THREAD)
    if count <= 1:
        return function(questions)
    from concurrent.futures import ThreadPoolExecutor  # takes milliseconds to import

    answers: list[Any] = [None] * len(questions)
    with ThreadPoolExecutor(max_workers=count) as pool:
        for start, part in enumerate(pool.map(function, [questions[start::count] for start in range(count)])):
            answers[start::count] = part
    return answers


def epsilon_ceiling(composition: Composition, *, log_delta: float, enough: float) -> float:
    """A cheap and rigorous upper bound on epsilon, to be compared with `enough`: a few per cent above the truth by
    Chernoff alone, closer (by a coarse contour) where that is not below `enough`.
    """
    require_kernel()
    found = _kernel.epsilon_ceiling(packed(composition), log_delta, enough)
    if isinstance(found, str):
        raise declined(found)
    return found


def epsilon_ceilings(questions: Iterable[tuple[Composition, float, float]], *, threads: int | None = 1) -> list[float]:
    """What `epsilon_ceiling` answers for each (composition, log_delta, enough); inf where it would raise."""
    require_kernel()
    asked = [(packed(composition), target, enough) for composition, target, enough in questions]
    return [
        math.inf if isinstance(ceiling, str) else ceiling
        for ceiling in _on_threads(_kernel.epsilon_ceilings, asked, threads)
    ]


def require_kernel() -> None:
    """LimitExceeded where the extension is missing."""
    if not AVAILABLE:
        raise LimitExceeded("the spectral engine is compiled, and there was no compiler when groupdp was installed.")


def declined(reason: str) -> LimitExceeded:
    """The exception for one of the kernel's reasons."""
    counter.total += _WORK_OF_A_REFUSAL
    return LimitExceeded(f"a limit of the spectral engine is met: {_LIMITS[reason]}.")


def _bounds(found: Found | str) -> Bounds:
    if isinstance(found, str):
        raise declined(found)
    lower, upper, nodes, samples, evaluations = found
    counter.total += int(nodes * samples / _PRODUCTS) + _WORK_OF_A_CALL
    counts = {"nodes": nodes, "contour steps": samples, "evaluations of delta": evaluations}
    return Bounds(lower, upper, Provenance(engine="spectral", implementation="compiled", evaluations=counts))


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """Certified log delta, and approximate slopes, near one epsilon."""

    epsilon: float
    deviation: float
    """Standard deviation of the loss under P, roughly: the scale on which delta changes its character."""
    handle: object = field(repr=False)
    work: int = 0
    """Nodes times steps of the contour."""

    def evaluate(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """(lower, upper) certified for log delta, then log delta and its slope to many digits but without a claim."""
        points = np.ascontiguousarray(epsilons, dtype=np.float64)
        lower, upper, value, slope = (np.empty_like(points) for _ in range(4))
        from groupdp.engines.spectral import _kernel

        _kernel.evaluate(self.handle, points, lower, upper, value, slope)
        return lower, upper, value, slope

    def log_deltas(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Certified (lower, upper) at each epsilon; wide far away from where the contour was planned."""
        lower, upper, _, _ = self.evaluate(epsilons)
        return lower, upper

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Certified (lower, upper); wide far away from where the contour was planned."""
        lower, upper, _, _ = self.evaluate(np.array([epsilon]))
        return float(lower[0]), float(upper[0])

    def log_delta_slope(self, epsilon: float) -> tuple[float, float]:
        """log delta and its derivative, to many digits but without a claim."""
        _, _, value, slope = self.evaluate(np.array([epsilon]))
        return float(value[0]), float(slope[0])


def neighbourhood(composition: Composition, epsilon: float) -> Neighbourhood | None:
    """The contour that answers `log_delta` at this epsilon; None where delta is 0 there."""
    require_kernel()
    from groupdp.engines.spectral import _kernel

    found = _kernel.neighbourhood(packed(composition), epsilon)
    if found is None:
        return None
    if isinstance(found, str):
        raise declined(found)
    handle, deviation, nodes, samples = found
    counter.total += int(nodes * samples / _PRODUCTS) + _WORK_OF_A_CALL
    return Neighbourhood(epsilon, deviation, handle, nodes * samples)
