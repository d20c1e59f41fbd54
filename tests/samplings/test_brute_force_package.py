"""Every batch of small datasets, gradients +1, 0 and -1: no hockey stick exceeds what `groupdp.delta` certifies.

Attacks are enumerated (enumeration.py): one and two rounds, every sampling, every adjacency it has a law for. Where the
package calls its bound tight, an attack must come up to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import groupdp
from groupdp import samplings as ours
from samplings import enumeration as every
from samplings.enumeration import Law, Population, populations

NOISE = 1.5
EPSILONS = (0.0, 0.4, 1.5)
RATE = Fraction(1, 4)
#: Doubles in the enumeration: relative, and absolute where they cancel.
RELATIVE, ABSOLUTE = 1e-8, 1e-13
Pairs = list[tuple[Law, Law]]


@dataclass(frozen=True)
class Attack:
    """What is asked of the package, and pairs of laws that its answer must bound: of one step, or of one epoch."""

    sampling: ours.Sampling
    asked: dict[str, Any]
    pairs: Callable[[], Iterable[tuple[Law, Law]]]
    steps: int = field(default=1)
    joint: bool = False
    """Whether the laws are those of two batches released together."""

    def bound(self, epsilon: float, times: int = 1, **how: float) -> groupdp.Bounds:
        run = groupdp.DPSGD(sampling=self.sampling, noise_multiplier=NOISE, steps=times * self.steps)
        return groupdp.delta(run, epsilon=epsilon, **self.asked, **how)

    def both_orders(self) -> Pairs:
        pairs = list(self.pairs())
        if self.asked.get("adjacency") == "remove":
            return pairs
        backwards = [(q, p) for p, q in pairs]
        return backwards if self.asked.get("adjacency") == "add" else pairs + backwards


def few(size: int) -> list[Population]:
    """All of them, or those without zeros where there are many."""
    return list(populations(size)) if size < 6 else [Population(size - j, 0, j) for j in range(size + 1)]


def zeroed(k: int) -> list[Population]:
    return [Population(0, k, 0)]


def poisson(common: int, here: Iterable[Population], there: Iterable[Population]) -> Iterable[tuple[Law, Law]]:
    for c, a, b in itertools.product(few(common), list(here), list(there)):
        yield every.poisson([(c + a, RATE)]), every.poisson([(c + b, RATE)])


def sources(k_web: int, k_books: int) -> Iterable[tuple[Law, Law]]:
    rates = Fraction(1, 4), Fraction(1, 2)
    for c, web, books in itertools.product(few(2), populations(k_web), populations(k_books)):
        yield every.poisson([(c + web, rates[0]), (books, rates[1])]), every.poisson([(c, rates[0])])


def subsets(
    batch: int, common: int, here: Iterable[Population], there: Iterable[Population]
) -> Iterable[tuple[Law, Law]]:
    for c, a, b in itertools.product(few(common), list(here), list(there)):
        yield every.subsets(c + a, batch), every.subsets(c + b, batch)


def truncated(
    top: int, common: int, here: Iterable[Population], there: Iterable[Population]
) -> Iterable[tuple[Law, Law]]:
    for c, a, b in itertools.product(few(common), list(here), list(there)):
        yield every.truncated(c + a, RATE, top), every.truncated(c + b, RATE, top)


def of_people(pairs: Iterable[tuple[Law, Law]], m: int = 2) -> Iterable[tuple[Law, Law]]:
    """A person's m examples all have one gradient, and come together."""
    for pair in pairs:
        yield tuple({m * total: p for total, p in law.items()} for law in pair)


def joint(
    law: Callable[[Population], Law], common: int, here: Iterable[Population], there: Iterable[Population]
) -> Iterable[tuple[Law, Law]]:
    ends = {Population(common, 0, 0), Population(0, common, 0), Population(0, 0, common)}
    for c, a, b in itertools.product(sorted(ends), list(here), list(there)):
        yield law(c + a), law(c + b)


NOBODY = [Population(0, 0, 0)]
POISSON = ours.PoissonSampling(rate=0.25)
SOURCES = ours.PoissonSources(rates={"web": 0.25, "books": 0.5})
FIXED = ours.FixedBatchSampling(batch_size=3, dataset_size=8)
TRUNCATED = ours.TruncatedPoissonSampling(rate=0.25, largest_batch=2, dataset_size=5)
LARGE_CAP = ours.TruncatedPoissonSampling(rate=0.25, largest_batch=5, dataset_size=18)
POISSON_PEOPLE = ours.PoissonPeople(rate=0.25, examples_per_person=2)
FIXED_PEOPLE = ours.FixedPeople(batch_size=3, dataset_size=8, examples_per_person=2)
TRUNCATED_PEOPLE = ours.TruncatedPeople(rate=0.25, largest_batch=2, dataset_size=5, examples_per_person=2)
SHUFFLED = ours.ShuffledSampling(batch_size=3, dataset_size=6)
ONCE = ours.ShuffledOnceSampling(batch_size=3, dataset_size=6)
ORDER = ours.FixedOrderSampling(batch_size=3, dataset_size=3)
BALLS = ours.BallsInBinsSampling(batches=2)
SPREAD = ours.SpreadSampling(batches=2)
ALLOCATION = ours.AllocationSampling(batches=2, participations=1)

