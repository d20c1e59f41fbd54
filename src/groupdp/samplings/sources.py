"""Poisson sampling from several sources, each with a rate of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from groupdp._validation import require_number
from groupdp.errors import NOT_SHOWN, InvalidArgument
from groupdp.fields import Field, Slider, probability, table
from groupdp.groups import Group
from groupdp.laws import sum_of_binomials_law
from groupdp.neighbours import ADJACENCIES, Change
from groupdp.pairs import Round, Side
from groupdp.samplings.poisson import FIXED_MICROBATCHES
from groupdp.samplings.sampling import BoolArray, Rounds, Sampling
from groupdp.samplings.worlds import World, independent_members

#: Most sources of one run.
MOST_SOURCES = 1000


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
    adjacencies: ClassVar[tuple[str, ...]] = (*ADJACENCIES, "exchange")

    def __post_init__(self) -> None:
        rates: Any = dict(self.rates) if isinstance(self.rates, tuple) else self.rates
        if not isinstance(rates, Mapping) or not rates:
            raise InvalidArgument("rates", self.rates, "be a mapping from sources to rates")
        if len(rates) > MOST_SOURCES:
            raise InvalidArgument("rates", len(rates), f"have at most {MOST_SOURCES} sources")
        for source in rates:
            if not isinstance(source, str) or not source:
                raise InvalidArgument("rates", source, "have non-empty texts for sources")
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

    def assumptions(self, *, microbatches: bool) -> tuple[str, ...]:
        sampled = "Every step includes each example independently with the probability stated for its source."
        return (sampled, FIXED_MICROBATCHES) if microbatches else (sampled,)

    def share_of_data(self) -> Fraction:
        raise InvalidArgument(
            "epochs", NOT_SHOWN, "be left out for several sources, whose epochs differ in length: give steps"
        )

    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        """Example i belongs to source i modulo the number of sources."""
        rates = np.resize([rate for _, rate in self._rates()], dataset_size)
        while True:
            yield generator.random((trials, dataset_size)) < rates

    def audited_worlds(self, change: Change, *, ordinary_examples: int) -> tuple[World, World]:
        """Those who leave move by +1, those who join by -1, all others not at all: attains P-3.

        Rows of one example per source, as `sampled_batches` has them; who is not there is one who does not move.
        """
        leave, join = (dict(group) if not isinstance(group, int) else {} for group in (change.removed, change.added))
        rows = max(1, *leave.values(), *join.values(), -(-ordinary_examples // len(self.sources)))
        return _world(self._rates(), leave, rows, 1.0), _world(self._rates(), join, rows, -1.0)

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(source for source, _ in self._rates())

    def describe(self) -> str:
        return f"{self.title}, sampling rates {', '.join(f'{source}: {rate!r}' for source, rate in self._rates())}"

    def values(self) -> dict[str, Any]:
        return {"sampling_rates": dict(self._rates())}


def _world(rates: tuple[tuple[str, float], ...], group: Mapping[str, int], rows: int, move: float) -> World:
    census = [(move if row < group.get(source, 0) else 0.0, 1) for row in range(rows) for source, _ in rates]
    return World(tuple(census), independent_members((group.get(source, 0), rate, move) for source, rate in rates))


@lru_cache(maxsize=64)
def _side(rates: tuple[tuple[str, float], ...], group: Group, unit: float, noise: float) -> Side:
    if isinstance(group, int):
        raise AssertionError("a group must be given source by source")
    sizes = dict(group)
    law = sum_of_binomials_law(tuple((rate, sizes[source]) for source, rate in rates if sizes[source] > 0))
    return Side.from_sensitivities(unit * np.arange(len(law[0]), dtype=np.float64), law, noise)
