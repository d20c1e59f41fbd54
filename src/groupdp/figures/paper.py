"""The paper's figures: two samplings, three noise multipliers, epsilon against group size.

Ganesh 2024, section 4: CIFAR-10 for 20 epochs of 100 rounds. T = 2000; Poisson sampling with q = 1/100, or fixed
batches of B = 500 out of n = 50000 with twice the noise multiplier; delta = 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from groupdp._version import VERSION
from groupdp.baselines import as_csv, compare
from groupdp.drawing import save_figure
from groupdp.engines import Progress
from groupdp.figures import draw_curves
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.printing import round_down, round_up
from groupdp.samplings import FixedBatchSampling, PoissonSampling, Sampling

STEPS = 2000
DELTA = 1e-6
NOISES = (1.0, 2.0, 4.0)
GROUP_SIZES = tuple(range(1, 33))
#: The regime of the paper's claims.
MODERATE = 50.0

#: name of the files, sampling, factor on the noise, title of the figure
SAMPLINGS: tuple[tuple[str, Sampling, float, str], ...] = (
    ("poisson", PoissonSampling(rate=0.01), 1.0, "Poisson sampling: q = 1/100, T = 2000, δ = 1e-6"),
    (
        "fixed-batch",
        FixedBatchSampling(batch_size=500, dataset_size=50_000),
        2.0,
        "Fixed batches: B = 500, n = 50000, T = 2000, δ = 1e-6 (noise doubled)",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel of a figure: one sampling, one noise multiplier."""

    sampling: str
    noise_multiplier: float
    points: tuple[Any, ...]
    """The points of the panel; these samplings have every baseline."""

    @property
    def title(self) -> str:
        """The title above the panel."""
        return f"noise multiplier σ = {self.noise_multiplier:g}"

    def at(self, group_size: int) -> Any:
        """The point of one group size."""
        return next(point for point in self.points if point.group_size == group_size)


def study(*, group_sizes: Sequence[int] = GROUP_SIZES, progress: Progress | None = None) -> tuple[Panel, ...]:
    """All panels of both figures, Poisson sampling first, each in the order of its noise."""
    asked = [(name, sampling, factor * noise) for name, sampling, factor, _ in SAMPLINGS for noise in NOISES]
    panels = []
    for name, sampling, noise in asked:
        run = DPSGD(sampling=sampling, noise_multiplier=noise, steps=STEPS)
        points = compare(run, delta=DELTA, group_sizes=group_sizes)
        panels.append(Panel(sampling=name, noise_multiplier=noise, points=tuple(points)))
        if progress is not None:
            progress(len(panels) / len(asked))
    return tuple(panels)


def figure_csv(panels: Sequence[Panel]) -> str:
    """The data of one figure: the comparison's columns, with the noise multiplier before them."""
    parts = [as_csv(panel.points, leading=(("noise_multiplier", repr(panel.noise_multiplier)),)) for panel in panels]
    return parts[0] + "".join(part.split("\n", 1)[1] for part in parts[1:])


def summary(panels: Sequence[Panel]) -> str:
    """Each of the paper's claims with the values computed for it, in Markdown."""
    poisson = [panel for panel in panels if panel.sampling == "poisson"]
    fixed = [panel for panel in panels if panel.sampling == "fixed-batch"]
    blocks = [
        "# The paper's section 4, computed",
        f"T = {STEPS} rounds, delta = {DELTA:g}; Poisson sampling with q = 1/100, and fixed batches of 500 out of "
        f"50000 with twice the noise multiplier. Computed with groupdp {VERSION}. Upper bounds are rounded up.",
        "At σ = 1 and k = 9 (Poisson sampling):",
        _nine(poisson[0].at(9)),
        _nearly_linear(poisson),
        _explosion(poisson[0]),
        _infinity(panels),
        _always_better(panels),
        _same_samplings(poisson, fixed),
    ]
    return "\n\n".join(blocks) + "\n"


def _nine(point: Any) -> str:
    return "\n".join(
        (
            "| analysis | ε |",
            "|---|---|",
            f"| this one (tight) | between {round_down(point.epsilon.lower, 10)} "
            f"and {round_up(point.epsilon.upper, 10)} |",
            f"| Vadhan's lemma, on one example's exact curve | {_up(point.vadhan.upper)} |",
            f"| Vadhan's lemma as TensorFlow Privacy computes it | {_up(point.old_tool)} |",
            f"| 9 x the ε of one example (not a guarantee) | {_up(point.linear.upper)} |",
        )
    )