ATTACKS = {
    "poisson remove": Attack(
        POISSON, {"group_size": 2, "adjacency": "remove"}, lambda: poisson(3, populations(2), NOBODY)
    ),
    "poisson add": Attack(POISSON, {"group_size": 2, "adjacency": "add"}, lambda: poisson(3, populations(2), NOBODY)),
    "poisson substitute": Attack(
        POISSON, {"group_size": 2, "adjacency": "substitute"}, lambda: poisson(2, populations(2), populations(2))
    ),
    "poisson zero-out": Attack(
        POISSON, {"group_size": 2, "adjacency": "zero-out"}, lambda: poisson(3, populations(2), zeroed(2))
    ),
    "poisson removed and added": Attack(
        POISSON, {"removed": 2, "added": 1}, lambda: poisson(2, populations(2), populations(1))
    ),
    "poisson add-and-remove": Attack(
        POISSON,
        {"group_size": 3, "adjacency": "add-and-remove"},
        lambda: itertools.chain(*(poisson(1, populations(a), populations(3 - a)) for a in range(4))),
    ),
    "sources": Attack(SOURCES, {"group_size": {"web": 2, "books": 1}}, lambda: sources(2, 1)),
    "fixed-batch": Attack(FIXED, {"group_size": 2}, lambda: subsets(3, 8, populations(2), NOBODY)),
    "fixed-batch substitute": Attack(
        FIXED, {"group_size": 2, "adjacency": "substitute"}, lambda: subsets(3, 6, populations(2), populations(2))
    ),
    "fixed-batch substitute one": Attack(
        FIXED, {"group_size": 1, "adjacency": "substitute"}, lambda: subsets(3, 7, populations(1), populations(1))
    ),
    "fixed-batch zero-out": Attack(
        FIXED, {"group_size": 2, "adjacency": "zero-out"}, lambda: subsets(3, 6, populations(2), zeroed(2))
    ),
    "truncated": Attack(TRUNCATED, {"group_size": 2}, lambda: truncated(2, 5, populations(2), NOBODY)),
    "truncated zero-out": Attack(
        TRUNCATED, {"group_size": 2, "adjacency": "zero-out"}, lambda: truncated(2, 5, populations(2), zeroed(2))
    ),
    "truncated, 20 examples": Attack(LARGE_CAP, {"group_size": 2}, lambda: truncated(5, 18, populations(2), NOBODY)),
    "shuffled zero-out": Attack(
        SHUFFLED,
        {"group_size": 2, "adjacency": "zero-out"},
        lambda: joint(every.dealt, 4, populations(2), zeroed(2)),
        steps=2,
        joint=True,
    ),
    "shuffled substitute": Attack(
        SHUFFLED,
        {"group_size": 2, "adjacency": "substitute"},
        lambda: joint(every.dealt, 4, populations(2), populations(2)),
        steps=2,
        joint=True,
    ),
    "shuffled-once substitute": Attack(
        ONCE,
        {"group_size": 2, "adjacency": "substitute"},
        lambda: joint(every.dealt, 4, populations(2), populations(2)),
        steps=2,
        joint=True,
    ),
    "fixed-order substitute": Attack(
        ORDER, {"group_size": 2, "adjacency": "substitute"}, lambda: subsets(3, 1, populations(2), populations(2))
    ),
    "fixed-order zero-out": Attack(
        ORDER, {"group_size": 2, "adjacency": "zero-out"}, lambda: subsets(3, 1, populations(2), zeroed(2))
    ),
    "balls remove": Attack(
        BALLS, {"group_size": 2}, lambda: joint(every.thrown, 3, populations(2), NOBODY), steps=2, joint=True
    ),
    "balls zero-out": Attack(
        BALLS,
        {"group_size": 2, "adjacency": "zero-out"},
        lambda: joint(every.thrown, 3, populations(2), zeroed(2)),
        steps=2,
        joint=True,
    ),
    "balls substitute": Attack(
        BALLS,
        {"group_size": 1, "adjacency": "substitute"},
        lambda: joint(every.thrown, 3, populations(1), populations(1)),
        steps=2,
        joint=True,
    ),
    "balls remove one": Attack(
        BALLS, {"group_size": 1}, lambda: joint(every.thrown, 3, populations(1), NOBODY), steps=2, joint=True
    ),
    "spread remove one": Attack(
        SPREAD, {"group_size": 1}, lambda: joint(every.thrown, 3, populations(1), NOBODY), steps=2, joint=True
    ),
    "spread substitute": Attack(
        SPREAD,
        {"group_size": 1, "adjacency": "substitute"},
        lambda: joint(every.thrown, 3, populations(1), populations(1)),
        steps=2,
        joint=True,
    ),
    **{
        f"people, {adjacency}": Attack(
            POISSON_PEOPLE,
            {"group_size": 2, "adjacency": adjacency},
            lambda there=there: of_people(poisson(2, populations(2), there())),
        )
        for adjacency, there in {
            "remove": lambda: NOBODY,
            "add": lambda: NOBODY,
            "substitute": lambda: populations(2),
            "zero-out": lambda: zeroed(2),
        }.items()
    },
    "people removed and added": Attack(
        POISSON_PEOPLE, {"removed": 2, "added": 1}, lambda: of_people(poisson(2, populations(2), populations(1)))
    ),
    "people add-and-remove": Attack(
        POISSON_PEOPLE,
        {"group_size": 3, "adjacency": "add-and-remove"},
        lambda: of_people(itertools.chain(*(poisson(1, populations(a), populations(3 - a)) for a in range(4)))),
    ),
    "fixed people": Attack(FIXED_PEOPLE, {"group_size": 2}, lambda: of_people(subsets(3, 8, populations(2), NOBODY))),
    "fixed people substitute": Attack(
        FIXED_PEOPLE,
        {"group_size": 2, "adjacency": "substitute"},
        lambda: of_people(subsets(3, 6, populations(2), populations(2))),
    ),
    "fixed people zero-out": Attack(
        FIXED_PEOPLE,
        {"group_size": 2, "adjacency": "zero-out"},
        lambda: of_people(subsets(3, 6, populations(2), zeroed(2))),
    ),
    "truncated people": Attack(
        TRUNCATED_PEOPLE, {"group_size": 2}, lambda: of_people(truncated(2, 5, populations(2), NOBODY))
    ),
    "truncated people zero-out": Attack(
        TRUNCATED_PEOPLE,
        {"group_size": 2, "adjacency": "zero-out"},
        lambda: of_people(truncated(2, 5, populations(2), zeroed(2))),
    ),
    "allocation remove": Attack(
        ALLOCATION, {"group_size": 2}, lambda: joint(every.thrown, 3, populations(2), NOBODY), steps=2, joint=True
    ),
    "allocation substitute": Attack(
        ALLOCATION,
        {"group_size": 1, "adjacency": "substitute"},
        lambda: joint(every.thrown, 3, populations(1), populations(1)),
        steps=2,
        joint=True,
    ),
}


