"""What oracle_pairs.json asks: rounds beyond one mixture against one Gaussian, of every kind laws.py knows.

Real parameters are decimal strings that mean the nearest double. Cases with `delta` have epsilons, cases with `epsilon`
have log deltas; keys end in _remove and _add where the two directions differ.
"""

from __future__ import annotations

from typing import Any

Case = dict[str, Any]


def substitute(removed: int, added: int, rate: float, noise: float, steps: int, **asked: float) -> Case:
    counts = {"kind": "poisson-substitute", "removed": removed, "added": added}
    return {**counts, "sampling_rate": repr(rate), "noise_multiplier": repr(noise), "steps": steps, **_asked(asked)}


def truncated(k: int, rate: float, n: int, top: int, noise: float, steps: int, kind: str = "", **asked: float) -> Case:
    run = {"kind": f"truncated-poisson{kind}", "group_size": k, "sampling_rate": repr(rate), "dataset_size": n}
    return {**run, "largest_batch": top, "noise_multiplier": repr(noise), "steps": steps, **_asked(asked)}


def shuffled(k: int, batch: int, batches: int, noise: float, epochs: int, kind: str = "", **asked: float) -> Case:
    run = {"kind": f"shuffled{kind}", "group_size": k, "batch_size": batch, "batches": batches}
    return {**run, "noise_multiplier": repr(noise), "epochs": epochs, **_asked(asked)}


def balls(k: int, batches: int, noise: float, epochs: int, kind: str = "", **asked: float) -> Case:
    run = {"kind": f"balls-in-bins{kind}", "group_size": k, "batches": batches}
    return {**run, "noise_multiplier": repr(noise), "epochs": epochs, **_asked(asked)}


def sources(counts: list[tuple[float, int]], noise: float, steps: int, kind: str = "", **asked: float) -> Case:
    rates = [[repr(rate), count] for rate, count in counts]
    return {"kind": f"sources{kind}", "counts": rates, "noise_multiplier": repr(noise), "steps": steps, **_asked(asked)}


def envelope(k: int, batch: int, n: int, noise: float, steps: int, **asked: float) -> Case:
    run = {"kind": "fixed-batch-substitute", "group_size": k, "batch_size": batch, "dataset_size": n}
    return {**run, "noise_multiplier": repr(noise), "steps": steps, **_asked(asked)}


def _asked(asked: dict[str, float]) -> Case:
    return {key: repr(value) for key, value in asked.items()}


