"""Sampling people instead of examples: a batch holds people, and each of them gives a few examples.

A group then counts people. What one person adds to a sum has a norm of at most `reach` clipping norms: the number of
examples they give, if each is clipped on its own, and 1 if their gradients are summed or averaged and clipped once. So
every law of the plain sampling holds with its shifts times `reach` (P-22); where the number of examples is drawn from a
public law, it is convolved (P-23).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords
from groupdp.fields import BATCH_SIZE, DATASET_SIZE, SAMPLING_RATE, Field, count, flag, probability, real
from groupdp.groups import LARGEST_GROUP
from groupdp.laws import people_law
from groupdp.neighbours import Change
from groupdp.pairs import ZERO, AnyRound, Branch, Round, Side, SubstitutionEnvelope
from groupdp.samplings.audited import AuditedDataset, IndependentSums, sums_of
from groupdp.samplings.poisson import PoissonSampling, TruncatedPoissonSampling, counted
from groupdp.samplings.sampling import EXAMPLES_CLIPPED, BoolArray, Rounds, Sampling
from groupdp.samplings.sized_batches import FixedBatchSampling

_UP_TO_A_GROUP: dict[str, Any] = {"unit": "examples", "at_most": LARGEST_GROUP, "logarithmic": False}
EXAMPLES_PER_PERSON = count(
    "examples_per_person", "Examples that a sampled person gives to a step, at most.", (4, 1, 64), **_UP_TO_A_GROUP
)
CLIP_PERSON = flag("clip_person", "Clip the sum or average of a person's gradients once, not each gradient.")
_OF_PEOPLE = (EXAMPLES_PER_PERSON, CLIP_PERSON)
_RATE = replace(SAMPLING_RATE, meaning="Probability that a person joins a batch.")
_PEOPLE = replace(DATASET_SIZE, unit="people", meaning="People in the smaller of two neighbouring datasets.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleSampling(Sampling):
    """What the samplings of people have in common."""

    examples_per_person: int
    clip_person: bool = False

    #: The sampling that treats an example as this one treats a person: both have the same laws.
    plain_kind: ClassVar[type[Sampling]]
    unit: ClassVar[str] = "person"

    def __init_subclass__(cls) -> None:
        plain = cls.plain_kind
        cls.adjacencies, cls.leaks_most_where_smallest = plain.adjacencies, plain.leaks_most_where_smallest
        cls.refusals = {name: reason.replace("examples", "people") for name, reason in plain.refusals.items()}

    def __post_init__(self) -> None:
        Sampling.__post_init__(self)
        _ = self.plain  # which checks that its fields go together

    @property
    def plain(self) -> Sampling:
        """The same sampling of single examples: a person counts as one example."""
        fields = (field.attribute for field in self.plain_kind.fields)
        return self.plain_kind(**{name: getattr(self, name) for name in fields})

    @property
    def reach(self) -> int:
        """The largest norm of what a person adds to a sum, in clipping norms."""
        return 1 if self.clip_person else self.examples_per_person

    def rounds(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> Rounds:
        """The rounds of the plain sampling, with shifts times `reach` (P-22)."""
        if microbatches:
            raise InvalidArgument(
                "microbatch_size",
                InWords("more"),
                "be 1 where people are sampled",
                "clip_person is for gradients that are averaged person by person",
            )
        rounds = self.plain.rounds(change, noise=1.0, steps=steps, microbatches=False)
        return tuple((_stretched(round_, self.reach, noise), times) for round_, times in rounds)

    def is_tight(self, change: Change, *, steps: int) -> bool:
        return self.plain.is_tight(change, steps=steps)

    def assumptions(self, *, microbatches: bool) -> tuple[str, ...]:
        sampled = tuple(
            sentence.replace("each example", "each person").replace(" examples", " people")
            for sentence in self.plain.assumptions(microbatches=False)
        )
        return (
            *sampled,
            f"A sampled person gives at most {self.examples_per_person} of their examples to a step.",
            "Which examples a person gives may depend on their own data and on earlier releases, and does not change "
            "who else is in the batch or what the others give.",
            "The sum is divided by a constant that depends neither on the people in the batch nor on their examples.",
        )

    @property
    def clipping(self) -> str:
        if not self.clip_person:
            return EXAMPLES_CLIPPED
        return "Each sampled person's gradients are summed or averaged, and the result is clipped to the clipping norm."

    def share_of_data(self) -> Fraction:
        return self.plain.share_of_data()

    def describe(self) -> str:
        """In a line, without what is not used: "Poisson sampling of people, sampling rate 0.01, ..."."""
        values = self.values()
        parts = (field.stated(values[field.name]) for field in self.fields if values[field.name] != field.default)
        return ", ".join((self.title, *filter(None, parts)))

    @property
    def rows(self) -> int:
        """How many rows of a simulated dataset belong to one person; each row is clipped on its own."""
        return self.reach

    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        """Example i belongs to person i // `rows`."""
        people = -(-dataset_size // self.rows)
        for batch in self.plain.sampled_batches(generator, trials=trials, dataset_size=people):
            yield np.repeat(batch, self.rows, axis=1)[:, :dataset_size]

    def audited_datasets(self, change: Change, *, ordinary_examples: int) -> tuple[AuditedDataset, AuditedDataset]:
        """The datasets of the plain sampling, with `rows` examples of a person that move alike: attains P-22."""
        first, second = self.plain.audited_datasets(change, ordinary_examples=ordinary_examples)
        return self._of_people(first), self._of_people(second)

    def _of_people(self, dataset: AuditedDataset) -> AuditedDataset:
        sums = dataset.releases
        if not isinstance(sums, IndependentSums):
            raise AssertionError("people are drawn anew in every step")
        census = tuple((move, count * self.rows) for move, count in dataset.census)
        return AuditedDataset(census, IndependentSums(sums.values * self.reach, sums.log_weights))

    def largest_group(self, adjacency: str) -> int | None:
        return self.plain.largest_group(adjacency)


@lru_cache(maxsize=256)
def _stretched(round_: AnyRound, reach: int, noise: float) -> AnyRound:
    """A round of sensitivities (integers, so that a product is exact) as one of shifts."""
    if isinstance(round_, SubstitutionEnvelope):
        return SubstitutionEnvelope(_divided(round_.side, reach, noise))
    if not isinstance(round_, Round):
        raise AssertionError("a sampling of people has rounds of mixtures")
    branches = [Branch(*(_divided(side, reach, noise) for side in (b.right, b.left))) for b in round_.branches]
    lower = None if round_.lower is None else _stretched(round_.lower, reach, noise)
    return Round(branches, round_.log_weights, lower if isinstance(lower, Round) else None)


def _divided(side: Side, reach: int, noise: float) -> Side:
    return Side(reach * side.shifts, (side.probabilities, side.log_probabilities)).divided(noise)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonPeople(PeopleSampling):
    """Every round includes each person independently with probability `rate`.

    With an `example_rate` r below 1 each of a sampled person's examples, at most `examples_held`, is kept with
    probability r, independently, and at most `examples_per_person` of those kept are used.
    """

    rate: float
    example_rate: float = 1.0
    examples_held: int = 0

    plain_kind: ClassVar[type[Sampling]] = PoissonSampling
    name: ClassVar[str] = "poisson-people"
    title: ClassVar[str] = "Poisson sampling of people"
    meaning: ClassVar[str] = "Every person joins every batch with the same probability, with some of their examples."
    meant_by: ClassVar[str] = EXAMPLES_PER_PERSON.name
    fields: ClassVar[tuple[Field, ...]] = (
        _RATE,
        *_OF_PEOPLE,
        real(
            "example_rate",
            "Probability that each example of a sampled person is kept, independently of the data.",
            (1.0, 1e-3, 1.0),
            unit="probability",
            above=0.0,
            at_most=1.0,
            parser=lambda key, value: float(probability(key, value)),
            default=1.0,
            example="0.1",
        ),
        count(
            "examples_held",
            "The most examples that a person has; needed with an example rate below 1.",
            (0, 0, 1000),
            at_least=0,
            default=0,
            example="100",
            **_UP_TO_A_GROUP,
        ),
    )
    epsilon_grows_with: ClassVar[tuple[str, ...]] = ("rate", "examples_per_person")

    def __post_init__(self) -> None:
        PeopleSampling.__post_init__(self)
        if self.is_random and self.examples_held == 0:
            raise InvalidArgument("examples_held", NOT_SHOWN, "be given with an example_rate below 1")

    @property
    def is_random(self) -> bool:
        """Whether a sampled person's number of examples is random."""
        return self.example_rate < 1.0

    def rounds(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> Rounds:
        """P-22; P-23 where the number of examples is random: the sum over people of 0 or min(Binom(n, r), reach)."""
        rounds = PeopleSampling.rounds(self, change, noise=noise, steps=steps, microbatches=microbatches)
        if not self.is_random:
            return rounds
        sides = (self._side(counted(group), noise) for group in (change.removed, change.added))
        return ((Round.of(*sides), steps),)

    def _side(self, people: int, noise: float) -> Side:
        if people == 0:
            return ZERO
        law = people_law(people, self.rate, self.examples_held, self.example_rate, self.reach)
        return Side.from_sensitivities(np.arange(len(law[0]), dtype=np.float64), law, noise)

    def assumptions(self, *, microbatches: bool) -> tuple[str, ...]:
        sentences = PeopleSampling.assumptions(self, microbatches=microbatches)
        if not self.is_random:
            return sentences
        return (
            *sentences,
            f"A person has at most {self.examples_held} examples; each example of a sampled person is kept with "
            "the stated probability, independently of the data and of all other examples.",
        )

    @property
    def rows(self) -> int:
        return self.examples_held if self.is_random and not self.clip_person else self.reach

    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        whole = PeopleSampling.sampled_batches(self, generator, trials=trials, dataset_size=dataset_size)
        if not self.is_random:
            yield from whole
            return
        people = -(-dataset_size // self.rows)
        for batch in whole:
            kept: BoolArray = generator.random((trials, people, self.examples_held)) < self.example_rate
            if self.clip_person:  # a row is a person's clipped sum, which is 0 where none is kept
                kept = np.asarray(kept.any(axis=2, keepdims=True))
            kept &= np.cumsum(kept, axis=2) <= self.reach
            yield batch & kept.reshape(trials, -1)[:, :dataset_size]

    def audited_datasets(self, change: Change, *, ordinary_examples: int) -> tuple[AuditedDataset, AuditedDataset]:
        first, second = PeopleSampling.audited_datasets(self, change, ordinary_examples=ordinary_examples)
        if not self.is_random:
            return first, second
        leaving, joining = self._sums(counted(change.removed), 1.0), self._sums(counted(change.added), -1.0)
        return AuditedDataset(first.census, leaving), AuditedDataset(second.census, joining)

    def _sums(self, people: int, move: float) -> IndependentSums:
        """The density's own convolution, in doubles: nothing is shared with the law of the accountant."""
        held, r = self.examples_held, self.example_rate
        person = np.zeros(self.reach + 1)
        weight = (1.0 - r) ** held
        for i in range(held + 1):
            person[min(i, self.reach)] += self.rate * weight
            weight *= (held - i) / (i + 1.0) * r / (1.0 - r)
        person[0] += 1.0 - self.rate
        law = np.ones(1)
        for _ in range(people):
            law = np.convolve(law, person)
        with np.errstate(divide="ignore"):
            return sums_of({move * i: float(np.log(p)) for i, p in enumerate(law)})


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedPeople(PeopleSampling):
    """Every round draws `batch_size` people of `dataset_size`, uniformly, without replacement."""

    batch_size: int
    dataset_size: int

    plain_kind: ClassVar[type[Sampling]] = FixedBatchSampling
    name: ClassVar[str] = "fixed-people"
    title: ClassVar[str] = "a fixed number of people"
    meaning: ClassVar[str] = (
        "Every batch is a uniform set of people, drawn anew in every round, with some examples each."
    )
    fields: ClassVar[tuple[Field, ...]] = (
        replace(BATCH_SIZE, unit="people", meaning="People in a batch."),
        _PEOPLE,
        *_OF_PEOPLE,
    )
    epsilon_grows_with: ClassVar[tuple[str, ...]] = ("batch_size", "examples_per_person")


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedPeople(PeopleSampling):
    """Every round includes each person independently with probability `rate`; of a batch of more than `largest_batch`
    people that many are kept, uniformly at random.
    """

    rate: float
    largest_batch: int
    dataset_size: int

    plain_kind: ClassVar[type[Sampling]] = TruncatedPoissonSampling
    name: ClassVar[str] = "truncated-people"
    title: ClassVar[str] = "truncated Poisson sampling of people"
    meaning: ClassVar[str] = "Poisson sampling of people; a batch above the largest is cut to it at random."
    fields: ClassVar[tuple[Field, ...]] = (
        _RATE,
        replace(
            next(field for field in TruncatedPoissonSampling.fields if field.name == "largest_batch"),
            unit="people",
            meaning="A batch with more people is cut to this many, at random.",
        ),
        replace(_PEOPLE, meaning="People in the dataset without the group."),
        *_OF_PEOPLE,
    )