@pytest.mark.thinned(6)
@pytest.mark.parametrize("name", ATTACKS)
def test_no_attack_exceeds_the_bound(name: str):
    attack = ATTACKS[name]
    pairs = attack.both_orders()
    for epsilon in EPSILONS:
        bound = attack.bound(epsilon)
        if attack.joint:
            found = max(every.joint_hockey_stick(p, q, NOISE, epsilon) for p, q in pairs)
        else:
            found = float(every.hockey_sticks(pairs, NOISE, epsilon).max())
        assert found <= bound.upper * (1 + RELATIVE) + ABSOLUTE
        assert not bound.tight or found >= bound.lower * (1 - RELATIVE) - ABSOLUTE


@pytest.mark.thinned(8)
@pytest.mark.parametrize("name", [name for name, attack in ATTACKS.items() if not attack.joint])
def test_no_attack_on_two_rounds_exceeds_the_bound(name: str):
    """The worst gradients of one round twice, and choices that differ from round to round."""
    attack = ATTACKS[name]
    for order in (1, -1):
        pairs = [pair[::order] for pair in attack.pairs()]
        if attack.asked.get("adjacency") == ("add" if order == 1 else "remove"):
            continue
        rng = np.random.default_rng(7)
        for epsilon in EPSILONS[1:]:
            worst = int(every.hockey_sticks(pairs, NOISE, epsilon / 2).argmax())
            chosen = [(worst, worst), *rng.integers(len(pairs), size=(4, 2)).tolist()]
            bound = attack.bound(epsilon, times=2, tolerance=1e-4)
            for i, j in chosen:
                p, q = (every.independent(pairs[i][side], pairs[j][side]) for side in (0, 1))
                assert every.joint_hockey_stick(p, q, NOISE, epsilon) <= bound.upper * (1 + RELATIVE) + ABSOLUTE


def test_every_sampling_and_every_adjacency_is_attacked():
    """A new sampling, or a new adjacency of an old one, has to come with an attack."""
    directions = {"add-or-remove": ("add-or-remove", "add", "remove")}
    attacked: dict[str, set[str]] = {}
    for attack in ATTACKS.values():
        asked = "exchange" if "removed" in attack.asked else attack.asked.get("adjacency", "add-or-remove")
        attacked.setdefault(attack.sampling.name, set()).update(directions.get(asked, (asked,)))
    attacked["poisson"].update(("add-or-remove",))
    attacked["poisson-people"].update(("add-or-remove",))
    # the same laws as Poisson's, and as those of single adjacencies: sums of independent examples
    for name in ("poisson-sources", "balls-in-bins", "spread", "allocation"):
        attacked[name].update(("substitute", "zero-out", "add-and-remove", "exchange"))
    attacked["shuffled-once"].update(("zero-out",))
    assert attacked == {name: set(kind.adjacencies) for name, kind in ours.SAMPLINGS.items()}
