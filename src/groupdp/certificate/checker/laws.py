"""The laws a claim is about, rebuilt from its run: exact rationals, or balls where a sum is infinite in practice.

docs/internals/certificate.md has the table of laws (C-1) and the proofs. In units of the noise, P is a mixture of
N(+x, 1) and Q a mixture of N(-y, 1), x and y >= 0; a group's members that are only in the first dataset move P, the
others move Q.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from operator import mul
from typing import Any

from flint import arb, arb_poly, ctx, fmpq, fmpq_poly

from groupdp.certificate.checker.allocations import dealt, even_squares, hidden_rounds, thrown
from groupdp.certificate.checker.reading import (
    LARGEST_DATASET,
    LARGEST_GROUP,
    LARGEST_STEPS,
    NotACertificate,
    Undecided,
    integer,
    number,
)

#: Most ordered pairs of an adjacency, and the largest group in batches that are cut.
MOST_PAIRS, LARGEST_TRUNCATED = 500, 128
#: Extra bits for sums of products of probabilities down to 1e-330.
EXTRA_BITS = 1200
#: Branches of a coin that are less likely than this are left out (C-5).
RARE = fmpq(1, 10**330)
#: The last laws of batches that are cut: every pair of a claim asks for the same one, again and again.
_TRUNCATED: dict[tuple[Any, ...], tuple[list[tuple[Any, Any]], arb]] = {}
Law = list[Any]  # probabilities (fmpq, or arb where only enclosed) of the shifts 0, 1, 2, ... times a unit

SIZES = {"batch_size", "dataset_size", "largest_batch", "batches", "participations"}
OPTIONAL = {"fixed-order": {"one_per_batch"}, "spread": {"evenly"}}
#: Samplings whose allocation may stay hidden, and the law of each where the hints name none (C-30).
THROWN = "balls-in-bins"
SECRET = {THROWN: "revealed", "spread": "hidden", "allocation": "hidden"}
OF_PEOPLE = {"examples_per_person", "clip_person"}
FIELDS = {
    "poisson": {"sampling_rate"},
    "poisson-sources": {"sampling_rates"},
    "fixed-batch": {"batch_size", "dataset_size"},
    "truncated-poisson": {"sampling_rate", "largest_batch", "dataset_size"},
    "shuffled": {"batch_size", "dataset_size"},
    "shuffled-once": {"batch_size", "dataset_size"},
    "fixed-order": {"batch_size", "dataset_size"},
    "balls-in-bins": {"batches"},
    "spread": {"batches"},
    "allocation": {"batches", "participations"},
    "poisson-people": {"sampling_rate", *OF_PEOPLE, "example_rate", "examples_held"},
    "fixed-people": {"batch_size", "dataset_size", *OF_PEOPLE},
    "truncated-people": {"sampling_rate", "largest_batch", "dataset_size", *OF_PEOPLE},
}
#: The sampling of examples whose law a sampling of people has.
PLAIN = {"poisson-people": "poisson", "fixed-people": "fixed-batch", "truncated-people": "truncated-poisson"}


@dataclass(frozen=True)
class Change:
    """An ordered pair of datasets: `removed` are in P's only, `added` in Q's only (numbers, or tables by source)."""

    name: str
    removed: Any
    added: Any
    kept: bool = False  # zero-out: zeroed examples keep their places


@dataclass
class Mixtures:
    """Branches (A, B): P = sum A_i N(i unit), Q = sum B_j N(-j unit); which branch it is, is public.

    A and B carry the branch's probability. Branches of probability `missing` in all, at most, are left out.
    """

    branches: list[tuple[Law, Law]]
    unit: Any  # fmpq, or arb where it is a root
    missing: arb = field(default_factory=lambda: arb(0))


@dataclass
class Gaussians:
    """A public coin over (probability, square): P = N(sqrt(square)) against Q = N(0); `missing` as for mixtures.

    `larger`: the true squares are smaller, so that delta is bounded from above alone (C-27).
    """

    coin: list[tuple[fmpq, fmpq]]
    missing: fmpq = field(default_factory=lambda: fmpq(0))
    larger: bool = False


@dataclass
class Profile:
    """The envelope of fixed batches with k examples replaced (C-18): batches hold i of them with probability law[i]."""

    law: list[fmpq]
    unit: fmpq


@dataclass
class Noiseless:
    """A round without noise: (P, Q) of the outcome that nobody of the group took part, one a public branch (C-26)."""

    outcomes: list[tuple[Any, Any]]
    missing: arb = field(default_factory=lambda: arb(0))


Composition = list[tuple[Any, int]]  # Mixtures, Gaussians, Profile, Hidden or Noiseless, and how often


def changes(claim: dict[str, Any]) -> list[Change]:
    """The ordered pairs an adjacency comprises."""
    adjacency, size = claim["adjacency"], claim.get("group_size")
    names = {"removed", "added"} if adjacency == "removed-and-added" else {"group_size"}
    if not names <= claim.keys() or {"group_size", "removed", "added"} & claim.keys() != names:
        raise NotACertificate(f"the claim must say {' and '.join(sorted(names))} of its adjacency, and no other group.")
    if adjacency == "removed-and-added":
        a, b = (group(claim.get(name), name) for name in ("removed", "added"))
        return [Change(f"remove {a}, add {b}", a, b)] + ([Change(f"remove {b}, add {a}", b, a)] if a != b else [])
    k = group(size, "group_size")
    none = dict.fromkeys(k, 0) if isinstance(k, dict) else 0
    if adjacency == "add-and-remove":
        return [Change(f"remove {a}, add {b}", a, b) for a, b in splits(k)]
    leave, join = Change("remove", k, none), Change("add", none, k)
    orders = {
        "remove": [leave],
        "add": [join],
        "add-or-remove": [leave, join],
        "substitute": [Change("substitute", k, k)],
        "zero-out": [Change("zero-out", k, none, True), Change("zero-out, reversed", none, k, True)],
    }
    if not isinstance(adjacency, str) or adjacency not in orders:
        raise NotACertificate("the adjacency is none of those in docs/certificate.md.")
    return orders[adjacency]


def splits(k: Any) -> list[tuple[Any, Any]]:
    """Every (removed, added) of k changes in all, source by source where k is a table."""
    sizes = k if isinstance(k, dict) else {None: k}
    if math.prod(size + 1 for size in sizes.values()) > MOST_PAIRS:
        raise NotACertificate(f"add-and-remove may have at most {MOST_PAIRS} splits.")
    pairs = []
    for removed in itertools.product(*(range(size, -1, -1) for size in sizes.values())):
        a = dict(zip(sizes, removed, strict=True))
        b = {name: size - a[name] for name, size in sizes.items()}
        pairs.append((a, b) if isinstance(k, dict) else (a[None], b[None]))
    return pairs


def group(value: Any, where: str) -> Any:
    """A number of examples, or a table of numbers by source."""
    if isinstance(value, dict) and 0 < len(value) <= 16:
        return {name: integer(size, where, 0, LARGEST_GROUP) for name, size in value.items()}
    return integer(value, where, 0, LARGEST_GROUP)


def support(law: Law) -> list[int]:
    """The shifts whose probability is not exactly zero; a ball that contains zero counts as positive."""
    return [i for i, p in enumerate(law) if not p == 0]  # noqa: SIM201


def hypergeometric(drawn: int, others: int, marked: int) -> Law:
    """How many of `marked` are among `drawn` of `others` + `marked`, drawn <= others; by exact ratios."""
    law = [reduce(lambda p, j: p * fmpq(others + marked - drawn - j, others + marked - j), range(marked), fmpq(1))]
    for i in range(min(marked, drawn)):
        law.append(law[-1] * fmpq((marked - i) * (drawn - i), (i + 1) * (others - drawn + i + 1)))
    return law


def truncated(
    rate: fmpq, largest: int, others: int, size: int, check: Callable[[], None] = lambda: None
) -> tuple[list[tuple[Law, Law]], arb]:
    """C-2: a branch (law of m + d, law of d) for each class of s, the batch size without the group; missing mass."""
    if size > LARGEST_TRUNCATED or others > 10**7 or rate == 1 or others * rate > 10**5:
        raise Undecided(
            f"truncated Poisson batches: groups of up to {LARGEST_TRUNCATED}, expected batches of up to 10^5, a rate "
            "below 1"
        )
    asked = rate, largest, others, size, ctx.prec
    if asked in _TRUNCATED:
        return _TRUNCATED[asked]
    odds, mode = arb(rate / (1 - rate)), int(others * rate.p // rate.q)
    present = (fmpq_poly([1 - rate, rate]) ** size).coeffs()
    ways = arb(others + 1).lgamma() - arb(mode + 1).lgamma() - arb(others - mode + 1).lgamma()
    weights, rest = {mode: ways.exp() * arb(rate) ** mode * arb(1 - rate) ** (others - mode)}, arb(0)
    for direction in (1, -1):  # s ~ Binom(others, rate), by ratios that fall on either side of the mode
        s, ratio = mode, arb(1)
        while 0 <= s + direction <= others and weights[s] > arb(2) ** -700:
            ratio = odds * (others - s) / (s + 1) if direction > 0 else s / (odds * (others - s + 1))
            weights[s + direction] = weights[s] * ratio
            s += direction
        rest += weights[s] * ratio / (1 - ratio) if 0 < s < others else 0
    branches: dict[int, tuple[Law, Law]] = {}
    for s, weight in weights.items():
        check()
        room = min(size, max(0, largest - s))
        right, left = branches.setdefault(room, ([arb(0)] * (2 * size + 1), [arb(0)] * (size + 1)))
        for h in range(room + 1):
            right[h], left[0] = right[h] + weight * present[h], left[0] + weight * present[h]
        for m, p in cut_batch(present, largest, s, room):
            d = m - room
            right[m + d], left[d] = right[m + d] + weight * p, left[d] + weight * p
    for room in {0, size} & branches.keys():  # the classes of many s: any of those left out belong to them
        laws = ([p if p.is_zero() else p + rest.union(arb(0)) for p in law] for law in branches[room])
        branches[room] = (next(laws), next(laws))
    if len(_TRUNCATED) >= 4:
        _TRUNCATED.clear()
    _TRUNCATED[asked] = list(branches.values()), rest
    return _TRUNCATED[asked]


def cut_batch(present: list[fmpq], largest: int, s: int, room: int) -> list[tuple[int, arb]]:
    """C-2: (m, P(m kept of the group, h > room)) with s others in a batch that is cut, h having the law `present`.

    P(m | h) = C(h, m) C(s, B - m) / C(s + h, B), and sum_h f_h C(h, m) is the m-th coefficient of sum_h f_h (1 + x)^h.
    """
    size = len(present) - 1
    if room >= size:
        return []
    with ctx.extraprec(EXTRA_BITS):  # coefficients range over hundreds of digits
        ratio = arb(fmpq(s + 1 - largest, s + 1) if s >= largest else fmpq(1, largest + 1))
        f = [arb(0)] * (size + 1)
        for h in range(room + 1, size + 1):  # C(s, B - room) / C(s + h, B)
            f[h] = ratio * present[h]
            ratio *= fmpq(s + h + 1 - largest, s + h + 1)
        sums = arb_poly(f)(arb_poly([1, 1])).coeffs()
    kept, ways = [], arb(1)
    for m in range(room, min(size, largest) + 1):  # C(s, B - m) / C(s, B - room)
        kept.append((m, ways * sums[m]))
        ways *= fmpq(largest - m, s - largest + m + 1)
    return kept


def rounds(phase: Any, change: Change, law: Any = None, check: Callable[[], None] = lambda: None) -> Composition:
    """C-1: the rounds that dominate a phase and how often each runs; `law` chooses where the allocation is hidden."""
    noise = number(phase["noise_multiplier"], "noise_multiplier", 0, fmpq(10) ** 18)
    if (law or SECRET.get(phase["sampling"], "revealed")) != "revealed" and phase["sampling"] in SECRET:
        if noise == 0 or isinstance(change.removed, dict):
            raise Undecided("a hidden allocation needs noise, and a group that is a number")
        steps = integer(phase["steps"], "steps", 0, LARGEST_STEPS)
        unit = 2 if integer(phase.get("microbatch_size", 1), "microbatch_size", 1, LARGEST_STEPS) > 1 else 1
        return list(hidden_rounds(phase, (change.removed, change.added), (unit / noise) ** 2, steps, law, check))
    round_, times = noisy_rounds(phase, change, noise if noise != 0 else fmpq(1), check)
    return [(round_ if noise != 0 else without_noise(round_), times)]


def without_noise(round_: Mixtures | Gaussians | Profile) -> Noiseless:
    """C-26: the same round if its noise were zero."""
    if isinstance(round_, Mixtures):
        return Noiseless([(right[0], left[0]) for right, left in round_.branches], round_.missing)
    if isinstance(round_, Profile):
        return Noiseless([(round_.law[0], round_.law[0])])
    return Noiseless([(p, p if square == 0 else 0) for p, square in round_.coin], arb(round_.missing))


def examples_given(phase: Any) -> tuple[fmpq_poly, int]:
    """C-29: the generating function of a sampled person's largest contribution, and its unit in clipping norms."""
    if type(phase["clip_person"]) is not bool:
        raise NotACertificate("clip_person must be true or false.")
    if integer(phase.get("microbatch_size", 1), "microbatch_size", 1, LARGEST_STEPS) > 1:
        raise Undecided("no law is proved here for microbatches of people")
    most = integer(phase["examples_per_person"], "examples_per_person", 1, 10**5)
    most = 1 if phase["clip_person"] else most
    rate = number(phase.get("example_rate", "1"), "example_rate", 0, 1)
    held = integer(phase.get("examples_held", 0), "examples_held", 0, 10**5)
    if rate == 1:
        return fmpq_poly([0, 1]), most
    if held == 0 or rate == 0:
        raise NotACertificate("an example_rate below 1 must be above 0 and come with examples_held.")
    if held * len(str(rate.q)) > 30_000:
        raise Undecided("an example rate of too many digits for so many examples")
    law = list((fmpq_poly([1 - rate, rate]) ** held).coeffs())
    return fmpq_poly([*law[:most], sum(law[most:], fmpq(0))]), 1


