"""Choosing a contribution cap: how many examples of each person to keep.

A small cap drops examples and raises the sampling rate of those kept (the batch stays the same); a large one raises
the group size to protect. The study calibrates the noise for several caps. With a minimum share to keep it recommends
the cap with the least noise; without one it recommends none, since no accountant knows what examples are worth.

The alternative is to sample people at equal compute: a person is drawn with the same rate, their K kept examples (on
average) are averaged and clipped together to C_user, and the analysis is that of one example at that rate. The noise
of an averaged gradient is sigma_examples C_example / B for examples and sigma_people C_user K / B for people, so
sampling people has less noise when C_user / C_example < sigma_examples / (K sigma_people), the threshold.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from groupdp.bounds import Bounds
from groupdp.calibration import Calibration, calibrate_noises
from groupdp.engines import Progress, work_done
from groupdp.errors import (
    NOT_SHOWN,
    GroupDPError,
    InvalidArgument,
    InWords,
    LimitExceeded,
    require_integer,
    require_number,
)
from groupdp.groups import LARGEST_GROUP
from groupdp.mechanisms.dpsgd import DPSGD, steps_of_epochs
from groupdp.people import histogram_of, require_one_owner
from groupdp.samplings import PoissonSampling

#: Caps up to this are all tried; above, each is about this factor larger than the one before.
_EVERY = 8
_RATIO = 1.4
#: Above this cap the steps are larger: noise is by then nearly in proportion to the cap.
_LARGE = 1000
_LARGE_RATIO = 2.5
#: Shares of the examples whose smallest caps are printed where no minimum share is given.
FRONTIER = (0.5, 0.8, 0.95)
#: Caps tried between the neighbours of the best one.
_REFINED = 4
#: Work after which no further cap is calibrated (engines/__init__.py): about five minutes.
LARGEST_STUDY = 3_000_000_000
#: Relative tolerance of the calibrated noise, in the table and for the cap recommended.
_TOLERANCE = 1e-3
_FINE_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class CapRow:
    """One cap: what is kept, and the noise it needs."""

    cap: int
    examples_kept: int
    share_kept: float
    people_capped: int
    """People who lose examples."""
    sampling_rate: float
    steps: int
    noise_multiplier: float
    epsilon: Bounds
    proved_optimal: bool
    noise_per_average: float
    """noise_multiplier / batch_size: the standard deviation of the noise in an averaged gradient, over the
    clipping norm."""
    people_per_batch: float
    """Sampling people: how many of them a batch with as many examples has, on average."""
    person_noise_multiplier: float
    person_noise_per_average: float
    """person_noise_multiplier / people_per_batch."""
    threshold: float
    """Sampling people has less noise where C_user / C_example is below this."""
    allowed: bool
    """Whether this cap meets the constraints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapStudy:
    """The table, and the cap with the least noise per averaged gradient among those allowed."""

    rows: tuple[CapRow, ...]
    recommended: int | None
    """The recommended cap; None without a minimum share, since the value of dropped examples is then unknown."""
    target_epsilon: float
    delta: float
    batch_size: int
    minimum_share: float | None
    largest_cap: int | None
    adjacency: str

    def row(self, cap: int) -> CapRow:
        """The row of a cap that was tried."""
        for row in self.rows:
            if row.cap == cap:
                return row
        raise InvalidArgument("cap", cap, "be one of the caps tried")


def choose_cap(
    counts: Any,
    *,
    epsilon: float,
    delta: float,
    batch_size: int,
    steps: int | None = None,
    epochs: float | None = None,
    minimum_share: float | None = None,
    largest_cap: int | None = None,
    adjacency: str = "add-or-remove",
    engine: str = "auto",
    progress: Progress | None = None,
) -> CapStudy:
    """Tabulate caps for Poisson sampling with `batch_size` expected examples, and recommend one.

    `counts` are numbers of examples, one per person, of any size, or a `groupdp.data.Counts`. Constraints: at least
    `minimum_share` of all examples is kept, and the cap is at most `largest_cap`; without a minimum share no cap is
    recommended. Not every cap is tried: all up to 8, then each about 1.4 times the one before (2.5 times above 1000),
    the smallest that keeps the minimum share (or 50, 80 and 95 %), and a few around the best. Every noise multiplier is
    certified for its own cap; it is the smallest to a relative 1e-3, and to 1e-6 for the cap recommended.
    """
    study = Study(
        counts,
        epsilon=epsilon,
        delta=delta,
        batch_size=batch_size,
        steps=steps,
        epochs=epochs,
        minimum_share=minimum_share,
        largest_cap=largest_cap,
        adjacency=adjacency,
        engine=engine,
    )
    ladder = _ladder(study, FRONTIER if minimum_share is None else (study.minimum_share,))
    rows: dict[int, CapRow] = {}
    report = progress if progress is not None else (lambda _: None)
    study.fill(rows, ladder, lambda done: report(0.8 * done))
    best = None
    if minimum_share is not None:
        more = [cap for cap in _between(rows, study.best(rows), study.highest) if study.allows(cap)]
        study.fill(rows, more, lambda done: report(0.8 + 0.2 * done))
        best = study.best(rows)
        study.calibrate([best], rows, _FINE_TOLERANCE)
    return CapStudy(
        rows=tuple(rows[cap] for cap in sorted(rows)),
        recommended=best,
        target_epsilon=study.question["epsilon"],
        delta=study.question["delta"],
        batch_size=study.batch_size,
        minimum_share=minimum_share,
        largest_cap=largest_cap,
        adjacency=adjacency,
    )


