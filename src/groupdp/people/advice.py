"""What a study of caps says in words: sampling examples or people, and what a small cap costs."""

from __future__ import annotations

import math
from decimal import Decimal

from groupdp.people.cap import FRONTIER, CapRow, CapStudy
from groupdp.printing import given_percent, lower_percent, round_down, round_up

#: Caps that keep less than this share of the examples are not passed over in silence.
_MUCH = 0.8


def advice(study: CapStudy) -> list[str]:
    """Sentences: the recommended cap, or the frontier where no minimum share was given; then the way of sampling."""
    if study.recommended is None:
        return [*_frontier(study), _sampling(_compared(study))]
    row = study.row(study.recommended)
    kept = f"{lower_percent(row.share_kept)} of the examples"
    sentences = [f"Recommended: keep up to {row.cap} examples per person, {kept} (marked <)."]
    if row.share_kept < _MUCH:
        lost = Decimal(100) - Decimal(lower_percent(row.share_kept).removesuffix(" %"))
        sentences.append(f"This throws {lost} % of the data away, as was allowed.")
    return [*sentences, _sampling(row)]


def _frontier(study: CapStudy) -> list[str]:
    """The least noise and the largest share, and caps between, without choosing for anybody."""
    first, last = study.rows[0], study.rows[-1]
    sentences = [
        "No cap is recommended: what the examples thrown away are worth only you can say (--minimum-share).",
        f"From a cap of {first.cap} to {last.cap}, the share kept rises from {lower_percent(first.share_kept)} to "
        f"{lower_percent(last.share_kept)} and the noise per averaged gradient by a factor of "
        f"{_ratio(last.noise_per_average, first.noise_per_average)}.",
    ]
    for share in FRONTIER:
        row = next((row for row in study.rows if row.share_kept >= share), None)
        if row is not None and row.cap not in (first.cap, last.cap):
            sentences.append(
                f"To keep {given_percent(share)}: a cap of {row.cap}, with "
                f"{_ratio(row.noise_per_average, first.noise_per_average)} times the noise of a cap of {first.cap}."
            )
    return sentences


def _compared(study: CapStudy) -> CapRow:
    """The cap at which the ways of sampling are compared where none is recommended: the smallest to keep most data."""
    return next((row for row in study.rows if row.share_kept >= _MUCH), study.rows[-1])


def _sampling(row: CapRow) -> str:
    """Which way of sampling has less noise at a cap, or what decides it.

    C_user / C_example is about 1 where a person's gradients agree, and about 1 / sqrt(K) where they are independent.
    """
    average = row.examples_kept * row.sampling_rate / row.people_per_batch  # K
    independent = 1.0 / math.sqrt(average)
    facts = (
        f"Sampling people instead (noise multiplier {round_up(row.person_noise_multiplier, 6)} at equal compute) needs "
        f"less noise as long as their clipping norm is below {round_down(row.threshold, 4)} times that of single "
        f"examples"
    )
    if row.threshold >= 1.0:
        return f"{facts}, which holds: an averaged gradient is no longer than those averaged. Sample people."
    if row.threshold <= independent:
        return (
            f"{facts}. It hardly can be: even independent gradients of one person average to "
            f"{round_down(independent, 4)} of their norm. Sample examples."
        )
    return (
        f"{facts}. That ratio is between {round_down(independent, 4)} (a person's gradients are independent) and 1 "
        "(they are alike): measure it on public data."
    )


def _ratio(value: float, other: float) -> str:
    return f"{value / other:.3g}" if other > 0.0 else "infinity"
