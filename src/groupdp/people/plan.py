"""Comparing ways to sample for a table of counts: examples, people, or every example once an epoch.

All ways compute `batch_size` gradients in a step on average. At a cap k, with N_k the examples kept (min(k, count) of
each person) and P people:

    examples          Poisson sampling of the examples kept, rate B / N_k; groups of k
    people            Poisson sampling of people, rate B / N_k, each with up to k examples of their own, anew in every
                      step and clipped one by one; groups of one person
    people-together   the same, a person's gradients averaged and clipped once; groups of one person
    spread            each person's kept examples in distinct batches of an epoch, N_k / B of them; groups of k
    balls in bins     each example kept in one batch of an epoch, independently; groups of k

Signal-to-noise. The sum of a step is divided by a constant. Let every example's gradient have the clipping norm C,
two examples of one person the cosine `alike`, and let s be the part that all people share. One by one the average is s
per example and the noise sigma C / B in every direction, so B s / (sigma C). Together a person with j examples has
an average of norm r(j) C, r(j)^2 = alike + (1 - alike) / j; with C_user = r(k) C those with fewer are scaled by
r(k) / r(j), and the ratio is s sum_people r(k) / r(j) rate / (sigma C_user). `signal_to_noise` leaves s / C out: it is
the same for all ways. The noise of sampling itself is not part of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from groupdp.engines import Progress, work_done
from groupdp.errors import GroupDPError, InvalidArgument, LimitExceeded, require_choice, require_integer, require_number
from groupdp.groups import in_words
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.people.cap import FRONTIER, LARGEST_STUDY, CapRow, CapStudy, Study
from groupdp.printing import given_percent, lower_percent, round_down, round_up
from groupdp.samplings import BallsInBinsSampling, PoissonPeople, PoissonSampling, Sampling, SpreadSampling

#: What a way of sampling is called, and what it makes of (rate, batches of an epoch, cap).
_WAYS: dict[str, Callable[[float, int, int], Sampling]] = {
    "examples": lambda rate, batches, cap: PoissonSampling(rate=rate),
    "people": lambda rate, batches, cap: PoissonPeople(rate=rate, examples_per_person=cap),
    "people-together": lambda rate, batches, cap: PoissonPeople(rate=rate, examples_per_person=cap, clip_person=True),
    SpreadSampling.name: lambda rate, batches, cap: SpreadSampling(batches=batches, evenly=cap > batches),
    BallsInBinsSampling.name: lambda rate, batches, cap: BallsInBinsSampling(batches=batches),
}
WAYS = tuple(_WAYS)
#: Those compared if none are named: balls in bins takes long, and is never better than spread in what we computed.
USUAL = WAYS[:-1]
#: Most caps compared.
MOST_CAPS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """One way of sampling at one cap."""

    way: str
    cap: int
    """Examples kept of each person, or given to a step by each sampled person."""
    run: DPSGD
    """The run with the least noise that meets the target, to a relative 1e-3."""
    group_size: int
    share_used: float
    """The share of all examples used over the whole run; a sampled person may give other examples in every step."""
    signal_to_noise: float
    """Signal over noise of an averaged gradient, in units of (shared part of the gradients / clipping norm)."""
    allowed: bool
    """Whether it uses the minimum share."""

    @property
    def noise_multiplier(self) -> float:
        """Noise over the clipping norm: that of an example, or of a person's average if it is clipped once."""
        return self.run.noise_multiplier

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the data and the training code must satisfy."""
        bounded = f"Each person has at most {in_words(self.cap)}: bound the data first."
        of_data = () if self.run.sampling.unit == "person" else (bounded,)
        return (*of_data, *self.run.sampling.assumptions(microbatches=False), self.run.sampling.clipping)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The table, the best first, and what could not be compared."""

    rows: tuple[PlanRow, ...]
    refused: tuple[tuple[str, int, str], ...]
    """(way, cap, reason) of those without an answer."""
    epsilon: float
    delta: float
    batch_size: int
    adjacency: str
    alike: float
    minimum_share: float

    @property
    def recommended(self) -> PlanRow:
        """The best signal-to-noise ratio among the rows that use the minimum share."""
        return next(row for row in self.rows if row.allowed)


