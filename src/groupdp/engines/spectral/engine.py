"""log_delta and epsilon of one composition of pairs, by the compiled kernel.

Every function returns certified bounds or raises `LimitExceeded` with the limit that was met; none of them holds the
interpreter's lock while it computes, so that threads run at the same time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from groupdp.bounds import Bounds, Provenance
from groupdp.engines.spectral.packing import packed
from groupdp.engines.work import count
from groupdp.errors import LimitExceeded
from groupdp.pairs import Composition

if TYPE_CHECKING:
    from groupdp.engines.spectral._kernel import Found

try:
    from groupdp.engines.spectral import _kernel
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True

#: Questions passed to the kernel in one call: enough that the call itself costs nothing, few enough to fit in memory.
_AT_ONCE = 512
#: Products of nodes and contour steps to a unit of work (work.py); and units of a call, and of one that is declined.
_PRODUCTS, _WORK_OF_A_CALL, _WORK_OF_A_REFUSAL = 50.0, 5_000, 1_000_000
#: What the kernel's reasons for declining mean (docs/numerics.md, limits).
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
    "rare losses": "the closed forms for rare, large losses reach up to epsilon 600",
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


def epsilons(questions: Iterable[tuple[Composition, float]]) -> list[Bounds | LimitExceeded]:
    """What `epsilon` answers, or would raise, for each (composition, log_delta): one call for many questions.

    The interpreter's lock is released for hundreds of them at a time: a caller with several threads splits the
    questions.
    """
    require_kernel()
    answers: list[Bounds | LimitExceeded] = []
    remaining = iter(questions)
    while part := [(packed(composition), target) for composition, target in islice(remaining, _AT_ONCE)]:
        answers += (declined(one) if isinstance(one, str) else _bounds(one) for one in _kernel.epsilons(part))
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


def epsilon_ceilings(questions: Iterable[tuple[Composition, float, float]]) -> list[float]:
    """What `epsilon_ceiling` answers for each (composition, log_delta, enough); inf where it would raise."""
    require_kernel()
    asked = [(packed(composition), target, enough) for composition, target, enough in questions]
    return [math.inf if isinstance(one, str) else one for one in _kernel.epsilon_ceilings(asked)]


def require_kernel() -> None:
    """LimitExceeded where the extension is missing."""
    if not AVAILABLE:
        raise LimitExceeded("the spectral engine is compiled, and there was no compiler when groupdp was installed.")


def declined(reason: str) -> LimitExceeded:
    """The exception for one of the kernel's reasons."""
    count(_WORK_OF_A_REFUSAL)
    return LimitExceeded(f"a limit of the spectral engine is met: {_LIMITS[reason]}.")


def _bounds(found: Found | str) -> Bounds:
    if isinstance(found, str):
        raise declined(found)
    lower, upper, nodes, samples, evaluations = found
    count(nodes * samples / _PRODUCTS + _WORK_OF_A_CALL)
    counts = {"nodes": nodes, "contour steps": samples, "evaluations of delta": evaluations}
    return Bounds(lower, upper, Provenance(engine="spectral", implementation="compiled", evaluations=counts))
