"""Drawn indices against the law of a sampling.

Every test is exact, and the whole of them raises a false alarm with probability at most `false_alarm`: each of m tests
has its share 1/m of it. A claim that is not contradicted is not proved: a defect may be too rare for what was drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords, require_number
from groupdp.floats import IntArray
from groupdp.loading.draws import (
    Drawn,
    Finding,
    at_most_once,
    binomial,
    binomial_law,
    exactly_once,
    excluded,
    hypergeometric_law,
    quantile_counts,
    require_whole_epochs,
    shared_rounds,
)
from groupdp.samplings import (
    BallsInBinsSampling,
    FixedBatchSampling,
    FixedOrderSampling,
    PoissonSampling,
    Sampling,
    ShuffledSampling,
    SpreadSampling,
)

FALSE_ALARM = 1e-6
#: Epochs times examples that are tested at once: about 2 GB.
_MOST = 10**8


@dataclass(frozen=True, slots=True)
class Fit:
    """What the tests found."""

    claim: Sampling
    findings: tuple[Finding, ...]
    false_alarm: float
    epochs: int
    draws: int

    @property
    def contradicting(self) -> tuple[Finding, ...]:
        """The findings that contradict the claim, at the stated false alarm rate."""
        share = self.false_alarm / len(self.findings)
        return tuple(finding for finding in self.findings if finding.p_value < share)

    @property
    def contradicted(self) -> bool:
        return bool(self.contradicting)

    def __str__(self) -> str:
        seen = f"{self.draws} indices of {self.epochs} epochs"
        if not self.contradicted:
            return f"{seen} do not contradict {self.claim.describe()}. That does not prove the claim."
        said = "; ".join(finding.what for finding in self.contradicting)
        return (
            f"{seen} contradict {self.claim.describe()} (a false alarm has a probability of at most "
            f"{self.false_alarm:g}): {said}."
        )


def steps_of_epoch(claim: Sampling, dataset_size: int) -> int:
    """The steps of one epoch of a sampling that has a test."""
    if type(claim) not in _TESTS:
        *names, last = (kind.name for kind in _TESTS)
        needed, reason = f"be {', '.join(names)} or {last}", "no test of drawn indices is known for others"
        raise InvalidArgument("sampling", InWords(claim.name), needed, reason)
    if isinstance(claim, BallsInBinsSampling | SpreadSampling):
        return claim.batches
    size = getattr(claim, "batch_size", None)
    return int(-(-1 // claim.share_of_data())) if size is None else -(-dataset_size // size)


def fit(drawn: Drawn, claim: Sampling, *, people: IntArray | None = None, false_alarm: float = FALSE_ALARM) -> Fit:
    """Test drawn indices against a claim; `people` says each example's person where the claim is spread allocation."""
    alarm = require_number("false_alarm", false_alarm, above=0.0, at_most=0.1)
    steps_of_epoch(claim, drawn.dataset_size)
    require_whole_epochs(drawn)
    if drawn.epochs * drawn.dataset_size > _MOST:
        most = _MOST // drawn.dataset_size
        raise InvalidArgument("epochs", drawn.epochs, f"be at most {most} for a dataset of this size")
    stated = getattr(claim, "dataset_size", drawn.dataset_size)
    if stated != drawn.dataset_size:
        raise InvalidArgument("dataset_size", stated, f"be {drawn.dataset_size}, the size of the dataset drawn from")
    outside = (drawn.index < 0) | (drawn.index >= drawn.dataset_size)
    if np.any(outside):
        return Fit(claim, (excluded("An index outside of the dataset", int(outside.sum())),), alarm, drawn.epochs, 0)
    keys = drawn.rounds * drawn.dataset_size + drawn.index
    findings = [excluded("An example more than once in a batch", int(keys.size - np.unique(keys).size))]
    tests = _TESTS[type(claim)](drawn, claim, people)
    findings += [test for test in tests if test is not None]
    return Fit(claim, tuple(findings), alarm, drawn.epochs, len(drawn.index))


