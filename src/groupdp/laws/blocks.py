"""Groups allocated to the batches of an epoch, hidden in blocks of batches: coins over products of R(M, s).

R(M, s) is one of M steps, uniformly (groupdp.pairs). Every function returns the forward round, in which the group
leaves; proofs in docs/internals/laws.md:

    one_example        in one of the batches (P-13)
    spread_blocks      a person's examples in distinct batches (P-14)
    thrown_blocks      members thrown independently: the counts are revealed, the places hidden in blocks (P-15)
    allocated_blocks   members in several distinct batches each, independently (P-15)
    hidden_collisions  the same with collisions hidden too (P-17)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import lru_cache

import numpy as np

from groupdp.laws import CONTEXT, as_law, total
from groupdp.laws.allocation import thrown_squares_law
from groupdp.laws.histograms import Histogram, allocated_histograms, thrown_histograms
from groupdp.laws.rare_blocks import LARGE_SHIFT, RARE, rare_law
from groupdp.losses import AtomsRound
from groupdp.pairs import ZERO, Allocation, AllocationRound, AnyRound, Product, Round, Rounds, Side

#: Orders of the Renyi divergence that block sizes of P-17 are made for, where the group leaves and where it joins; no
#: effect on validity.
LEAVING_ORDERS, JOINING_ORDERS = (2.6, 3.1), (1.8, 1.4)
#: More of them where collisions are rare.
RARE_ORDERS = (4.2, 6.0)
#: Where collisions are so rare that their blocks take less than this share of the batches at these orders, blocks of
#: this share are tried too: losses are small then, and a large one of a rare collision costs most; no effect on
#: validity.
_SHARE_OF_RARE = 0.02
#: Histograms less likely than this have blocks of a common size; no effect on validity.
_RARE = Decimal(10) ** -8
#: Of histograms less likely than this, counts with larger shifts are revealed, in small blocks and others: no contour
#: takes them; no effect on validity.
_SELDOM, _LARGE_SHIFTS, _SMALL_BLOCK = Decimal(10) ** -4, (7.0, 9.0), 4
#: Revealed histograms share a branch up to where those with at least as many pairs are this much likelier; no effect on
#: validity.
_LEVEL = Decimal(10) ** 4
#: Collisions less likely than this are revealed in P-17.
_LEAST_COLLISION = 1e-18
#: A coin that reveals everything less often than this; no effect on validity.
_SELDOM_REVEALED = 1e-14
#: log of the probability below which a block of a group that joins is a single batch; no effect on validity.
_SELDOM_BLOCK = math.log(3e-5)
#: Members of a part at most; no effect on validity.
PART = 12
#: Rounds the optimal real block sizes are searched for; no effect on validity.
_BISECTIONS = 60
#: Largest exponent in the weights that block sizes are made from; no effect on validity.
_LARGEST_EXPONENT = 40.0


@lru_cache(maxsize=64)
def one_example(batches: int, noise: float, steps: int) -> Rounds:
    """One example in one of the batches: R(N, 1 / noise) for every whole epoch; of an epoch that ends after t steps,
    R(t, 1 / noise) with probability t / N (P-13, exact).
    """
    whole, rest = divmod(steps, batches)
    rounds: list[tuple[AnyRound, int]] = []
    for places, times in ((batches, whole), (rest, 1)):
        if places == 0 or times == 0:
            continue
        share = math.log1p(-(batches - places) / batches) if 2 * places > batches else math.log(places / batches)
        if noise > 0.0:
            rounds.append((AllocationRound((((Allocation(places, 1.0 / noise, share), 1),),)), times))
        elif places == batches:
            rounds.append((Round.of(Side.point(math.inf), ZERO), times))
        else:
            absent = (batches - places) / batches
            law = np.array([absent, places / batches]), np.array([math.log1p(-places / batches), share])
            rounds.append((Round.of(Side(np.array([0.0, math.inf]), law), ZERO), times))
    return tuple(rounds)


def spread_blocks(group_size: int, batches: int, shift: float) -> AllocationRound:
    """R(floor N/k)^(k - r) R(ceil N/k)^r, r = N mod k, for k <= N examples in distinct batches (P-14)."""
    return AllocationRound((_product(((1, group_size),), batches, shift),))


@lru_cache(maxsize=64)
def thrown_blocks(group_size: int, batches: int, shift: float) -> AllocationRound:
    """A public coin over the histogram of counts, with one block for every occupied batch (P-15, P-16)."""
    law = thrown_histograms(group_size, batches)
    kept = [probability for _, probability in law.histograms]
    # Rare histograms share blocks of floor(N / k): any sizes are valid, and fewer different ones take less time.
    common = max(batches // group_size, 1)
    products = []
    for histogram, probability in law.histograms:
        if probability > _RARE:
            product = _product(histogram, batches, shift, group_size)
        else:
            product = tuple((Allocation(common, count * shift), bins) for count, bins in histogram)
        if probability <= _SELDOM:
            product = tuple((_revealed_if_large(factor), bins) for factor, bins in product)
        products.append(product)
    scale = CONTEXT.divide(CONTEXT.subtract(Decimal(1), law.left_out), total(kept))
    revealed, masses = _revealed(group_size, batches, shift, law.left_out)
    return _coin((*products, *revealed), [*(CONTEXT.multiply(probability, scale) for probability in kept), *masses])


@lru_cache(maxsize=64)
def allocated_blocks(group_size: int, participations: int, batches: int, shift: float) -> AllocationRound:
    """The same for k members, each in e distinct batches of N (P-15)."""
    law = allocated_histograms(group_size, participations, batches)
    products = [_product(histogram, batches, shift) for histogram, _ in law.histograms]
    return _coin(products, [probability for _, probability in law.histograms])


def _product(histogram: Histogram, batches: int, shift: float, most: int | None = None) -> Product:
    """Blocks of floor and ceil of N / m batches, the larger ones for the larger counts (any sizes are valid).

    A histogram that others were replaced by may have more batches than they, who have `most` (P-16).
    """
    occupied = sum(bins for _, bins in histogram)
    if most is not None and occupied > most:
        size, larger = max(batches // most, 1), 0
    else:
        size, larger = divmod(batches, occupied) if occupied < batches else (1, 0)
    factors: list[tuple[Allocation, int]] = []
    for count, bins in histogram:
        above = min(bins, larger)
        larger -= above
        for places, times in ((size + 1, above), (size, bins - above)):
            if times:
                factors.append((Allocation(places, count * shift), times))
    return tuple(factors)


def _revealed_if_large(factor: Allocation) -> Allocation:
    large = _LARGE_SHIFTS[factor.places > _SMALL_BLOCK]
    return Allocation(1, factor.shift) if factor.shift > large else factor


def _revealed(group_size: int, batches: int, shift: float, mass: Decimal) -> tuple[list[Product], list[Decimal]]:
    """The likeliest `mass` of the largest r = sum_t c_t^2, each N(shift sqrt(r)) against N(0): all places revealed.

    Whatever event of this probability is meant, r on it is stochastically smaller, and so are the shifts.
    """
    products: list[Product] = []
    masses: list[Decimal] = []
    if mass <= 0:
        return products, masses
    values, (_, logarithms) = thrown_squares_law(group_size, batches).upper
    left, least, reached = mass, Decimal(0), Decimal(0)
    for r, log_probability in zip(values[::-1].tolist(), logarithms[::-1].tolist(), strict=True):
        share = min(left, CONTEXT.exp(Decimal(log_probability)))
        left = CONTEXT.subtract(left, share)
        reached = CONTEXT.add(reached, share)
        if masses and reached < CONTEXT.multiply(_LEVEL, least):  # with those of the larger r
            masses[-1] = CONTEXT.add(masses[-1], share)
        elif share > 0:
            products.append(((Allocation(1, shift * math.sqrt(r)), 1),))
            masses.append(share)
            least = reached
        if left <= 0:
            break
    masses[0] = CONTEXT.add(masses[0], max(left, Decimal(0)))
    return products, masses


def _coin(products: Iterable[Product], probabilities: list[Decimal]) -> AllocationRound:
    """A coin whose weights are right to a few units in the last place, equal products counted together."""
    merged: dict[Product, Decimal] = {}
    for product, probability in zip(products, probabilities, strict=True):
        merged[product] = CONTEXT.add(merged.get(product, Decimal(0)), probability)
    present = {product: mass for product, mass in merged.items() if mass > 0}
    return AllocationRound(tuple(present), tuple(np.minimum(as_law(list(present.values()))[1], 0.0).tolist()))


def in_parts(one_sided: Callable[[int, float], Rounds], size: int, noise: float, most: int = PART) -> Rounds:
    """Independent members in two or more parts of at most `most`, each with its share of the noise (P-18)."""
    parts = max(-(-size // most), min(size, 2))
    fewest, larger = divmod(size, parts)
    rounds: list[tuple[AnyRound, int]] = []
    for members, times in ((fewest + 1, larger), (fewest, parts - larger)):
        if times:
            found = one_sided(members, noise * math.sqrt(members / size) * (1.0 - 2.0**-50))
            rounds.extend((one, times * count) for one, count in found)
    return tuple(rounds)


@lru_cache(maxsize=64)
def hidden_collisions(group_size: int, batches: int, shift: float, order: float) -> AllocationRound | None:
    """k blocks for members alone in their batch, and blocks for the i-th batch of count c >= 2, which is occupied with
    probability at most p_{c,i}, whatever is known of larger counts (P-17); None where N is too small for the blocks.

        p_{c,i} = N C(k - c (i - 1), c) / (i (N - k)^c)

    Any block sizes are valid; `order` is what they are optimised for.
    """
    k, n = group_size, batches
    if (labelled := _labels(k, n)) is None:
        return None
    labels, rare = labelled
    sizes = _block_sizes(k, [(c, log_p) for c, _, log_p in labels], n, shift, order)
    factors: dict[Allocation, int] = {Allocation(sizes[0], shift): k}
    for (c, _, log_p), size in zip(labels, sizes[1:], strict=True):
        factor = Allocation(size, c * shift, log_p)
        factors[factor] = factors.get(factor, 0) + 1
    mass = Decimal(min(rare * (1.0 + 1e-9), 1.0))
    revealed, masses = _revealed(k, n, shift, mass)
    return _coin((tuple(factors.items()), *revealed), [CONTEXT.subtract(Decimal(1), mass), *masses])


@lru_cache(maxsize=64)
def order_of_rare_collisions(group_size: int, batches: int, shift: float) -> float | None:
    """The order at which the blocks of collisions take 2 % of the batches; None where the lowest order takes more."""
    labelled = _labels(group_size, batches)
    if labelled is None:
        return None
    labels = [(c, log_p) for c, _, log_p in labelled[0]]

    def share(order: float) -> float:
        return sum(_block_sizes(group_size, labels, batches, shift, order)[1:]) / batches

    low, high = max(LEAVING_ORDERS), 1.0 + _LARGEST_EXPONENT / (shift * shift)
    if high <= low or share(low) > _SHARE_OF_RARE:
        return None
    for _ in range(_BISECTIONS // 4):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if share(middle) <= _SHARE_OF_RARE else (low, middle)
    return low


def as_losses(rounds: Rounds) -> Rounds:
    """The same with rare blocks as laws of losses that dominate them, where the group leaves, and with a seldom coin
    that reveals everything as a mass that has no loss (P-60)."""
    result: list[tuple[AnyRound, int]] = []
    for round_, times in rounds:
        if isinstance(round_, AllocationRound):
            result += [(one, count * times) for one, count in _as_losses(round_)]
        else:
            result.append((round_, times))
    return tuple(result)


@lru_cache(maxsize=64)
def _as_losses(round_: AllocationRound) -> Rounds:
    product, *revealed = round_.products
    mass = math.fsum(map(math.exp, round_.log_weights[1:])) * (1.0 + 1e-12)
    if mass > _SELDOM_REVEALED:
        return ((round_, 1),)
    if round_.reverse:  # smaller blocks dominate (P-15): of so rare ones next to nothing is lost, and all is a mixture
        product = tuple((_alone_if_seldom(factor), times) for factor, times in product)
    laws = {} if round_.reverse else {factor: rare_law(factor) for factor, _ in product if _is_rare(factor)}
    others = tuple((factor, times) for factor, times in product if laws.get(factor) is None)
    rare = ((law, times) for factor, times in product if (law := laws.get(factor)) is not None)
    seldom = ((AtomsRound(np.zeros(1), np.array([math.log1p(-mass)]), log_lost=math.log(mass)), 1),) if revealed else ()
    return ((AllocationRound((others,), reverse=round_.reverse), 1), *rare, *seldom)


def _alone_if_seldom(factor: Allocation) -> Allocation:
    return Allocation(1, factor.shift, factor.log_probability) if factor.log_probability < _SELDOM_BLOCK else factor


def has_seldom_coin(round_: AnyRound) -> bool:
    """Whether it is a coin that hardly ever reveals everything, which `as_losses` replaces."""
    return (
        isinstance(round_, AllocationRound) and len(round_.products) > 1.0 and round_.log_weights[0] > -_SELDOM_REVEALED
    )


def _is_rare(factor: Allocation) -> bool:
    """Whether a block is taken as a law of losses; of a single batch it is a mixture of two Gaussians already."""
    return factor.places > 1 and factor.shift >= LARGE_SHIFT and factor.log_probability < math.log(RARE)


def collision_blocks(
    group_size: int, batches: int, shift: float, order: float
) -> tuple[int, list[tuple[int, int, int]]] | None:
    """The sizes of P-17's blocks: of a single member's, and (c, i, size) of the others; None where N is too small."""
    if (labelled := _labels(group_size, batches)) is None:
        return None
    sizes = _block_sizes(group_size, [(c, log_p) for c, _, log_p in labelled[0]], batches, shift, order)
    return sizes[0], [(c, i, size) for (c, i, _), size in zip(labelled[0], sizes[1:], strict=True)]


def _labels(k: int, n: int) -> tuple[list[tuple[int, int, float]], float] | None:
    """(c, i, log p_{c,i}) of the blocks, and a bound on the probability of all other collisions."""
    if k >= n or k < 2:
        return None
    labels: list[tuple[int, int, float]] = []
    rare = 0.0
    for c in range(2, k + 1):
        likely, bound = 1.0, 1.0
        for i in range(1, k // c + 1):
            bound = min(bound, _occupied(k, n, c, i))
            likely *= bound
            if likely < _LEAST_COLLISION:
                rare += likely
                break
            labels.append((c, i, math.log(bound) if bound < 1.0 else 0.0))
    return (labels, rare) if k + len(labels) <= n else None


def _occupied(k: int, n: int, c: int, i: int) -> float:
    """p_{c,i}, rounded up, at most 1."""
    ways = n * math.comb(k - c * (i - 1), c)
    whole = i * (n - k) ** c
    return min(ways / whole * (1.0 + 1e-15), 1.0) if ways < whole else 1.0


def _block_sizes(k: int, labels: list[tuple[int, float]], n: int, shift: float, order: float) -> list[int]:
    """Sizes of a single's block and of every label's, k times the first and all others at most N in all.

    The Renyi divergence of order a grows with sum p^a e^{a (a - 1) (c shift)^2 / 2} M^{1 - a}, which is smallest
    where M is proportional to p e^{(a - 1) (c shift)^2 / 2}. At least 1, and at most a quarter of N for a label; where
    collisions are rare at least 2, so that all factors are allocations.
    """
    rare = order > max(LEAVING_ORDERS) and k + 2 * len(labels) <= n
    least = [1, *(2 if rare else 1 for _ in labels)]
    weights = [_weight(0.0, shift, order), *(_weight(log_p, c * shift, order) for c, log_p in labels)]
    times = [k, *(1 for _ in labels)]
    limits = [n, *(max(1, n // 4) for _ in labels)]

    def sizes(scale: float) -> list[int]:
        return [
            max(min(math.floor(scale * weight), most), few)
            for weight, most, few in zip(weights, limits, least, strict=True)
        ]

    low, high = 0.0, float(n) / weights[0]
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        used = sum(count * size for count, size in zip(times, sizes(middle), strict=True))
        low, high = (middle, high) if used <= n else (low, middle)
    return sizes(low)


def _weight(log_p: float, shift: float, order: float) -> float:
    exponent = min((order - 1.0) * shift * shift, _LARGEST_EXPONENT)
    return max(math.exp(log_p) * math.sqrt(math.expm1(exponent)), 1e-30) if exponent > 0.0 else 1.0