def plan(
    counts: Any,
    *,
    epsilon: float,
    delta: float,
    batch_size: int,
    steps: int | None = None,
    epochs: float | None = None,
    caps: Sequence[int] | None = None,
    ways: Sequence[str] = USUAL,
    alike: float = 0.5,
    minimum_share: float = 0.8,
    adjacency: str = "add-or-remove",
    engine: str = "auto",
    progress: Progress | None = None,
) -> Plan:
    """Compare ways to sample for people with these `counts`, at `batch_size` gradients in a step on average.

    Without `caps` those are tried that keep 50, 80 and 95 % of the examples and the minimum share, and a cap of 1.
    `alike` is the cosine that two gradients of one person are assumed to have. Every noise multiplier is certified.
    """
    study = Study(
        counts,
        epsilon=epsilon,
        delta=delta,
        batch_size=batch_size,
        steps=steps,
        epochs=epochs,
        minimum_share=minimum_share,
        adjacency=adjacency,
        engine=engine,
    )
    cosine = require_number("alike", alike, at_least=0.0, at_most=1.0)
    chosen = [require_choice("ways", way, WAYS) for way in ways]
    tried = [(way, cap) for cap in _caps(study, caps) for way in dict.fromkeys(chosen)]
    if not tried:
        raise InvalidArgument("ways", ways, f"name at least one of {', '.join(WAYS)}")
    rows, refused = [], []
    for done, (way, cap) in enumerate(tried):
        if work_done() > study.most_work:
            raise LimitExceeded(
                f"the comparison did not finish within its limit of {LARGEST_STUDY:.3g} operations: {done} of "
                f"{len(tried)} rows were computed (caps and ways limit them)."
            )
        try:
            rows.append(_row(study, way, cap, cosine))
        except (InvalidArgument, LimitExceeded) as error:
            refused.append((way, cap, str(error)))
        if progress is not None:
            progress((done + 1) / len(tried))
    if not any(row.allowed for row in rows):
        reasons = "; ".join(dict.fromkeys(reason for _, _, reason in refused)) or "they use too few examples"
        raise LimitExceeded(f"no way of sampling at these caps could be calibrated: {reasons}")
    return Plan(
        rows=tuple(sorted(rows, key=lambda row: (-row.signal_to_noise, row.way, row.cap))),
        refused=tuple(refused),
        epsilon=study.question["epsilon"],
        delta=study.question["delta"],
        batch_size=study.batch_size,
        adjacency=adjacency,
        alike=cosine,
        minimum_share=study.minimum_share,
    )


def _caps(study: Study, caps: Sequence[int] | None) -> list[int]:
    """The caps to compare, each of which leaves a batch."""
    if caps is None:
        wanted = {1, *(study.smallest(share) for share in (*FRONTIER, study.minimum_share))}
        return sorted(cap for cap in wanted if study.keeps(cap, 0.0))
    chosen = sorted({require_integer("caps", cap, at_least=1, at_most=study.highest) for cap in caps})
    if not chosen or len(chosen) > MOST_CAPS:
        raise InvalidArgument("caps", len(chosen), f"be from 1 to {MOST_CAPS} different ones")
    short = next((cap for cap in chosen if not study.keeps(cap, 0.0)), None)
    if short is not None:
        raise InvalidArgument("caps", short, f"keep at least batch_size = {study.batch_size} examples")
    return chosen


def _row(study: Study, way: str, cap: int, alike: float) -> PlanRow:
    kept = study.kept(cap)
    share = Fraction(study.batch_size, kept)
    sampling = _WAYS[way](float(share), math.ceil(1 / share), cap)
    by_people = sampling.unit == "person"
    group = 1 if by_people else cap
    run = DPSGD(sampling, noise_multiplier=1.0, steps=study.length(share))
    (noise,) = study.least_noises([(run, group, None)])
    if isinstance(noise, GroupDPError):
        raise noise
    run = replace(run, noise_multiplier=noise.value)
    batch = kept * float(sampling.share_of_data())  # an epoch has whole batches: at most batch_size on average
    signal = _together(study, cap, float(share), alike) if way == "people-together" else batch
    used = 1.0 if by_people else kept / study.total
    return PlanRow(
        way=way,
        cap=cap,
        run=run,
        group_size=group,
        share_used=used,
        signal_to_noise=signal / run.noise_multiplier if run.noise_multiplier > 0.0 else math.inf,
        allowed=used >= study.minimum_share,
    )


def _together(study: Study, cap: int, rate: float, alike: float) -> float:
    """rate sum_people 1 / r(j), j = min(cap, count), with r(j)^2 = alike + (1 - alike) / j."""
    given = np.minimum(study.values, cap)
    return rate * float(study.people @ (1.0 / np.sqrt(alike + (1.0 - alike) / given)))


#: Caps that keep less than this share of the examples are not passed over in silence.
_MUCH = 0.8


def advice(study: CapStudy) -> list[str]:
    """Sentences: the recommended cap, or the frontier where no minimum share was given; then the way of sampling."""
    if study.recommended is None:
        compared = next((row for row in study.rows if row.share_kept >= _MUCH), study.rows[-1])
        return [*_frontier(study), _sampling(compared)]
    row = study.row(study.recommended)
    kept = f"{lower_percent(row.share_kept)} of the examples"
    sentences = [f"Recommended: keep up to {row.cap} examples per person, {kept} (marked <)."]
    if row.share_kept < _MUCH:
        lost = Decimal(100) - Decimal(lower_percent(row.share_kept).removesuffix(" %"))
        sentences.append(f"This discards {lost} % of the data, as --minimum-share allows.")
    return [*sentences, _sampling(row)]


def _frontier(study: CapStudy) -> list[str]:
    """The least noise and the largest share, and caps between, without a recommendation."""
    first, last = study.rows[0], study.rows[-1]
    sentences = [
        "No cap is recommended: only you can say what the discarded examples are worth (--minimum-share).",
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
        return f"{facts}, which always holds: an average is never longer than its longest gradient. Sample people."
    if row.threshold <= independent:
        return (
            f"{facts}. That is hardly possible: the average of a person's gradients has "
            f"{round_down(independent, 4)} of their norm even if they are independent. Sample examples."
        )
    return (
        f"{facts}. That ratio is between {round_down(independent, 4)} (a person's gradients are independent) and 1 "
        "(they are alike): measure it on public data."
    )


def _ratio(value: float, other: float) -> str:
    return f"{value / other:.3g}" if other > 0.0 else "infinity"
