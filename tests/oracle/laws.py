"""The rounds of every sampling, from parameters: exact laws, for the oracle.

Everything is "the group was there" on the right; `mirrored` is the other direction. Parameters are exact (decimal
strings, integers, doubles at their binary value). Laws are rationals, except truncated Poisson's, whose sums over the
common sample are 4096-bit balls replaced by their midpoints: 3000 bits beyond whatever is asked of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flint import arb, ctx, fmpq, fmpz, fmpz_poly

from oracle.mixture import Mixture, exact
from oracle.pairs import Branch, Gaussian, Round, Rounds, nothing

_BITS = 4096
_NEGLIGIBLE = arb(2) ** -2500


def mirrored(rounds: Rounds) -> Rounds:
    """P and Q exchanged in every round."""
    return [(one.mirrored(), times) for one, times in rounds]


def binomial(count: int, rate: Any) -> list[fmpq]:
    q = exact(rate)
    return [fmpz.bin_uiui(count, i) * q**i * (1 - q) ** (count - i) for i in range(count + 1)]


def hypergeometric(drawn: int, population: int, marked: int) -> list[fmpq]:
    """P(i marked among `drawn` of `population`), i = 0, ..., min(drawn, marked)."""
    ways = [
        fmpz.bin_uiui(marked, i) * fmpz.bin_uiui(population - marked, drawn - i)
        if drawn - i <= population - marked
        else fmpz(0)
        for i in range(min(drawn, marked) + 1)
    ]
    return [fmpq(way, fmpz.bin_uiui(population, drawn)) for way in ways]


def counting(law: Sequence[fmpq], noise: Any, unit: int = 1) -> Mixture:
    return Mixture([unit * i for i in range(len(law))], law, noise)


def poisson(rate: Any, noise: Any, steps: int, *, removed: int, added: int) -> Rounds:
    """Every example with probability `rate`; `removed` only on the right, `added` only on the left."""
    return [(Round.of(*(counting(binomial(count, rate), noise) for count in (removed, added))), steps)]


def sources(rates: Sequence[Any], noise: Any, steps: int, *, removed: Sequence[int], added: Sequence[int]) -> Rounds:
    """A rate for every source, and numbers of examples removed and added there: convolutions of binomials."""

    def law(counts: Sequence[int]) -> list[fmpq]:
        total = [fmpq(1)]
        for rate, count in zip(rates, counts, strict=True):
            part = binomial(count, rate)
            product = [fmpq(0)] * (len(total) + count)
            for i, p in enumerate(total):
                for j, q in enumerate(part):
                    product[i + j] += p * q
            total = product
        return total

    return [(Round.of(counting(law(removed), noise), counting(law(added), noise)), steps)]


def fixed_batch(batch_size: int, dataset_size: int, group_size: int, noise: Any, steps: int) -> Rounds:
    """`dataset_size` without the group; the group displaces as many others."""
    law = hypergeometric(batch_size, dataset_size + group_size, group_size)
    return [(Round.of(counting(law, noise, 2), nothing()), steps)]


def kept(sampled: int, common: int, largest_batch: int) -> list[fmpq]:
    """P(m of the group's `sampled` are kept) in a batch cut at random to `largest_batch`, m = 0, ..., sampled."""
    batch = min(largest_batch, common + sampled)
    law = hypergeometric(batch, common + sampled, sampled)
    return law + [fmpq(0)] * (sampled + 1 - len(law))


def truncated_poisson(
    rate: Any, dataset_size: int, largest_batch: int, group_size: int, noise: Any, steps: int, *, zero_out: bool = False
) -> Rounds:
    """`dataset_size` without the group. A coin over s, how many of the common part were sampled: s <= B - k, each
    s in between, s >= B. The sensitivity is m + d: m of the group kept, d = max(0, m - max(0, B - s)) displaced.
    Zeroed examples keep their places, and the other side has the law of d."""
    top, k = largest_batch, group_size
    coin: list[tuple[fmpq, Branch]] = []
    classes, pooled = _common_sample(exact(rate), dataset_size, top, k)
    chances = binomial(k, rate)
    below = max(0, top - k + 1)  # the first s with which a batch may be cut

    def branch(law: Mapping[tuple[int, int], fmpq]) -> Branch:
        sides: list[dict[int, fmpq]] = [{}, {}]
        for (m, d), p in law.items():
            for side, shift in zip(sides, (m + d, d), strict=True):
                side[shift] = side.get(shift, fmpq(0)) + p
        right, left = (Mixture(sorted(side), [side[shift] for shift in sorted(side)], noise) for side in sides)
        return Branch(right, left if zero_out else nothing())

    if top >= k:
        coin.append((classes["below"], branch({(h, 0): chance for h, chance in enumerate(chances)})))
    for s in range(below, top):
        if s not in classes:
            continue
        law: dict[tuple[int, int], fmpq] = {}
        for h, chance in enumerate(chances):
            for m, p in enumerate(kept(h, s, top)):
                at = m, max(0, m - (top - s))
                law[at] = law.get(at, fmpq(0)) + chance * p
        coin.append((classes[s], branch(law)))
    if classes["above"] != 0:
        coin.append((classes["above"], branch({(m, m): p for m, p in enumerate(pooled)})))
    return [(Round(coin), steps)]


def _common_sample(q: fmpq, n: int, top: int, k: int) -> tuple[dict[Any, fmpq], list[fmpq]]:
    """Probabilities of the classes of s ~ Binom(n, q), and the law of m given s >= top."""
    with ctx.workprec(_BITS):
        odds, chances = arb(q) / arb(1 - q), [arb(p) for p in binomial(k, q)]
        mode = min(n, int(((n + 1) * q).p // ((n + 1) * q).q))
        at_mode = ((n * arb(1 - q).log()) + mode * odds.log() + _log_choose(n, mode)).exp()
        terms = {mode: at_mode}
        for s in range(mode, n):
            terms[s + 1] = terms[s] * (n - s) / (s + 1) * odds
            if terms[s + 1] < _NEGLIGIBLE * at_mode and s > top:
                break
        for s in range(mode, 0, -1):
            terms[s - 1] = terms[s] * s / (n - s + 1) / odds
            if terms[s - 1] < _NEGLIGIBLE * at_mode and s < top - k:
                break
        parts = {"below": arb(0), "above": arb(0)}
        law = [arb(0)] * (k + 1)
        for s, p in terms.items():
            if s >= top:
                parts["above"] += p
                for h, chance in enumerate(chances):
                    for m in range(h + 1):
                        law[m] += p * chance * _kept_of_many(m, h, s, top)
            elif s <= top - k:
                parts["below"] += p
        classes: dict[Any, fmpq] = {name: _rational(p) for name, p in parts.items()}
        classes.update({s: _rational(terms[s]) for s in range(max(0, top - k + 1), top) if s in terms})
        return classes, [_rational(p) for p in law]


def _kept_of_many(m: int, h: int, s: int, top: int) -> arb:
    """P(m of h are among `top` of s + h), s >= top: C(h, m) top!/(top-m)! (s+h-top)!/(s-top+m)! s!/(s+h)!."""
    value = fmpz.bin_uiui(h, m)
    for j in range(m):
        value *= top - j
    for j in range(h - m):
        value *= s + h - top - j
    bottom = fmpz(1)
    for j in range(h):
        bottom *= s + h - j
    return arb(value) / arb(bottom)


def _log_choose(n: int, k: int) -> arb:
    return arb(n + 1).lgamma() - arb(k + 1).lgamma() - arb(n - k + 1).lgamma()


def _rational(x: arb) -> fmpq:
    mantissa, exponent = x.mid().man_exp()
    return fmpq(mantissa) * fmpq(2) ** int(exponent)


def collisions(batch_sizes: Mapping[int | None, int], group_size: int) -> dict[int, fmpq]:
    """The law of r = sum_t c_t^2, c_t of the group in batch t: {size: how many batches}, size None where each example
    chooses a batch by itself. Exponential generating functions in the number of examples, polynomials in y for r:
    a batch of B is sum_c B!/(B-c)! y^{c^2} x^c / c!, one without a size sum_c y^{c^2} x^c / c!."""
    k = group_size
    total = [fmpz_poly([1])] + [fmpz_poly([])] * k
    for size, count in batch_sizes.items():
        one = []
        for c in range(k + 1):
            ways = fmpz(1)
            for j in range(c):
                ways *= 1 if size is None else max(0, size - j)
            one.append(fmpz_poly([0] * (c * c) + [ways]))
        total = _product(total, _power(one, count))
    ways = [int(way) for way in total[k].coeffs()]
    return {r: fmpq(way, sum(ways)) for r, way in enumerate(ways) if way}


def _product(first: list[fmpz_poly], second: list[fmpz_poly]) -> list[fmpz_poly]:
    return [
        sum((fmpz.bin_uiui(j, i) * first[i] * second[j - i] for i in range(j + 1)), fmpz_poly([]))
        for j in range(len(first))
    ]


def _power(base: list[fmpz_poly], exponent: int) -> list[fmpz_poly]:
    result = [fmpz_poly([1])] + [fmpz_poly([])] * (len(base) - 1)
    while exponent:
        result = _product(result, base) if exponent & 1 else result
        exponent >>= 1
        base = _product(base, base) if exponent else base
    return result


def allocated(law: Mapping[int, fmpq], noise: Any, epochs: int, *, unit: int = 1, once: bool = False) -> Rounds:
    """Epochs whose allocation is given away: N(unit sqrt(r) / sigma) against N(0). `unit` is 2 for substitution.
    A fresh allocation every epoch, or one for all: then epochs add up in the square."""
    scale = exact(unit) ** 2 / exact(noise) ** 2 * (epochs if once else 1)
    return [(Round([(p, Gaussian(r * scale)) for r, p in law.items()]), 1 if once else epochs)]


def shuffled(batch_size: int, batches: int, group_size: int, noise: Any, epochs: int, **how: Any) -> Rounds:
    return allocated(collisions({batch_size: batches}, group_size), noise, epochs, **how)


def balls_in_bins(batches: int, group_size: int, noise: Any, epochs: int, **how: Any) -> Rounds:
    return allocated(collisions({None: batches}, group_size), noise, epochs, **how)


def fixed_order(
    batch_size: int, group_size: int, noise: Any, epochs: int, *, unit: int = 1, one_per_batch: bool = False
) -> Rounds:
    """The largest sum of squares: as many of the group in one batch as it holds; or one in each."""
    full, rest = divmod(group_size, batch_size)
    worst = group_size if one_per_batch else full * batch_size**2 + rest**2
    return allocated({worst: fmpq(1)}, noise, epochs, unit=unit, once=True)


def compositions(case: Mapping[str, Any]) -> dict[str, Rounds]:
    """The pairs a case of pairs.json or oracle_pairs.json asks for, by the key of the answer without its prefix."""
    kind, noise, k = case["kind"], case["noise_multiplier"], case.get("group_size", 0)
    steps = int(case.get("steps", case.get("epochs", 0)))
    if kind == "poisson-substitute":
        return {"": poisson(case["sampling_rate"], noise, steps, removed=case["removed"], added=case["added"])}
    if kind == "fixed-batch":
        right = fixed_batch(case["batch_size"], case["dataset_size"], k, noise, steps)
    elif kind in ("truncated-poisson", "truncated-poisson-zero-out"):
        zero_out = kind.endswith("zero-out")
        sizes = case["dataset_size"], case["largest_batch"], k
        right = truncated_poisson(case["sampling_rate"], *sizes, noise, steps, zero_out=zero_out)
    elif kind == "sources":
        rates, counts = zip(*case["counts"], strict=True)
        right = sources(rates, noise, steps, removed=counts, added=[0] * len(counts))
    elif kind == "sources-substitute":
        rates, counts = zip(*case["counts"], strict=True)
        return {"": sources(rates, noise, steps, removed=counts, added=case.get("added", counts))}
    else:
        how = {"unit": 2 if "substitute" in kind else 1, "once": "once" in kind}
        if kind.startswith("shuffled"):
            return {"": shuffled(case["batch_size"], case["batches"], k, noise, steps, **how)}
        if kind.startswith("balls-in-bins"):  # those who leave and those who join are thrown independently
            return {"": balls_in_bins(case["batches"], how["unit"] * k, noise, steps)}
        raise ValueError(f"no law for {kind}")
    return {"_remove": right, "_add": mirrored(right)}
