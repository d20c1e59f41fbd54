"""Draws docs/images/samplings.png: epsilon against group size for every sampling, at one batch size and noise.

Run from the project's root: .venv/bin/python tools/samplings_picture.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt

import groupdp
from groupdp.drawing import COLOURS, finish

DATASET, BATCH, NOISE, EPOCHS, DELTA = 50_000, 500, 4.0, 20, 1e-6
GROUP_SIZES = range(1, 17)
STEPS = EPOCHS * DATASET // BATCH

#: Label, sampling, adjacency.
LINES = (
    ("fixed order", groupdp.FixedOrderSampling(batch_size=BATCH, dataset_size=DATASET), "zero-out"),
    ("shuffled once", groupdp.ShuffledOnceSampling(batch_size=BATCH, dataset_size=DATASET), "zero-out"),
    ("shuffled every epoch", groupdp.ShuffledSampling(batch_size=BATCH, dataset_size=DATASET), "zero-out"),
    ("balls in bins", groupdp.BallsInBinsSampling(batches=DATASET // BATCH), "add-or-remove"),
    ("spread", groupdp.SpreadSampling(batches=DATASET // BATCH), "add-or-remove"),
    ("fixed batches", groupdp.FixedBatchSampling(batch_size=BATCH, dataset_size=DATASET), "add-or-remove"),
    (
        "truncated Poisson, at most 550",
        groupdp.TruncatedPoissonSampling(rate=BATCH / DATASET, largest_batch=550, dataset_size=DATASET),
        "add-or-remove",
    ),
    ("Poisson", groupdp.PoissonSampling(rate=BATCH / DATASET), "add-or-remove"),
)


def draw(path: Path) -> None:
    """The picture, and its numbers on the terminal."""
    figure, axes = plt.subplots(figsize=(9.5, 4.8), layout="constrained")
    for index, (label, sampling, adjacency) in enumerate(LINES):
        run = groupdp.DPSGD(sampling=sampling, noise_multiplier=NOISE, steps=STEPS)
        found = [groupdp.epsilon(run, delta=DELTA, group_size=k, adjacency=adjacency) for k in GROUP_SIZES]
        tight = found[-1].tight
        print(label, adjacency, "tight" if tight else "valid", *(f"{bounds.upper:.4g}" for bounds in found), flush=True)
        axes.plot(
            GROUP_SIZES,
            [bounds.upper for bounds in found],
            "-o" if tight else "--s",
            markersize=3.5,
            linewidth=1.5,
            color=COLOURS[index],
            label=f"{label} ({adjacency}; {'tight' if tight else 'valid'})",
        )
    axes.set_yscale("log")
    axes.set_xlabel("examples of one person (k)")
    axes.set_ylabel("epsilon (certified upper bound)")
    axes.set_xticks([1, 2, 4, 6, 8, 10, 12, 14, 16])
    setting = f"batches of {BATCH}, noise multiplier {NOISE:g}, {EPOCHS} epochs, delta = {DELTA:g}"
    figure.suptitle(f"{DATASET:,} examples".replace(",", " ") + f", {setting}", fontsize=10)
    finish(axes)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    draw(Path(__file__).resolve().parents[1] / "docs" / "images" / "samplings.png")
