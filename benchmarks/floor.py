"""Where groupdp's time goes for one epsilon at the paper's setting, and how far that is above the arithmetic floor.

    python benchmarks/floor.py

The floor is what the spectral engine's formula cannot do without: one evaluation of the likelihood-ratio table
(nodes x components exponentials) and nodes x contour steps complex multiplications, each kernel alone in NumPy, with
the sizes that the call itself reports. One direction is asked for, so that the sizes are those of one contour.
"""

from __future__ import annotations

import cProfile
import io
import math
import pstats
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import groupdp
from groupdp.engines.spectral import _kernel, packed
from groupdp.pairs import Composition
from groupdp.question import question_of

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "shared"))
from kernel_inspect import kernel as inspected

GROUPS = (1, 9, 32)
NOISE, RATE, STEPS, DELTA = 1.0, 0.01, 2000, 1e-6
REPETITIONS = 201
PROFILED_CALLS = 200


def main() -> None:
    setting = f"sigma = {NOISE:g}, q = {RATE:g}, T = {STEPS}, delta = {DELTA:g}"
    print(f"one epsilon, remove: {setting}; processor time, fastest of {REPETITIONS}")
    columns = ("table", "products", "floor", "call")
    print(
        f"{'k':>4} {'components':>10} {'nodes':>6} {'steps':>6} "
        + " ".join(f"{name:>9}" for name in columns)
        + "  call / floor"
    )
    for k in GROUPS:
        components, nodes, steps = _sizes(k)
        table, products, call = _fastest(_table(nodes, components), _products(nodes, steps), partial(_call, k))
        floor = table + products
        print(
            f"{k:4d} {components:10d} {nodes:6d} {steps:6d} {_micro(table)} {_micro(products)} {_micro(floor)} "
            f"{_micro(call)} {call / floor:13.1f}"
        )
    print(f"\nstages of the compiled part, median of {PROFILED_CALLS} calls")
    for k in GROUPS:
        print(f"{k:4d} " + "  ".join(f"{name} {_micro(seconds).strip()}" for name, seconds in _stages(k).items()))
    print(f"\nk = {GROUPS[0]}: time inside each function itself, per call, of {PROFILED_CALLS} calls under cProfile")
    print(_profile(GROUPS[0]))


def _run() -> groupdp.DPSGD:
    return groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=RATE), noise_multiplier=NOISE, steps=STEPS)


def _rounds(k: int) -> Composition:
    return question_of(_run(), group_size=k, adjacency="remove").compositions[0][1]


def _call(k: int) -> groupdp.Bounds:
    return groupdp.epsilon(_run(), delta=DELTA, group_size=k, adjacency="remove")


def _sizes(k: int) -> tuple[int, int, int]:
    """Components after trimming, quadrature nodes and contour steps of the call."""
    evaluations = _call(k).provenance.evaluations
    prepared = inspected.prepared(packed(_rounds(k)), float(np.log(DELTA)))
    assert prepared is not None
    return prepared["right"], evaluations["nodes"], evaluations["contour steps"]


def _table(nodes: int, components: int) -> Callable[[], object]:
    """R(u) = sum_i p_i exp(m_i u - m_i^2 / 2) at every node."""
    u, m = np.linspace(-6.0, 6.0, nodes), np.linspace(0.1, 1.0, components)
    p = np.full(components, 1.0 / components)
    exponent = np.empty((nodes, components))

    def kernel() -> object:
        np.multiply.outer(u, m, out=exponent)
        np.subtract(exponent, 0.5 * m * m, out=exponent)
        np.exp(exponent, out=exponent)
        return exponent @ p

    return kernel


def _products(nodes: int, steps: int) -> Callable[[], object]:
    """e^{i s L} at every node, one complex multiplication per step, summed with the weights."""
    factor = np.exp(1j * np.linspace(-0.1, 0.1, nodes))
    weight = np.full(nodes, 1.0 / nodes, dtype=np.complex128)
    rows = np.broadcast_to(factor, (steps, nodes))
    product = np.empty((steps, nodes), dtype=np.complex128)

    def kernel() -> object:
        return np.multiply(rows, weight, out=product).sum(axis=1)

    return kernel


def _stages(k: int) -> dict[str, float]:
    """Seconds in each stage of the compiled engine: where the next improvement is to be found."""
    rounds = packed(_rounds(k))
    calls = [_kernel.stages(rounds, float(np.log(DELTA))) for _ in range(PROFILED_CALLS)]
    answered = [call for call in calls if not isinstance(call, str)]
    return {name: statistics.median(call[name] for call in answered) for name in answered[0]}


def _fastest(*functions: Callable[[], object]) -> list[float]:
    """The fastest of many calls of each, taken in turns, so that a change of the processor's pace meets all of them."""
    best = [math.inf] * len(functions)
    for _ in range(REPETITIONS):
        for i, function in enumerate(functions):
            start = time.thread_time()
            function()
            best[i] = min(best[i], time.thread_time() - start)
    return best


def _profile(k: int) -> str:
    _call(k)
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(PROFILED_CALLS):
        _call(k)
    profiler.disable()
    stats = pstats.Stats(profiler, stream=io.StringIO())
    rows = sorted(stats.stats.items(), key=lambda row: -row[1][2])[:14]  # type: ignore[attr-defined]
    total = sum(row[2] for row in stats.stats.values())  # type: ignore[attr-defined]
    lines = [f"{'own time':>9} {'share':>6} {'with callees':>12} {'calls':>6}  function"]
    for (file, line, name), (_, calls, own, cumulative, _) in rows:
        place = f"{Path(file).parent.name}/{Path(file).name}:{line} " if line else ""
        lines.append(
            f"{_micro(own / PROFILED_CALLS)} {own / total:6.1%} {_micro(cumulative / PROFILED_CALLS):>12} "
            f"{calls / PROFILED_CALLS:6.0f}  {place}{name}"
        )
    return "\n".join(lines)


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:6.0f} us"


if __name__ == "__main__":
    main()
