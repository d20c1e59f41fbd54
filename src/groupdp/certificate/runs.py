"""The phases of a claim's run: read, said to be tight or not, and composed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flint import fmpq

from groupdp.certificate.correlated import NAME, correlated_rounds, in_one_part, read_correlated
from groupdp.certificate.laws import FIELDS, OPTIONAL, Change, Composition, Gaussians, Mixtures, rounds, support
from groupdp.certificate.reading import (
    LARGEST_DATASET,
    LARGEST_GROUP,
    LARGEST_STEPS,
    MOST_PHASES,
    NotACertificate,
    fields,
    integer,
)


def tight(phase: dict[str, Any], change: Change) -> bool:
    """C-1: whether some loss and datasets attain what `rounds` says; the phase need not have been read before."""
    if phase.get("mechanism") == NAME:
        read_correlated(phase)
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
    always = phase["sampling"] in ("poisson", "poisson-sources")
    return always or (phase["sampling"] == "fixed-batch" and change.name in ("add", "remove"))


def phases(run: Any) -> list[dict[str, Any]]:
    """The phases of a run, each with exactly the names its sampling asks for."""
    if not isinstance(run, list) or not 1 <= len(run) <= MOST_PHASES:
        raise NotACertificate(f"run must be a list of 1 to {MOST_PHASES} phases.")
    for phase in run:
        if isinstance(phase, dict) and phase.get("mechanism") == NAME:
            read_correlated(phase)
            continue
        sampling = phase.get("sampling") if isinstance(phase, dict) else None
        if not isinstance(sampling, str) or sampling not in FIELDS:
            raise NotACertificate(f"the sampling of a phase must be one of {', '.join(FIELDS)}.")
        required = {"sampling", "noise_multiplier", "steps", *FIELDS[sampling]}
        fields(phase, f"a phase of {sampling}", required, OPTIONAL.get(sampling, set()) | {"microbatch_size"})
    return run


def composition(run: Any, change: Change, check: Callable[[], None] = lambda: None) -> Composition:
    """The rounds of all phases; Gaussian ones (a single square) are one, with the sum of their squares."""
    found: Composition = []
    square = fmpq(0)
    for phase in phases(run):
        check()  # a phase takes a second at most: the caller may want to stop in between
        is_correlated = phase.get("mechanism") == NAME
        for one, times in correlated_rounds(phase, change) if is_correlated else [rounds(phase, change, check)]:
            if isinstance(one, Mixtures) and len(one.branches) == 1 and not is_correlated:
                points = [support(law) for law in one.branches[0]]
                if all(len(point) == 1 for point in points):
                    one = Gaussians([(fmpq(1), ((points[0][0] + points[1][0]) * one.unit) ** 2)])
            if isinstance(one, Gaussians) and len(one.coin) == 1 and one.missing == 0 and not one.larger:
                square += one.coin[0][1] * times
            elif times:
                found.append((one, times))
    return found + ([(Gaussians([(fmpq(1), square)]), 1)] if square else [])