def _poisson(drawn: Drawn, rate: float) -> Iterator[Finding | None]:
    """All coins are independent, so any set of disjoint events has a binomial count."""
    size, rounds = drawn.dataset_size, drawn.epochs * drawn.steps
    yield binomial("Examples drawn", len(drawn.index), size * rounds, rate)
    counts = np.bincount(drawn.index, minlength=size)
    yield binomial("Steps with one particular example", counts, rounds, rate)
    yield quantile_counts("Batches with {} examples", drawn.sizes().reshape(-1), binomial_law(size, rate))
    even = np.arange(0, rounds - 1, 2)
    shared = shared_rounds(drawn, even, even + 1)
    yield binomial("Examples of a batch that are also in the next batch", shared.sum(), size * len(even), rate**2)
    again = _epoch_pairs(drawn)
    repeated = shared_rounds(drawn, again, again + drawn.steps)
    yield binomial("Examples in the same batch of the next epoch", repeated.sum(), size * len(again), rate**2)
    per_epoch = np.bincount(drawn.epoch * size + drawn.index, minlength=drawn.epochs * size)
    once = drawn.steps * rate * (1.0 - rate) ** (drawn.steps - 1)
    yield binomial("Examples exactly once in an epoch", (per_epoch == 1).sum(), drawn.epochs * size, once)
    yield binomial("Pairs of neighbours in one batch", _neighbours(drawn), rounds * (size // 2), rate**2)


def _epoch_pairs(drawn: Drawn) -> IntArray:
    """The rounds of every other epoch that is followed by another one."""
    firsts = np.arange(0, drawn.epochs - 1, 2) * drawn.steps
    return np.asarray((firsts[:, np.newaxis] + np.arange(drawn.steps)).reshape(-1), dtype=np.int64)


def _neighbours(drawn: Drawn) -> int:
    """How often examples 2 i and 2 i + 1 are in one batch."""
    half = drawn.dataset_size // 2
    inside = drawn.index < 2 * half
    keys = drawn.rounds[inside] * (half + 1) + drawn.index[inside] // 2
    return int((np.unique(keys, return_counts=True)[1] == 2).sum())


def _thrown(drawn: Drawn, alone: IntArray) -> Iterator[Finding | None]:
    """Examples `alone`, of different people, are thrown independently and uniformly, in every epoch anew."""
    batches = drawn.steps
    for finding in exactly_once(drawn):
        yield finding
        if finding.p_value == 0.0:
            return
    places = drawn.place()[:, alone]
    by_batch = np.bincount(places.reshape(-1), minlength=batches)
    yield binomial("Examples in one particular batch", by_batch, places.size, 1.0 / batches)
    first = np.arange(0, drawn.epochs - 1, 2)
    same = (places[first] == places[first + 1]).sum()
    yield binomial("Examples in the same batch of the next epoch", same, len(first) * len(alone), 1.0 / batches)
    pairs = len(alone) // 2
    together = (places[:, : 2 * pairs : 2] == places[:, 1 : 2 * pairs : 2]).sum()
    yield binomial("Pairs of neighbours in one batch", together, drawn.epochs * pairs, 1.0 / batches)
    held = np.stack([(places == batch).sum(axis=0) for batch in range(min(batches, 16))], axis=1)
    yield binomial("Epochs with one particular example in one particular batch", held, drawn.epochs, 1.0 / batches)
    sizes = (places == 0).sum(axis=1)
    yield quantile_counts("Epochs whose first batch has {} examples", sizes, binomial_law(len(alone), 1 / batches))


def _spread(drawn: Drawn, people: IntArray | None) -> Iterator[Finding | None]:
    if people is None or len(people) != drawn.dataset_size:
        needed = "be given for spread allocation: the person of every example (in a log, the column person)"
        raise InvalidArgument("people", NOT_SHOWN, needed)
    _, first, person = np.unique(people, return_index=True, return_inverse=True)
    counts = np.bincount(person)
    keys = (drawn.rounds * len(counts)) + person[drawn.index]
    held_keys, held = np.unique(keys, return_counts=True)
    most = -(-counts // drawn.steps)
    more = int((held > most[held_keys % len(counts)]).sum())
    yield excluded("More examples of one person in a batch than an even spread has", more)
    yield from _thrown(drawn, np.asarray(first, dtype=np.int64))


def _shuffled(drawn: Drawn, batch_size: int) -> Iterator[Finding | None]:
    """Epochs are independent; within one, places are those of a permutation."""
    size = drawn.dataset_size
    for finding in (at_most_once(drawn), _largest(drawn, batch_size)):
        yield finding
        if finding.p_value == 0.0:
            return
    whole, chance = size // batch_size, batch_size / size
    other = int((drawn.sizes()[:, :whole] != batch_size).sum())
    yield excluded(f"A batch other than the last without {batch_size} examples", other)
    places = drawn.place()
    of_first = (places == 0).sum(axis=0)
    yield binomial("Epochs with one particular example in the first batch", of_first, drawn.epochs, chance)
    last = (places == whole - 1).sum(axis=0)
    yield binomial("Epochs with one particular example in the last whole batch", last, drawn.epochs, chance)
    first = np.arange(0, drawn.epochs - 1, 2)
    inside = (places[first] == places[first + 1]) & (places[first] >= 0) & (places[first] < whole)
    again = whole * chance**2
    yield binomial("One particular example in the same batch of the next epoch", inside.sum(axis=0), len(first), again)
    pairs = size // 2
    together = (places[:, : 2 * pairs : 2] == places[:, 1 : 2 * pairs : 2]) & (places[:, : 2 * pairs : 2] < whole)
    together &= places[:, : 2 * pairs : 2] >= 0
    meeting, met = whole * chance * (batch_size - 1) / (size - 1) if size > 1 else 1.0, together.sum(axis=0)
    yield binomial("Epochs with one particular pair of neighbours in one batch", met, drawn.epochs, meeting)


def _fixed_batch(drawn: Drawn, batch_size: int) -> Iterator[Finding | None]:
    """Batches of different steps are independent."""
    size, rounds = drawn.dataset_size, drawn.epochs * drawn.steps
    yield excluded(f"A batch without exactly {batch_size} examples", int((drawn.sizes() != batch_size).sum()))
    counts = np.bincount(drawn.index, minlength=size)
    yield binomial("Steps with one particular example", counts, rounds, batch_size / size)
    law = hypergeometric_law(batch_size, size)
    even = np.arange(0, rounds - 1, 2)
    yield quantile_counts("Batches that share {} examples with the next", shared_rounds(drawn, even, even + 1), law)
    again = _epoch_pairs(drawn)
    shared = shared_rounds(drawn, again, again + drawn.steps)
    yield quantile_counts("Batches that share {} examples with that of the next epoch", shared, law)


def _largest(drawn: Drawn, batch_size: int) -> Finding:
    return excluded(f"A batch of more than {batch_size} examples", int((drawn.sizes() > batch_size).sum()))


def drawn_from(epochs: Iterable[Iterable[Any]], *, steps: int, dataset_size: int) -> Drawn:
    """The indices of epochs of batches; an epoch of another number of steps is refused."""
    batches: list[IntArray] = []
    count = 0
    for epoch in epochs:
        batches += [np.asarray(batch if len(batch) else [], dtype=np.int64).reshape(-1) for batch in epoch]
        made = len(batches) - count * steps
        if made != steps:
            raise InvalidArgument("loader", InWords(f"{made} batches in an epoch"), f"have {steps}, as the claim says")
        count += 1
    rounds = np.repeat(np.arange(len(batches)), [len(batch) for batch in batches])
    return Drawn(rounds // steps, rounds % steps, np.concatenate(batches), count, steps, dataset_size)


#: The test of every sampling that has one: from (drawn, claim, people) to its findings.
_TESTS: dict[type[Sampling], Callable[[Drawn, Any, IntArray | None], Iterable[Finding | None]]] = {
    PoissonSampling: lambda drawn, claim, _: _poisson(drawn, claim.rate),
    BallsInBinsSampling: lambda drawn, claim, _: _thrown(drawn, np.arange(drawn.dataset_size)),
    SpreadSampling: lambda drawn, claim, people: _spread(drawn, people),
    ShuffledSampling: lambda drawn, claim, _: _shuffled(drawn, claim.batch_size),
    FixedBatchSampling: lambda drawn, claim, _: _fixed_batch(drawn, claim.batch_size),
    FixedOrderSampling: lambda drawn, claim, _: [at_most_once(drawn), _largest(drawn, claim.batch_size)],
}