CASES = [
    # substitution, as many and not as many
    substitute(1, 1, 0.01, 1.0, 2000, delta=1e-12),
    substitute(1, 1, 0.3, 2.0, 10, delta=1e-4),
    substitute(1, 1, 0.01, 0.5, 300, delta=1e-6),
    substitute(2, 1, 0.02, 0.9, 500, delta=1e-5),
    substitute(1, 2, 0.02, 0.9, 500, delta=1e-5),
    substitute(0, 3, 0.05, 2.0, 400, delta=1e-6),
    substitute(3, 0, 0.05, 2.0, 400, delta=1e-6),
    substitute(5, 1, 0.004, 1.5, 20_000, delta=1e-7),
    substitute(1, 5, 0.004, 1.5, 20_000, delta=1e-7),
    substitute(4, 4, 0.0001, 0.8, 100_000, delta=1e-8),
    substitute(2, 2, 1.0, 20.0, 100, delta=1e-6),
    substitute(3, 3, 0.5, 8.0, 50, delta=1e-6),
    substitute(8, 8, 0.001, 2.0, 5000, delta=1e-30),
    substitute(16, 16, 0.01, 8.0, 5000, delta=1e-5),
    substitute(32, 32, 0.002, 10.0, 10_000, delta=1e-6),
    substitute(64, 64, 0.001, 20.0, 10_000, delta=1e-6),
    substitute(2, 2, 1e-5, 1.0, 10_000_000, delta=1e-9),
    substitute(1, 1, 0.001, 1.0, 1_000_000_000, delta=1e-6),
    substitute(7, 2, 1 / 3, 2.718281828459045, 77, delta=3.3e-6),
    substitute(1, 1, 0.01, 1.0, 1, epsilon=0.5),
    substitute(2, 3, 0.1, 1.0, 1, epsilon=2.0),
    substitute(2, 3, 0.1, 1.0, 1, epsilon=30.0),
    substitute(1, 1, 0.2, 1.5, 2, epsilon=0.5),
    substitute(2, 1, 0.3, 2.0, 2, epsilon=1.0),
    substitute(1, 2, 0.3, 2.0, 3, epsilon=1.0),
    substitute(2, 2, 0.25, 2.0, 5, epsilon=2.0),
    substitute(2, 2, 0.01, 1.0, 2000, epsilon=0.0),
    substitute(2, 2, 0.01, 1.0, 2000, epsilon=60.0),
    substitute(1, 3, 0.01, 1.0, 2000, epsilon=20.0),
    # truncated: from never to always cut, small and large datasets
    truncated(1, 0.01, 50_000, 500, 1.5, 2000, delta=1e-6),
    truncated(2, 0.01, 50_000, 520, 1.0, 2000, delta=1e-8),
    truncated(4, 0.01, 50_000, 2000, 1.5, 2000, delta=1e-6),
    truncated(4, 0.01, 50_000, 450, 3.0, 500, delta=1e-5),
    truncated(16, 0.01, 20_000, 230, 4.0, 1000, delta=1e-6),
    truncated(1, 0.5, 10, 5, 5.0, 100, delta=1e-4),
    truncated(5, 0.2, 10, 2, 6.0, 100, delta=1e-5),  # the group alone may fill the batch
    truncated(3, 0.1, 1, 2, 5.0, 300, delta=1e-5),  # nearly nobody else
    truncated(2, 0.001, 1_000_000, 1030, 1.2, 3000, delta=1e-7),
    truncated(2, 0.01, 10_000_000, 100_000, 1.5, 1000, delta=1e-6),
    truncated(3, 0.02, 5000, 110, 2.0, 1000, delta=1e-20),
    truncated(2, 0.3, 20, 8, 2.0, 1, epsilon=1.0),
    truncated(2, 0.3, 20, 8, 3.0, 2, epsilon=0.5),
    truncated(3, 0.02, 5000, 110, 2.0, 1000, epsilon=0.0),
    truncated(3, 0.02, 5000, 110, 2.0, 1000, epsilon=12.0),
    truncated(1, 0.01, 50_000, 550, 2.0, 2000, "-zero-out", delta=1e-6),
    truncated(4, 0.01, 50_000, 500, 1.5, 2000, "-zero-out", delta=1e-6),
    truncated(3, 0.3, 20, 8, 4.0, 500, "-zero-out", delta=1e-5),
    truncated(8, 0.02, 5000, 120, 2.0, 1000, "-zero-out", delta=1e-5),
    truncated(2, 0.3, 20, 8, 2.0, 1, "-zero-out", epsilon=1.0),
    # shuffled epochs
    shuffled(1, 100, 10, 2.0, 1, delta=1e-5),
    shuffled(2, 64, 50, 3.0, 1, delta=1e-5),
    shuffled(4, 500, 100, 4.0, 2, delta=1e-6),
    shuffled(4, 500, 100, 4.0, 5, delta=1e-12),
    shuffled(6, 3, 7, 5.0, 10, delta=1e-5),  # more in the group than a batch holds
    shuffled(12, 32, 40, 10.0, 30, delta=1e-30),
    shuffled(16, 256, 200, 8.0, 100, delta=1e-7),
    shuffled(32, 1000, 1000, 20.0, 10, delta=1e-6),
    shuffled(4, 500, 100, 4.0, 20, epsilon=0.0),
    shuffled(4, 500, 100, 4.0, 20, epsilon=40.0),
    shuffled(4, 500, 100, 4.0, 1, epsilon=1.0),
    shuffled(4, 500, 100, 8.0, 20, "-substitute", delta=1e-6),
    shuffled(2, 10, 30, 6.0, 3, "-substitute", delta=1e-4),
    shuffled(4, 500, 100, 20.0, 20, "-once", delta=1e-6),
    shuffled(8, 4, 25, 12.0, 10, "-once", delta=1e-8),
    shuffled(3, 20, 10, 10.0, 5, "-once-substitute", delta=1e-5),
    # balls in bins
    balls(1, 50, 3.0, 1, delta=1e-5),
    balls(2, 2, 4.0, 10, delta=1e-5),
    balls(8, 1, 30.0, 4, delta=1e-6),  # one bin: everything, every epoch
    balls(16, 1000, 6.0, 50, delta=1e-9),
    balls(32, 100, 30.0, 20, delta=1e-6),
    balls(4, 100, 4.0, 20, epsilon=5.0),
    balls(4, 100, 8.0, 20, "-substitute", delta=1e-6),
    # sources
    sources([(0.01, 1), (0.02, 1), (0.05, 1)], 1.0, 1000, delta=1e-6),
    sources([(0.5, 1), (0.0001, 10)], 4.0, 500, delta=1e-5),
    sources([(1.0, 1), (0.01, 4)], 10.0, 300, delta=1e-6),
    sources([(0.001 * j, 2) for j in range(1, 11)], 2.0, 2000, delta=1e-7),
    sources([(0.01, 3), (0.001, 5)], 1.0, 2000, delta=1e-30),
    sources([(0.2, 1), (0.1, 2)], 1.5, 2, epsilon=0.5),
    sources([(0.01, 3), (0.001, 5)], 2.0, 2000, "-substitute", delta=1e-6),
    sources([(0.1, 1), (0.02, 2)], 3.0, 400, "-substitute", delta=1e-5),
    # the envelope, to eight digits
    envelope(1, 250, 1000, 1.0, 1, epsilon=0.7),
    envelope(3, 20, 100, 2.0, 1, epsilon=1.5),
    envelope(2, 20, 100, 4.0, 2, epsilon=1.0),
    envelope(1, 8, 20, 6.0, 10, delta=1e-5),
    envelope(2, 64, 5000, 2.0, 500, delta=1e-5),
    envelope(3, 256, 60_000, 2.5, 3000, delta=1e-6),
    envelope(1, 500, 50_000, 1.0, 1000, delta=1e-9),
    envelope(8, 500, 50_000, 4.0, 2000, delta=1e-6),
]
