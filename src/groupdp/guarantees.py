"""The three questions: epsilon for a delta, delta for an epsilon, and its logarithm.

Formal guarantee. Let D and D' be neighbouring datasets (neighbours.py) that differ by up to `group_size` examples, and
let M be the run described, releasing every iterate. Then for every event E

    P(M(D) in E) <= e^epsilon P(M(D') in E) + delta,

with the `upper` side of what is returned here. If it says `tight`, no smaller value than the `lower` side holds for
every loss and dataset (Ganesh 2024, Theorems 3.1 and 3.3 and section 3.3; docs/internals/laws.md); if not, it is
a bound on this analysis.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

from groupdp._validation import require_number
from groupdp.bounds import Bounds
from groupdp.compositions import options_of
from groupdp.engines.interface import DEFAULT_MEMORY, Progress
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.neighbours import BACKWARD, ONE_SIDED
from groupdp.question import question_of
from groupdp.samplings.poisson import PoissonSampling
from groupdp.solve import epsilon_of_question, log_delta_of_question

#: Draws up to which the probability that one of the group is sampled is computed as a rational number.
_MOST_DRAWS = 256


def epsilon(
    run: Any,
    *,
    delta: float,
    group_size: Any = None,
    adjacency: str = "add-or-remove",
    removed: Any = None,
    added: Any = None,
    rounds: int | None = None,
    engine: str = "auto",
    tolerance: float | None = None,
    memory_budget: int = DEFAULT_MEMORY,
    progress: Progress | None = None,
    every_change: bool = False,
) -> Bounds:
    """Bounds on the smallest epsilon >= 0 such that the run is (epsilon, delta)-DP for groups of `group_size`.

    `run` is a mechanism, like a `DPSGD` or a `GaussianRelease`, or a sequence of mechanisms, composed; in a sequence a
    pair (mechanism, group size) stands for a release in which a person has another number of examples. A
    `MixtureOfGaussians` on its own takes a number of `rounds` instead of a group size. With `removed` and `added` in
    place of a group size, `removed` examples leave and `added` join, in either order. delta_upper(upper) <= delta is
    certified, and delta_lower(lower) >= delta unless lower is 0. Infinite where no finite epsilon exists (no noise).

    `tolerance` asks for a width relative to epsilon; `provenance.tolerance_met` says whether it was
    reached. `memory_budget` is how many bytes the lattice engine may take for its transforms (the spectral engine needs
    no more than 400 MB): the less, the coarser its lattice may have to be. `progress` is called with the fraction done
    by computations of more than a moment; an exception raised in it stops them. `every_change` evaluates every ordered
    change closely (`provenance.directions`), also those that provably do not decide the answer.
    """
    question = question_of(run, group_size=group_size, adjacency=adjacency, removed=removed, added=added, rounds=rounds)
    target = math.log(require_number("delta", delta, above=0.0, below=1.0))
    options = options_of(engine=engine, tolerance=tolerance, memory_budget=memory_budget, progress=progress)
    found = epsilon_of_question(question, target, options, every_change=every_change)
    if found.upper == math.inf > found.lower and adjacency in ONE_SIDED and type(group_size) is int:
        exact = _without_noise(run, float(delta), group_size, adjacency)
        return found if exact is None else replace(found, lower=exact, upper=exact)
    return found


def _without_noise(run: Any, delta: float, group_size: int, adjacency: str) -> float | None:
    """Epsilon where the group is sampled with probability delta or next to it, beyond what log delta can tell (P-10).

    Without noise P and Q are at distance s = 1 - (1 - q)^{kT}, a rational number. Epsilon is 0 if delta >= s; if not,
    removal has no finite epsilon.
    """
    if not (isinstance(run, DPSGD) and isinstance(run.sampling, PoissonSampling) and run.noise_multiplier == 0.0):
        return None
    draws = group_size * run.steps
    if draws > _MOST_DRAWS:
        return None
    if Fraction(delta) >= 1 - (1 - Fraction(run.sampling.rate)) ** draws:
        return 0.0
    return None if adjacency == BACKWARD else math.inf


def log_delta(
    run: Any,
    *,
    epsilon: float,
    group_size: Any = None,
    adjacency: str = "add-or-remove",
    removed: Any = None,
    added: Any = None,
    rounds: int | None = None,
    engine: str = "auto",
    tolerance: float | None = None,
    memory_budget: int = DEFAULT_MEMORY,
    progress: Progress | None = None,
    every_change: bool = False,
) -> Bounds:
    """Bounds on log delta(epsilon), also where delta is far below the smallest double; -inf where delta is 0.

    `every_change` evaluates every ordered change, also those that provably do not decide.
    """
    question = question_of(run, group_size=group_size, adjacency=adjacency, removed=removed, added=added, rounds=rounds)
    target = require_number("epsilon", epsilon, at_least=0.0)
    options = options_of(engine=engine, tolerance=tolerance, memory_budget=memory_budget, progress=progress)
    return log_delta_of_question(question, target, options, every_change=every_change)


def delta(run: Any, *, epsilon: float, **options: Any) -> Bounds:
    """Bounds on delta(epsilon); where it underflows, [0, smallest double]: use `log_delta` there.

    Takes the options of `log_delta`.
    """
    return exponential(log_delta(run, epsilon=epsilon, **options))


def exponential(logarithm: Bounds) -> Bounds:
    """Bounds on delta from bounds on log delta."""
    return replace(logarithm, lower=exp_down(logarithm.lower), upper=exp_up(logarithm.upper))


def exp_up(logarithm: float) -> float:
    """e^logarithm, rounded up; never above 1 for a logarithm that is not positive."""
    if logarithm == -math.inf:
        return 0.0
    value = math.exp(logarithm) * (1.0 + 4.0 * 2.0**-52)
    value = math.nextafter(value, math.inf)
    return min(value, 1.0) if logarithm <= 0.0 else value


def exp_down(logarithm: float) -> float:
    """e^logarithm, rounded down."""
    if logarithm == -math.inf:
        return 0.0
    return max(math.nextafter(math.exp(logarithm) * (1.0 - 4.0 * 2.0**-52), -math.inf), 0.0)
