"""Poisson sampling: every example on its own, with one rate, a rate for each source, or a largest batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from groupdp.errors import LARGEST_DATASET, NOT_SHOWN, InvalidArgument, InWords, require_number
from groupdp.fields import DATASET_SIZE, SAMPLING_RATE, Field, Slider, count, probability, table
from groupdp.groups import Group, is_empty
from groupdp.laws import binomial_law, sum_of_binomials_law
from groupdp.neighbours import ADD_AND_REMOVE, ADJACENCIES, EXCHANGE, ONE_SIDED, SUBSTITUTE, ZERO_OUT, Change
from groupdp.pairs import ZERO, Branch, Round, Side
from groupdp.samplings.audited import AuditedDataset, cut_batches, independent_members
from groupdp.samplings.sampling import BoolArray, Rounds, Sampling

#: Most sources of one run.
MOST_SOURCES = 1000
_NO_LAW = "both groups affect which other examples are cut away, and no bound is proved"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonSampling(Sampling):
    """Every round includes each example independently with probability `rate`."""

    rate: float

    name: ClassVar[str] = "poisson"
    title: ClassVar[str] = "Poisson sampling"
    meaning: ClassVar[str] = (
        "Every example joins every batch with the same probability, independently. A loader that shuffles does not do "
        "this: choose shuffled epochs."
    )
    meant_by: ClassVar[str] = "sampling_rate"
    fields: ClassVar[tuple[Field, ...]] = (SAMPLING_RATE,)
    adjacencies: ClassVar[tuple[str, ...]] = (*ADJACENCIES, EXCHANGE)
    epsilon_grows_with: ClassVar[tuple[str, ...]] = ("rate",)
    has_random_sizes: ClassVar[bool] = True
    needed: ClassVar[tuple[str, ...]] = ("Every step includes each example independently with the stated probability.",)

    def rounds(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> Rounds:
        """(Binom(a, q), Binom(b, q)) for a removed and b added: tight with gradients +e and -e (P-1, P-2).

        Zeroed examples change the sum as removed ones do. In microbatches each of the group's examples changes one
        clipped average, by at most 2.
        """
        unit = 2.0 if microbatches else 1.0
        right = binomial_side(self.rate, change.removed, unit, noise)
        left = binomial_side(self.rate, change.added, unit, noise)
        return ((Round.of(right, left), steps),)

    def is_tight(self, change: Change, *, steps: int) -> bool:
        return True

    def share_of_data(self) -> Fraction:
        return stated_fraction(self.rate)

    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        while True:  # the rate is exact to 2^-53, the resolution of the uniform variates
            yield generator.random((trials, dataset_size)) < self.rate

    def audited_datasets(self, change: Change, *, ordinary_examples: int) -> tuple[AuditedDataset, AuditedDataset]:
        """Those who leave move by +1, those who join by -1, all others not at all: attains P-1 and P-2."""
        leave, join = counted(change.removed), counted(change.added)
        return (
            AuditedDataset(((0.0, ordinary_examples), (1.0, leave)), independent_members([(leave, self.rate, 1.0)])),
            AuditedDataset(((0.0, ordinary_examples), (-1.0, join)), independent_members([(join, self.rate, -1.0)])),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonSources(Sampling):
    """Every round includes each example of source s independently with probability rates[s].

    A group is then counted source by source: `group_size={"web": 3, "books": 5}`.
    """

    rates: Mapping[str, float]
    """Given as a mapping; kept as a tuple of (source, rate) in the order given, so that runs can be compared."""

    name: ClassVar[str] = "poisson-sources"
    title: ClassVar[str] = "Poisson sampling from several sources"
    meaning: ClassVar[str] = "Every example joins every batch with the probability of its source."
    meant_by: ClassVar[str] = "sampling_rates"
    fields: ClassVar[tuple[Field, ...]] = (
        Field(
            name="sampling_rates",
            attribute="rates",
            unit="probability, by source",
            meaning="Probability that an example of each source joins a batch.",
            kind="table",
            above=0.0,
            at_most=1.0,
            parser=lambda key, value: {source: float(rate) for source, rate in table(key, value, probability).items()},
            option="--source",
            example="web=0.01",
            slider=Slider(start={"web": 0.01, "books": 0.001}),
        ),
    )
    adjacencies: ClassVar[tuple[str, ...]] = (*ADJACENCIES, EXCHANGE)
    has_random_sizes: ClassVar[bool] = True
    needed: ClassVar[tuple[str, ...]] = (
        "Every step includes each example independently with the probability stated for its source.",
    )

    def __post_init__(self) -> None:
        rates: Any = dict(self.rates) if isinstance(self.rates, tuple) else self.rates
        if not isinstance(rates, Mapping) or not rates:
            raise InvalidArgument("rates", self.rates, "be a mapping from sources to rates")
        if len(rates) > MOST_SOURCES:
            raise InvalidArgument("rates", len(rates), f"have at most {MOST_SOURCES} sources")
        for source in rates:
            if not isinstance(source, str) or not source:
                raise InvalidArgument("rates", source, "name every source with a non-empty text")
        checked = tuple(
            (source, require_number(f"rates[{source!r}]", rate, above=0.0, at_most=1.0))
            for source, rate in rates.items()
        )
        object.__setattr__(self, "rates", checked)

    def _rates(self) -> tuple[tuple[str, float], ...]:
        rates: Any = self.rates
        return rates  # type: ignore[no-any-return]

    def rounds(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> Rounds:
        """Each side is a convolution of Binom(k_s, q_s) over the sources s (P-3)."""
        unit = 2.0 if microbatches else 1.0
        sides = (_side(self._rates(), group, unit, noise) for group in (change.removed, change.added))
        return ((Round.of(*sides), steps),)

    def is_tight(self, change: Change, *, steps: int) -> bool:
        return True

    def share_of_data(self) -> Fraction:
        raise InvalidArgument(
            "epochs", NOT_SHOWN, "be left out for several sources, whose epochs differ in length: give steps"
        )

    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        """Example i belongs to source i modulo the number of sources."""
        rates = np.resize([rate for _, rate in self._rates()], dataset_size)
        while True:
            yield generator.random((trials, dataset_size)) < rates

    def audited_datasets(self, change: Change, *, ordinary_examples: int) -> tuple[AuditedDataset, AuditedDataset]:
        """Those who leave move by +1, those who join by -1, all others not at all: attains P-3.

        Rows of one example per source, as `sampled_batches` has them; who is not there is one who does not move.
        """
        leave, join = (dict(group) if not isinstance(group, int) else {} for group in (change.removed, change.added))
        rows = max(1, *leave.values(), *join.values(), -(-ordinary_examples // len(self.sources)))
        return _dataset(self._rates(), leave, rows, 1.0), _dataset(self._rates(), join, rows, -1.0)

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(source for source, _ in self._rates())

    def describe(self) -> str:
        return f"{self.title}, sampling rates {', '.join(f'{source}: {rate!r}' for source, rate in self._rates())}"

    def values(self) -> dict[str, Any]:
        return {"sampling_rates": dict(self._rates())}


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedPoissonSampling(Sampling):
    """Every round includes each example independently with probability `rate`; of a batch above `largest_batch` that
    many are kept, uniformly at random. Padding a batch up to that size changes nothing.
    """

    rate: float
    largest_batch: int
    dataset_size: int
    """Size of the common part, public and exact: the dataset without the group. Epsilon is not monotone in it."""

    name: ClassVar[str] = "truncated-poisson"
    title: ClassVar[str] = "truncated Poisson sampling"
    meaning: ClassVar[str] = "Poisson sampling; a batch above the largest is cut to it at random."
    meant_by: ClassVar[str] = "largest_batch"
    fields: ClassVar[tuple[Field, ...]] = (
        SAMPLING_RATE,
        count(
            "largest_batch",
            "A batch with more examples is cut to this many, at random.",
            (600, 1, 100_000),
            unit="examples",
            at_most=LARGEST_DATASET,
        ),
        DATASET_SIZE,
    )
    adjacencies: ClassVar[tuple[str, ...]] = (*ONE_SIDED, ZERO_OUT)
    leaks_most_where_smallest: ClassVar[bool] = False
    refusals: ClassVar[dict[str, str]] = dict.fromkeys((SUBSTITUTE, ADD_AND_REMOVE, EXCHANGE), _NO_LAW)

    def rounds(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> Rounds:
        """A public coin over the classes of the common sample's size (P-6): (m + d, 0) for members removed, its mirror
        image for members added; (m + d, d) where they are zeroed and keep their places.
        """
        if microbatches:
            raise InvalidArgument(
                "microbatch_size",
                InWords("more"),
                "be 1 for truncated Poisson sampling",
                "the microbatch of an example depends on which others were cut away",
            )
        coin = _coin(self, counted(change.size), noise, change.keeps_places)
        return ((coin if is_empty(change.added) else coin.mirrored, steps),)

    def is_tight(self, change: Change, *, steps: int) -> bool:
        return False

    def assumptions(self, *, microbatches: bool) -> tuple[str, ...]:
        return (
            "Every step includes each example independently with the stated probability, and cuts a larger batch to "
            "the stated size uniformly at random.",
            f"The dataset without the group has exactly {self.dataset_size} examples, and its size is public.",
        )

    def share_of_data(self) -> Fraction:
        return stated_fraction(self.rate)

    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        while True:
            sampled = generator.random((trials, dataset_size)) < self.rate
            order = np.where(sampled, generator.random((trials, dataset_size)), np.inf)
            rank = order.argsort(axis=1).argsort(axis=1)
            yield sampled & (rank < self.largest_batch)

    def audited_datasets(self, change: Change, *, ordinary_examples: int) -> tuple[AuditedDataset, AuditedDataset]:
        """The group moves by +1; whoever it displaces by -1 where the cap cuts more often than not, else by 0."""
        size, others = counted(change.size), self.dataset_size
        away = -1.0 if self.rate * others >= self.largest_batch else 0.0

        def dataset(members: int, move: float) -> AuditedDataset:
            shape = {"ordinary_move": away, "group_move": move}
            sums = cut_batches(self.rate, self.largest_batch, others, members, **shape)
            return AuditedDataset(((away, others), (move, members)), sums)

        first, second = dataset(size, 1.0), dataset(size, 0.0) if change.keeps_places else dataset(0, 0.0)
        return (second, first) if is_empty(change.removed) else (first, second)


def counted(group: Group) -> int:
    """A group without sources."""
    if not isinstance(group, int):
        raise AssertionError("a group by sources needs a sampling with sources")
    return group


def stated_fraction(rate: float) -> Fraction:
    """The number that a double stands for: 1/m if it is the double nearest to 1/m, else the decimal it prints as."""
    inverse = round(1.0 / rate)
    return Fraction(1, inverse) if 1.0 / inverse == rate else Fraction(repr(rate))


@lru_cache(maxsize=256)
def binomial_side(rate: float, group: Group, unit: float, noise: float) -> Side:
    """The side of a group whose examples each join with probability `rate` and move the sum by `unit`."""
    return ZERO if is_empty(group) else _sensitivities(rate, group, unit).divided(noise)


@lru_cache(maxsize=128)
def _sensitivities(rate: float, group: Group, unit: float) -> Side:
    size = counted(group)
    if rate == 1.0:  # in every other law of counts all outcomes are possible
        return Side.point(unit * size)
    return Side(unit * np.arange(size + 1.0), binomial_law(size, rate))


def _dataset(rates: tuple[tuple[str, float], ...], group: Mapping[str, int], rows: int, move: float) -> AuditedDataset:
    census = [(move if row < group.get(source, 0) else 0.0, 1) for row in range(rows) for source, _ in rates]
    sums = independent_members((group.get(source, 0), rate, move) for source, rate in rates)
    return AuditedDataset(tuple(census), sums)


@lru_cache(maxsize=64)
def _side(rates: tuple[tuple[str, float], ...], group: Group, unit: float, noise: float) -> Side:
    if isinstance(group, int):
        raise AssertionError("a group must be given source by source")
    sizes = dict(group)
    law = sum_of_binomials_law(tuple((rate, sizes[source]) for source, rate in rates if sizes[source] > 0))
    return Side.from_sensitivities(unit * np.arange(len(law[0]), dtype=np.float64), law, noise)


@lru_cache(maxsize=64)
def _coin(sampling: TruncatedPoissonSampling, size: int, noise: float, keeps_places: bool) -> Round:
    from groupdp.laws.truncated import truncated_classes

    classes = truncated_classes(sampling.rate, sampling.largest_batch, sampling.dataset_size, size)
    branches = []
    for sizes in classes:
        right = Side.from_sensitivities(sizes.sensitivities, sizes.law, noise)
        left = Side.from_sensitivities(sizes.displaced, sizes.displaced_law, noise) if keeps_places else ZERO
        branches.append(Branch(right, left))
    log_weights = [sizes.log_weight for sizes in classes]
    if not classes[-1].is_catch_all:
        return Round(branches, log_weights)
    # Sizes that share one class: k members and k displaced for the upper side, nothing for the lower side (P-6).
    return Round(branches, log_weights, Round([*branches[:-1], Branch(ZERO, ZERO)], log_weights))
