"""The phases of a claim's run: read, said to be tight or not, and composed.

Correlated noise with a banded Toeplitz strategy is rebuilt from the claim: squared norms as exact rationals (C-28).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flint import arb, fmpq, fmpq_poly

from groupdp.certificate.checker.laws import (
    FIELDS,
    OPTIONAL,
    PLAIN,
    SECRET,
    Change,
    Composition,
    Gaussians,
    Mixtures,
    group,
    rounds,
    support,
    without_noise,
)
from groupdp.certificate.checker.reading import (
    LARGEST_DATASET,
    LARGEST_GROUP,
    LARGEST_STEPS,
    MOST_PHASES,
    NotACertificate,
    Undecided,
    fields,
    integer,
    number,
)

NAME = "correlated-noise"
#: Most bands, and most parts, batches or rounds between participations.
MOST_BANDS, MOST_PARTS = 4096, 10**9
#: Most shares of M-3.
MOST_SHARES = 512
#: Most digits of a power of a rate.
MOST_DIGITS = 30_000
#: A column's entries are 0 or of a size between these.
SMALLEST, LARGEST = fmpq(1, 10**100), fmpq(10) ** 100
COMMON = {"mechanism", "strategy", "column", "participation", "noise_multiplier", "normalisation", "steps"}
PARTICIPATIONS = {
    "cyclic-poisson": {"parts", "rate", "assigned"},
    "minimum-separation": {"separation", "participations"},
    "fixed-epochs": {"batches"},
    "separated-poisson": {"separation", "rate", "shares"},
}


def read_correlated(phase: dict[str, Any]) -> None:
    """Refuse a phase that is not exactly of the form in docs/certificate.md."""
    participation = phase.get("participation")
    if not isinstance(participation, str) or participation not in PARTICIPATIONS:
        raise NotACertificate(f"the participation of a phase must be one of {', '.join(PARTICIPATIONS)}.")
    shares = {"shares"} if participation == "cyclic-poisson" and phase.get("assigned") != "person" else set()
    fields(phase, f"a phase of {NAME}", COMMON | PARTICIPATIONS[participation] | shares, set())
    if phase["strategy"] != "banded-toeplitz" or phase["normalisation"] not in ("as-given", "unit-columns"):
        raise NotACertificate("strategy must be banded-toeplitz, and normalisation as-given or unit-columns.")
    if participation == "cyclic-poisson" and phase["assigned"] not in ("person", "example", "position"):
        raise NotACertificate("assigned must be person, example or position.")
    if not isinstance(phase["column"], list) or not 1 <= len(phase["column"]) <= MOST_BANDS:
        raise NotACertificate(f"column must be a list of 1 to {MOST_BANDS} numbers.")


def in_one_part(phase: dict[str, Any], a: int, b: int) -> bool:
    """C-28: whether all a who leave and b who join are in one part."""
    assigned = phase.get("assigned", "person")
    return bool(assigned == "person" or a + b <= 1 or (assigned == "position" and a <= 1 and b <= 1))


def squares_of(phase: dict[str, Any], adjacency: str, a: int, b: int) -> tuple[list[tuple[Any, int]], fmpq | None]:
    """C-28: (squared sensitivity to one example, times) of every round, and the rate; None: everybody takes part.

    For `minimum-separation` and `fixed-epochs` there is one round, with the sum of the squared norms.
    """
    steps = integer(phase["steps"], "steps", 1, LARGEST_STEPS)
    column = [signed(value) for value in phase["column"]]
    if not column[0] > 0:
        raise NotACertificate("a column must begin with a positive number.")
    sums = [fmpq(0)]
    for value in column[:steps]:
        sums.append(sums[-1] + value * value)  # sums[n]: the squared norm of a column of n rows
    scale = sums[-1] if phase["normalisation"] == "unit-columns" else fmpq(1)
    bands = len(sums) - 1
    apart = next(name for name in ("parts", "separation", "batches") if name in phase)
    distance = integer(phase[apart], apart, 1, MOST_PARTS)
    if bands > distance:
        raise Undecided(f"correlated noise has a law here only for at most as many bands as {distance} rounds apart")
    if "rate" in phase:
        rate = number(phase["rate"], "rate", 0, 1)
        if rate == 0:
            raise NotACertificate("rate must be above 0.")
        if phase["participation"] == "separated-poisson":
            if len(str(rate.q)) * bands > MOST_DIGITS:
                raise Undecided("a rate of too many digits for so many bands")
            square: Any = sums[-1] if bands == 1 else window_square(column[:steps], bands, phase["shares"])
            return [(square / scale, -(-steps // bands))], 1 - (1 - rate) ** bands
        if phase["assigned"] == "position" and adjacency not in ("zero-out", "zero-out, reversed", "substitute"):
            raise Undecided("where parts are cut by position, adding or removing a person moves others")
        if not in_one_part(phase, a, b):
            square = sums[-1] if bands == 1 else window_square(column[:steps], distance, phase["shares"])
            return [(square / scale, -(-steps // distance))], rate
        return [(square / scale, times) for square, times in columns(sums, steps, distance)], rate
    most = LARGEST_STEPS
    if phase["participation"] == "minimum-separation":
        most = integer(phase["participations"], "participations", 1, LARGEST_STEPS)
    total = fmpq(0)
    for square, times in columns(sums, steps, distance):  # the largest first
        total += square * min(times, most)
        most -= min(times, most)
    return [(total / scale, 1)], None


def correlated_rounds(phase: Any, change: Change) -> Composition:
    """C-28: the rounds of a phase with correlated noise."""
    noise = number(phase["noise_multiplier"], "noise_multiplier", 0, fmpq(10) ** 18)
    a, b = (integer(part, "group_size", 0, LARGEST_GROUP) for part in (change.removed, change.added))
    squares, rate = squares_of(phase, change.name, a, b)
    rounds: Composition = []
    for square, times in squares:
        round_: Any
        if rate is None or rate == 1:
            if isinstance(square, arb):
                raise Undecided("a rate of 1 with examples in any parts has no law here")
            round_ = Gaussians([(fmpq(1), square * (a + b) ** 2 / (noise**2 if noise != 0 else 1))])
        else:
            if len(str(rate.q)) * max(a, b) > MOST_DIGITS:
                raise Undecided("a rate of too many digits for so large a group")
            sides = [list((fmpq_poly([1 - rate, rate]) ** part).coeffs()) for part in (a, b)]
            round_ = Mixtures([(sides[0], sides[1])], arb(square).sqrt() / (noise if noise != 0 else 1))
        rounds.append((round_ if noise != 0 else without_noise(round_), times))
    return rounds


def columns(sums: list[fmpq], steps: int, distance: int) -> list[tuple[fmpq, int]]:
    """Squared norms of columns 0, distance, 2 distance, ..: full ones, and the last, which may be cut at the end.

    At most `distance` bands: a column that begins `distance` rounds before the end, or earlier, is full.
    """
    full, rest = divmod(steps, distance)
    norms = [(sums[-1], full)] if full else []
    return norms + ([(sums[min(rest, len(sums) - 1)], 1)] if rest else [])


def window_square(column: list[fmpq], parts: int, shares: Any) -> arb:
    """C-28: max_u [ sum_{r >= u} c_{r-u}^2 / (1 - l_r) + sum_{r < u} c_{b+r-u}^2 / l_r ], any shares l_r in [0, 1]."""
    if not isinstance(shares, list) or len(shares) != parts or parts > MOST_SHARES:
        raise Undecided(f"shares must be as many as parts, at most {MOST_SHARES}")
    older = [number(value, "shares", 0, 1) for value in shares]
    squares = [arb(value * value) for value in column]
    largest = arb(0)
    for u in range(parts):
        total = arb(0)
        for d, square in enumerate(squares):  # row u + d, in this window or in the next one
            part = 1 - older[u + d] if u + d < parts else older[u + d - parts]
            if part == 0:
                raise Undecided("a share leaves no noise to a window that needs some")
            total += square / part
        largest = largest.max(total)
    return largest


def signed(value: Any) -> fmpq:
    """A number that may be negative, 0 or of a size within the bounds."""
    if isinstance(value, str) and value.startswith("-"):
        exact = -number(value[1:], "column", 0, LARGEST)
    else:
        exact = number(value, "column", 0, LARGEST)
    if exact != 0 and abs(exact) < SMALLEST:
        raise NotACertificate("an entry of a column must be 0 or at least 1e-100 in size.")
    return exact


#: The name of a group size that a phase has of its own.
OWN = "group_size"


def tight(phase: dict[str, Any], change: Change, law: Any) -> bool:
    """C-1: whether some loss and datasets attain the rounds of this law; accepts a phase that was not validated."""
    phase, change = own_group(phase, change)
    if phase.get("mechanism") == NAME:
        read_correlated(phase)
        if phase["participation"] == "separated-poisson":
            return integer(phase["separation"], "separation", 1, MOST_PARTS) == 1
        a, b = (integer(part, "group_size", 0, LARGEST_GROUP) for part in (change.removed, change.added))
        return in_one_part(phase, a, b)
    if integer(phase.get("microbatch_size", 1), "microbatch_size", 1, LARGEST_STEPS) > 1:
        return False
    if phase["sampling"] == "fixed-order":  # of an epoch cut short, or left over, some may not have taken part
        size, n = (integer(phase[name], name, 1, LARGEST_DATASET) for name in ("batch_size", "dataset_size"))
        places = n // size * (1 if phase.get("one_per_batch", False) is True else size)
        steps = integer(phase["steps"], "steps", 0, LARGEST_STEPS)
        k = max(integer(part, "group_size", 0, LARGEST_GROUP) for part in (change.removed, change.added))
        return bool(0 < k <= places and steps % (n // size) == 0)
    if phase["sampling"] in SECRET:  # one example in one batch of an epoch (P-13)
        law = law or SECRET[phase["sampling"]]
        alone = not isinstance(change.removed, dict) and change.removed + change.added <= 1
        return bool(law == "hidden" and alone and phase.get("participations", 1) == 1)
    sampling = PLAIN.get(phase["sampling"], phase["sampling"])
    always = sampling in ("poisson", "poisson-sources")
    return always or (sampling == "fixed-batch" and change.name in ("add", "remove"))


def own_group(phase: dict[str, Any], change: Change) -> tuple[dict[str, Any], Change]:
    """C-36: the phase without its own group size, and the change in which the group has that size."""
    if not isinstance(phase, dict) or OWN not in phase:
        return phase, change
    if change.name.startswith("remove ") or not any(map(_any, (change.removed, change.added))):
        raise NotACertificate("a phase may have a group_size of its own where one group of at least 1 leaves or joins.")
    size = group(phase[OWN], OWN)
    nobody = dict.fromkeys(size, 0) if isinstance(size, dict) else 0
    removed, added = (size if _any(part) else nobody for part in (change.removed, change.added))
    return {name: value for name, value in phase.items() if name != OWN}, replace(change, removed=removed, added=added)


def _any(part: Any) -> bool:
    return any(part.values()) if isinstance(part, dict) else bool(part)


def phases(run: Any) -> list[dict[str, Any]]:
    """The phases of a run, each with exactly the names its sampling asks for."""
    if not isinstance(run, list) or not 1 <= len(run) <= MOST_PHASES:
        raise NotACertificate(f"run must be a list of 1 to {MOST_PHASES} phases.")
    for whole in run:
        phase = {name: value for name, value in whole.items() if name != OWN} if isinstance(whole, dict) else whole
        if isinstance(phase, dict) and phase.get("mechanism") == NAME:
            read_correlated(phase)
            continue
        sampling = phase.get("sampling") if isinstance(phase, dict) else None
        if not isinstance(sampling, str) or sampling not in FIELDS:
            raise NotACertificate(f"the sampling of a phase must be one of {', '.join(FIELDS)}.")
        required = {"sampling", "noise_multiplier", "steps", *FIELDS[sampling]}
        fields(phase, f"a phase of {sampling}", required, OPTIONAL.get(sampling, set()) | {"microbatch_size"})
    return run


def law_of(hints: Any, index: int) -> Any:
    """Which law of a hidden allocation the hints name for a phase (C-30); None where they name none."""
    laws = hints.get("laws") if isinstance(hints, dict) else None
    return laws[index] if isinstance(laws, list) and index < len(laws) else None


def composition(run: Any, whole: Change, check: Callable[[], None] = lambda: None, hints: Any = None) -> Composition:
    """The rounds of all phases; Gaussian ones (a single square) are one, with the sum of their squares."""
    composed: Composition = []
    square = fmpq(0)
    for index, (phase, change) in enumerate(own_group(described, whole) for described in phases(run)):
        check()  # a phase takes a second at most: the caller may want to stop in between
        is_correlated = phase.get("mechanism") == NAME
        own = correlated_rounds(phase, change) if is_correlated else rounds(phase, change, law_of(hints, index), check)
        for round_, times in own:
            if isinstance(round_, Mixtures) and len(round_.branches) == 1 and not is_correlated:
                points = [support(law) for law in round_.branches[0]]
                if all(len(point) == 1 for point in points):
                    round_ = Gaussians([(fmpq(1), ((points[0][0] + points[1][0]) * round_.unit) ** 2)])
            if isinstance(round_, Gaussians) and len(round_.coin) == 1 and round_.missing == 0 and not round_.larger:
                square += round_.coin[0][1] * times
            elif times:
                composed.append((round_, times))
    return composed + ([(Gaussians([(fmpq(1), square)]), 1)] if square else [])