class Study:
    """The validated question about a table of counts, and what caps leave of the table; `plan` uses it too."""

    def __init__(
        self,
        counts: Any,
        *,
        epsilon: Any,
        delta: Any,
        batch_size: Any,
        steps: Any,
        epochs: Any,
        minimum_share: Any,
        adjacency: str,
        engine: str,
        largest_cap: Any = None,
    ) -> None:
        require_one_owner(counts, adjacency)
        self.values, self.people = histogram_of(counts)
        self.total = int(self.values @ self.people)
        self.question: dict[str, Any] = {
            "epsilon": require_number("epsilon", epsilon, above=0.0),
            "delta": require_number("delta", delta, above=0.0, below=1.0),
            "adjacency": adjacency,
        }
        self.engine = engine
        self.batch_size = require_integer("batch_size", batch_size, at_least=1)
        self.steps = None if steps is None else require_integer("steps", steps, at_least=1)
        self.epochs = None if epochs is None else Fraction(require_number("epochs", epochs, above=0.0))
        share = 0.0 if minimum_share is None else minimum_share
        self.minimum_share = require_number("minimum_share", share, at_least=0.0, at_most=1.0)
        self.most_work = work_done() + LARGEST_STUDY
        if (steps is None) == (epochs is None):
            raise InvalidArgument("steps or epochs", NOT_SHOWN, "be given, and not both")
        self.highest = min(int(self.values[-1]), LARGEST_GROUP)
        """The largest cap that may be tried."""
        if largest_cap is not None:
            self.highest = min(self.highest, require_integer("largest_cap", largest_cap, at_least=1))
        kept = self.kept(self.highest)
        if self.batch_size > kept:
            raise InvalidArgument("batch_size", InWords(batch_size), f"be at most the number of examples kept ({kept})")
        if not self.allows(self.highest):
            most = f"be at most {kept / self.total!r} with caps up to {self.highest}"
            raise InvalidArgument("minimum_share", minimum_share, most)

    def smallest(self, share: float) -> int:
        """The smallest cap that keeps a share of the examples, which grows with the cap; `highest` if none does."""
        return 1 + bisect_left(range(1, self.highest), True, key=lambda cap: self.keeps(cap, share))

    def length(self, share: Fraction) -> int:
        """Steps of which each visits a share of the data."""
        return self.steps if self.steps is not None else steps_of_epochs(self.epochs or Fraction(1), share)

    def least_noises(
        self, asked: Sequence[tuple[DPSGD, int, float | None]], tolerance: float = _TOLERANCE
    ) -> list[Calibration | GroupDPError]:
        """The least noise with which each (run, group size, start) meets the target, or why there is none."""
        return calibrate_noises(asked, **self.question, tolerance=tolerance, engine=self.engine)

    def kept(self, cap: int) -> int:
        return int(np.minimum(self.values, cap) @ self.people)

    def allows(self, cap: int) -> bool:
        return self.keeps(cap, self.minimum_share)

    def keeps(self, cap: int, share: float) -> bool:
        """Whether a cap leaves a batch, and this share of all examples."""
        return self.batch_size <= self.kept(cap) and self.kept(cap) >= share * self.total

    def fill(self, rows: dict[int, CapRow], caps: list[int], progress: Callable[[float], None]) -> None:
        """Rows for the caps that are missing."""
        missing = [cap for cap in caps if cap not in rows and self.batch_size <= self.kept(cap)]
        done = 0
        for wave in _waves(missing):
            if work_done() > self.most_work:
                raise LimitExceeded(
                    f"the study of caps did not finish within its limit of {LARGEST_STUDY:.3g} operations: {len(rows)} "
                    f"caps were calibrated, up to {max(rows, default=0)} (largest_cap limits them)."
                )
            self.calibrate(wave, rows)
            done += len(wave)
            progress(done / len(missing))

    def calibrate(self, caps: Sequence[int], rows: dict[int, CapRow], tolerance: float = _TOLERANCE) -> None:
        """Rows for the caps, whose trials are asked in batches; each search starts from the noise of the nearest row.

        A cap that the engines decline gets no row; the first one must have one.
        """
        asked: list[tuple[DPSGD, int, float | None]] = []
        for cap in caps:
            share = Fraction(self.batch_size, self.kept(cap))
            sampling = PoissonSampling(rate=float(share))
            run = DPSGD(sampling, noise_multiplier=1.0, steps=self.length(share))
            start = person_start = None
            if rows:  # noise grows nearly in proportion to cap x rate
                near = rows[min(rows, key=lambda other: abs(math.log(other / cap)))]
                start = near.noise_multiplier * (cap * sampling.rate) / (near.cap * near.sampling_rate)
                person_start = near.person_noise_multiplier
            asked += [(run, cap, start or None), (run, 1, person_start or None)]
        answers = self.least_noises(asked, tolerance)
        for cap, (run, _, _), of_cap, of_person in zip(caps, asked[::2], answers[::2], answers[1::2], strict=True):
            refused = next((answer for answer in (of_cap, of_person) if isinstance(answer, GroupDPError)), None)
            if isinstance(of_cap, Calibration) and isinstance(of_person, Calibration):
                rows[cap] = self._row(cap, run.steps, of_cap, of_cap if cap == 1 else of_person)
            elif refused is not None and not (rows and isinstance(refused, LimitExceeded)):
                raise refused

    def _row(self, cap: int, steps: int, examples: Calibration, people: Calibration) -> CapRow:
        kept = self.kept(cap)
        rate = float(Fraction(self.batch_size, kept))
        people_per_batch = rate * int(self.people.sum())
        return CapRow(
            cap=cap,
            examples_kept=kept,
            share_kept=kept / self.total,
            people_capped=int(self.people[self.values > cap].sum()),
            sampling_rate=rate,
            steps=steps,
            noise_multiplier=examples.value,
            epsilon=examples.epsilon,
            proved_optimal=examples.proved_optimal,
            noise_per_average=examples.value / self.batch_size,
            people_per_batch=people_per_batch,
            person_noise_multiplier=people.value,
            person_noise_per_average=people.value / people_per_batch,
            threshold=(
                examples.value * people_per_batch / (self.batch_size * people.value) if people.value > 0.0 else math.inf
            ),
            allowed=self.allows(cap),
        )

    def best(self, rows: dict[int, CapRow]) -> int:
        """The allowed cap with the least noise; of equals, the one that keeps more."""
        allowed = [row for row in rows.values() if row.allowed]
        if not allowed:
            raise LimitExceeded("no cap that meets the constraints could be calibrated within the engines' limits.")
        return min(allowed, key=lambda row: (row.noise_per_average, -row.cap)).cap