def noisy_rounds(
    phase: Any, change: Change, noise: fmpq, check: Callable[[], None]
) -> tuple[Mixtures | Gaussians | Profile, int]:
    """C-1, as the table in docs/internals/certificate.md says."""
    given, reach = examples_given(phase) if phase["sampling"] in PLAIN else (fmpq_poly([0, 1]), 1)
    sampling, noise = PLAIN.get(phase["sampling"], phase["sampling"]), noise / reach
    steps = integer(phase["steps"], "steps", 0, LARGEST_STEPS)
    micro = integer(phase.get("microbatch_size", 1), "microbatch_size", 1, LARGEST_STEPS) > 1
    sizes = {name: integer(phase[name], name, 1, LARGEST_DATASET) for name in FIELDS[sampling] & SIZES}
    rates = phase.get("sampling_rates") if sampling == "poisson-sources" else {None: phase.get("sampling_rate", "1")}
    a, b = (part if isinstance(part, dict) else {None: part} for part in (change.removed, change.added))
    if not isinstance(rates, dict) or not a.keys() == b.keys() <= rates.keys():
        raise NotACertificate("a group must name sources of the run for poisson-sources, and be a number otherwise.")
    rate = {name: number(rates[name], "sampling_rate", 0, 1) for name in a}
    if sum(len(str(rate[name].q)) * max(a[name], b[name]) for name in a) > 30_000:
        raise Undecided("a sampling rate of too many digits for so large a group")
    many = max(*a.values(), *b.values())
    if given.degree() > 1 and (many * given.degree() > 1000 or many * len(str(given.denom())) > 30_000):
        raise Undecided("a random number of examples for so many people")
    if sampling in ("poisson", "poisson-sources"):
        sides = [reduce(mul, ((1 - rate[s] + rate[s] * given) ** part[s] for s in part)) for part in (a, b)]
        return Mixtures([(list(sides[0].coeffs()), list(sides[1].coeffs()))], (2 if micro else 1) / noise), steps
    k, n, size = max(a[None], b[None]), sizes.get("dataset_size", 0), sizes.get("batch_size", 1)
    one_sided, exchange = 0 in (a[None], b[None]) and not change.kept, change.kept or a == b
    if sampling == "fixed-batch" and one_sided and size <= n:
        law = hypergeometric(size, n, k)
        return Mixtures([(law, [fmpq(1)]) if a[None] else ([fmpq(1)], law)], 2 / noise), steps
    if sampling == "fixed-batch" and exchange and size <= n - k and k > 0:
        return Profile(hypergeometric(size, n - k, k), 2 / noise), steps
    if sampling == "truncated-poisson" and (one_sided or change.kept) and not micro:
        branches, missing = truncated(rate[None], sizes["largest_batch"], n, k, check)
        if one_sided:
            branches = [(law, [sum(law, arb(0))]) for law, _ in branches]
        return Mixtures(branches if a[None] else [(left, right) for right, left in branches], 1 / noise, missing), steps
    larger = False
    unit = 2 if micro or (a == b and sampling not in SECRET) else 1
    if sampling == THROWN:  # those who leave and those who join are thrown independently
        batches, k = sizes["batches"], a[None] + b[None]
        law, larger = thrown(k, batches, check)
        larger = larger or batches > 1  # the truth, whose allocation stays hidden, leaks less (C-30)
    elif sampling == "spread":  # the allocation revealed: distinct batches, or nearly so (P-14)
        batches, larger = sizes["batches"], True
        if k > batches and phase.get("evenly", False) is not True:
            raise Undecided("a person with more examples than batches needs `evenly`")
        law = [(fmpq(1), fmpq(even_squares(a[None] + b[None], batches)))]
    elif sampling == "fixed-order" and exchange and k <= n and size <= n:
        batches, alone = n // size, phase.get("one_per_batch", False) is True
        if alone and k > -(-n // size):
            raise Undecided("with one_per_batch a group must not be larger than there are batches")
        law = [(fmpq(1), fmpq(k if alone else k // size * size**2 + (k % size) ** 2))]
    elif sampling in ("shuffled", "shuffled-once") and exchange and k <= n and size <= min(n, 10**7):
        batches, (law, larger) = n // size, dealt(k, size, n, check)
    else:
        raise Undecided(f"no law is proved here for {sampling} and {change.name}")
    epochs = -(-steps // batches)  # one that is begun counts
    once = epochs if sampling in ("shuffled-once", "fixed-order") else 1  # the same allocation in every epoch
    factor = fmpq(unit**2) * once / noise**2
    coin = [(p, square * factor) for p, square in law if p > RARE]
    return Gaussians(coin, 1 - sum((p for p, _ in coin), fmpq(0)), larger), epochs // once if epochs else 0
