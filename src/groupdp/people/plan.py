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
from fractions import Fraction
from typing import Any

import numpy as np

from groupdp._validation import require_choice, require_integer, require_number
from groupdp.engines.interface import Progress, work_done
from groupdp.errors import GroupDPError, InvalidArgument, LimitExceeded
from groupdp.groups import in_words
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.people.cap import FRONTIER, LARGEST_STUDY, Study
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
    """With the least noise that meets the target, to a relative 1e-3."""
    group_size: int
    share_used: float
    """Of all examples, over the whole run: a sampled person may give other examples in every step."""
    signal_to_noise: float
    """Of an averaged gradient, in units of (shared part of the gradients / clipping norm)."""
    allowed: bool
    """Whether it uses the minimum share."""

    @property
    def noise_multiplier(self) -> float:
        """In units of the clipping norm: of an example, or of a person's average where it is clipped once."""
        return self.run.noise_multiplier

    @property
    def assumes(self) -> tuple[str, ...]:
        """What has to hold of the data and the training code."""
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
    study, highest = Study.of(
        counts,
        epsilon=epsilon,
        delta=delta,
        batch_size=batch_size,
        steps=steps,
        epochs=epochs,
        minimum_share=minimum_share,
        largest_cap=None,
        adjacency=adjacency,
        engine=engine,
    )
    cosine = require_number("alike", alike, at_least=0.0, at_most=1.0)
    chosen = [require_choice("ways", way, WAYS) for way in ways]
    tried = [(way, cap) for cap in _caps(study, highest, caps) for way in dict.fromkeys(chosen)]
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
        epsilon=study.epsilon,
        delta=study.delta,
        batch_size=study.batch_size,
        adjacency=adjacency,
        alike=cosine,
        minimum_share=study.minimum_share,
    )


def _caps(study: Study, highest: int, caps: Sequence[int] | None) -> list[int]:
    """The caps to compare, each of which leaves a batch."""
    if caps is None:
        wanted = {1, *(study.smallest(share, highest) for share in (*FRONTIER, study.minimum_share))}
        return sorted(cap for cap in wanted if study.keeps(cap, 0.0))
    found = sorted({require_integer("caps", cap, at_least=1, at_most=highest) for cap in caps})
    if not found or len(found) > MOST_CAPS:
        raise InvalidArgument("caps", len(found), f"be from 1 to {MOST_CAPS} different ones")
    short = next((cap for cap in found if not study.keeps(cap, 0.0)), None)
    if short is not None:
        raise InvalidArgument("caps", short, f"keep at least batch_size = {study.batch_size} examples")
    return found


def _row(study: Study, way: str, cap: int, alike: float) -> PlanRow:
    kept = study.kept(cap)
    share = Fraction(study.batch_size, kept)
    sampling = _WAYS[way](float(share), math.ceil(1 / share), cap)
    by_people = sampling.unit == "person"
    group = 1 if by_people else cap
    run = DPSGD(sampling, noise_multiplier=1.0, steps=study.length(share))
    (found,) = study.least_noises([(run, group, None)])
    if isinstance(found, GroupDPError):
        raise found
    run = replace(run, noise_multiplier=found.value)
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