def _ladder(study: Study, shares: Sequence[float]) -> list[int]:
    """The caps to try first, the smallest that keep these shares of the examples among them."""
    caps = {*range(1, _EVERY + 1), study.highest, *map(study.smallest, shares)}
    cap = float(_EVERY)
    while cap < study.highest:
        caps.add(round(cap))
        cap *= _RATIO if cap < _LARGE else _LARGE_RATIO
    return sorted(cap for cap in caps if cap <= study.highest)


def _waves(caps: list[int]) -> Iterator[list[int]]:
    """The first cap, then growing batches of the others, each cap near an earlier one."""
    stride, done = 4 ** len(caps), set[int]()
    while len(done) < len(caps):
        wave = [i for i in range(0, len(caps), stride) if i not in done]
        done.update(wave)
        stride = max(stride // 4, 1)
        if wave:
            yield [caps[i] for i in wave]


def _between(rows: dict[int, CapRow], best: int, highest: int) -> list[int]:
    """A few caps between the best one and its neighbours."""
    tried = sorted(rows)
    position = tried.index(best)
    low = tried[position - 1] if position > 0 else best
    high = tried[position + 1] if position + 1 < len(tried) else highest
    caps = np.unique(np.rint(np.linspace(low, high, _REFINED + 2)).astype(int))
    return [int(cap) for cap in caps if cap not in rows]