def _nearly_linear(panels: Sequence[Panel]) -> str:
    lines = [
        f"**Claim: ε stays close to linear in k up to ε ≈ {MODERATE:g}.** Measured at the largest k with ε at most "
        f"{MODERATE:g}: ε over k times the ε of one example, and the exponent a if ε grew like k^a from k = 1.",
        "",
        "| σ | k | ε | ε / (k ε₁) | a |",
        "|---|---|---|---|---|",
    ]
    for panel in panels:
        last = [point for point in panel.points if point.epsilon.upper <= MODERATE][-1]
        single = panel.points[0].epsilon.upper
        ratio = last.epsilon.upper / last.linear.lower
        exponent = math.log(last.epsilon.upper / single) / math.log(last.group_size) if last.group_size > 1 else 1.0
        lines.append(
            f"| {panel.noise_multiplier:g} | {last.group_size} | {_up(last.epsilon.upper)} | {ratio:.3f} "
            f"| {exponent:.3f} |"
        )
    return "\n".join(lines)


def _explosion(panel: Panel) -> str:
    inside = [point for point in panel.points if point.epsilon.upper <= MODERATE and point.group_size >= 5]
    factors = [after.vadhan.upper / before.vadhan.upper for before, after in pairwise(inside)]
    shown = ", ".join(f"{factor:.3g}" for factor in factors)
    first, last = inside[0].group_size, inside[-1].group_size
    verdict = (
        "every factor is larger than the one before: faster than exponential"
        if all(before < after for before, after in pairwise(factors))
        else "the factors do not grow throughout"
    )
    return (
        f"**Claim: with Vadhan's lemma ε grows exponentially in the same regime.** Measured at σ = 1 from k = {first} "
        f"to k = {last}, on the exact curve: each further example multiplies ε by {shown}; {verdict}."
    )


def _infinity(panels: Sequence[Panel]) -> str:
    parts = []
    for panel in panels:
        infinite = [point.group_size for point in panel.points if point.old_tool == math.inf]
        where = f"for every k >= {infinite[0]}" if infinite else f"for no k up to {panel.points[-1].group_size}"
        if infinite and len(infinite) != panel.points[-1].group_size - infinite[0] + 1:
            where = f"for k in {infinite}"
        parts.append(f"{panel.sampling}, σ = {panel.noise_multiplier:g}, {where}")
    return (
        "**Claim: TensorFlow Privacy returns infinity at σ = 1 for k >= 9.** Measured with a model of its arithmetic "
        f"(Rényi divergences, an intermediate δ held in a double). It is infinite: {'; '.join(parts)}."
    )


def _always_better(panels: Sequence[Panel]) -> str:
    groups = [point for panel in panels for point in panel.points if point.group_size > 1]
    better = all(point.epsilon.upper < point.vadhan.lower for point in groups)
    growing = all(
        before.vadhan.upper / before.epsilon.lower < after.vadhan.lower / after.epsilon.upper
        for panel in panels
        for before, after in pairwise(panel.points)
        if after.epsilon.upper <= MODERATE
    )
    at_nine = ", ".join(
        f"{panel.at(9).vadhan.lower / panel.at(9).epsilon.upper:.3g} at σ = {panel.noise_multiplier:g}"
        for panel in panels[: len(NOISES)]
    )
    return (
        "**Claim: the tight analysis always improves on Vadhan's lemma, more so as k grows and σ falls.** Measured: "
        f"smaller at {'every' if better else 'NOT every'} point with k > 1; the ratio "
        f"{'grows' if growing else 'does NOT always grow'} with k up to ε ≈ {MODERATE:g}; at k = 9 it is {at_nine}."
    )


def _same_samplings(poisson: Sequence[Panel], fixed: Sequence[Panel]) -> str:
    worst = 0.0
    for panel, other in zip(poisson, fixed, strict=True):
        for left, right in zip(panel.points, other.points, strict=True):
            worst = max(worst, abs(right.epsilon.upper / left.epsilon.upper - 1.0))
    return (
        "**Claim: the two samplings have nearly the same ε (fixed batches with twice the noise).** Measured: over all "
        f"k and σ they differ by at most {round_up(100.0 * worst, 3)} %."
    )


def _up(value: float) -> str:
    return round_up(value, 7) if value < math.inf else "infinite"


def write_figure(panels: Sequence[Panel], path: Path) -> None:
    """Draws the panels of one sampling; the kind of picture is the suffix's."""
    title = next(title for name, _, _, title in SAMPLINGS if name == panels[0].sampling)
    save_figure(draw_curves([(panel.title, panel.points) for panel in panels], title=title), path)
