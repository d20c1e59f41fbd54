"""Certificates: the claim, and the hints with which the checker proves it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from groupdp._validation import require_integer, require_number
from groupdp._version import VERSION
from groupdp.certificate.checker import Verdict, decide
from groupdp.certificate.correlated import MOST_SHARES
from groupdp.certificate.laws import Gaussians, changes
from groupdp.certificate.proving import (
    ENOUGH_CELLS,
    FEWEST_CELLS,
    MOST_CELLS,
    MOST_STEPS,
    Deadline,
    Proving,
    more_cells,
)
from groupdp.certificate.reading import Clock, NotACertificate, digest
from groupdp.certificate.runs import phases, tight
from groupdp.errors import InvalidArgument, InWords
from groupdp.guarantees import epsilon
from groupdp.mechanisms.correlated import (
    BandedToeplitz,
    BandMF,
    CorrelatedNoise,
    CyclicPoisson,
    FixedEpochs,
    MinimumSeparation,
)
from groupdp.mechanisms.correlated.sensitivities import row_shares
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.mechanisms.mechanism import mechanisms_of
from groupdp.pairs import ZERO, Branch, Round, Side, compose
from groupdp.samplings.balls_in_bins import BallsInBinsSampling, RevealedBallsInBins
from groupdp.solve import Options, epsilon_of

#: Bounds are moved outward by this much, relatively: the claim is about decimals, the engines' answer about doubles.
_OUTWARD = Decimal("2e-14")


#: How far below, relatively, the lower side is moved where column norms were rounded up (M-1): at most 4 096 roundings.
_NORMS_ROUNDED = 1e-11


def _norms_rounded(run: Any) -> float:
    return _NORMS_ROUNDED if any(isinstance(one, CorrelatedNoise) for one in _phases(run)) else 0.0


@dataclass(frozen=True)
class Certificate:
    """A claim with hints, as it is written to a file; `verdict` is what the checker said of it."""

    document: dict[str, Any]
    verdict: Verdict

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON."""
        return digest(self.document)

    @property
    def width(self) -> float:
        """How far epsilon.upper is above epsilon.lower, relatively; infinite if it is, and 0 if both are."""
        lower, upper = (float(self.document["claim"]["epsilon"][side]) for side in ("lower", "upper"))
        if lower == upper:
            return 0.0
        return (upper - lower) / upper if math.isfinite(upper) else math.inf

    @property
    def text(self) -> str:
        """The file's content."""
        return json.dumps(self.document, indent=1) + "\n"


def certify(
    run: Any,
    *,
    delta: float,
    group_size: Any = None,
    adjacency: str = "add-or-remove",
    removed: Any = None,
    added: Any = None,
    seconds: float | None = None,
    steps: int = MOST_STEPS,
    progress: Any = None,
) -> Certificate:
    """The certificate that `run` has the epsilon that `groupdp.epsilon` says, at `delta` and for a group.

    For balls in bins the epsilon is that of a revealed allocation (P-7), which is larger: the checker knows that law.

    Formal guarantee: if `verdict.outcome` is "verified", then delta(epsilon.upper) <= delta, and delta(epsilon.lower)
    > delta unless epsilon.lower is 0, for the decimals in the claim. Bounds are moved outward by 2e-14 relatively;
    and further, where the checker can only prove an interval that is wider than that of `groupdp.epsilon`. The same
    question has the same certificate on every run: `steps` of the proofs are counted, some 5 000 in a second, and half
    of them go into a narrower interval. LimitExceeded is raised if it takes longer than `seconds`, if they are given.
    """
    limit = math.inf if seconds is None else require_number("seconds", seconds, above=0.0)
    clock = Deadline(limit, require_integer("steps", steps, at_least=1))
    question: dict[str, Any] = {"adjacency": adjacency, "removed": removed, "added": added}
    bounds = epsilon(_as_checked(run), delta=delta, group_size=group_size, progress=progress, **question)
    claim = claim_of(run, delta=delta, group_size=group_size, **question)
    sides = bounds.lower * (1.0 - _norms_rounded(run)), bounds.upper
    claim["epsilon"] = outward(*sides)
    claim["tight"] = bounds.tight and is_tight(claim)
    clock.check()
    proving = proving_of(claim, clock)
    if proving.has_larger_laws and bounds.lower > 0.0:  # C-27: the checker knows nothing from below
        sides = 0.0, max(bounds.upper, _upper_of_larger_laws(proving, delta))
        claim["epsilon"] = outward(*sides)
        proving = proving_of(claim, clock)
    proving.contours()
    if all(pair.settled for pair in proving.pairs):
        return tried(claim, proving)
    has_contours = all(pair.settled or pair.hints is not None for pair in proving.pairs)
    made, decided, cells = None, False, 0 if has_contours else FEWEST_CELLS
    while True:
        if cells:
            proving.lattices(cells)
        again = tried({**claim, "epsilon": outward(*proving.interval(sides))}, proving)
        if made is None or (again.verdict.outcome != "undecided" and (again.width < made.width or not decided)):
            made = again
        decided = made.verdict.outcome != "undecided"
        if decided and (made.width <= proving.slack or clock.done > steps / 2):
            return made
        if cells == MOST_CELLS or clock.done > steps:
            return made
        cells = more_cells(cells, made.width / proving.slack if decided else math.inf)


def _upper_of_larger_laws(proving: Proving, delta: float) -> float:
    """About the epsilon of the checker's own laws where they are coins over Gaussians that are too large (C-27).

    It is where the claim's upper side is looked for; the checker decides whether it holds.
    """
    largest = 0.0
    for pair in proving.pairs:
        rounds, left = [], delta
        for one, times in pair.parts:
            if not isinstance(one, Gaussians):
                return 0.0
            weights = np.array([_rounded(weight) for weight, _ in one.coin])
            branches = [Branch(Side.point(math.sqrt(_rounded(square))), ZERO) for _, square in one.coin]
            rounds.append((Round(branches, np.log(weights / math.fsum(weights)).tolist()), times))
            left -= times * _rounded(one.missing)
        if left <= 0.0:
            return 0.0
        largest = max(largest, epsilon_of(compose(rounds), math.log(left), Options()).upper)
    return largest * (1.0 + 1e-9)


def _rounded(number: Any) -> float:
    """The double next to a rational."""
    return float(Fraction(int(number.p), int(number.q)))


def _as_checked(run: Any) -> tuple[DPSGD | CorrelatedNoise, ...]:
    """The run with laws that the checker knows."""
    phases = _phases(run)
    for phase in phases:
        if isinstance(phase, CorrelatedNoise):
            _require_checked(phase)
        elif phase.sampling.name in ("spread", "allocation"):
            raise InvalidArgument("run", InWords(phase.sampling.title), "have a sampling whose law the checker knows")
    return tuple(
        replace(phase, sampling=RevealedBallsInBins(batches=phase.sampling.batches))
        if isinstance(phase, DPSGD) and isinstance(phase.sampling, BallsInBinsSampling)
        else phase
        for phase in phases
    )


def _phases(run: Any) -> tuple[DPSGD | CorrelatedNoise, ...]:
    mechanisms = tuple(one.run if isinstance(one, BandMF) else one for one in mechanisms_of(run))
    found = tuple(one for one in mechanisms if isinstance(one, DPSGD | CorrelatedNoise))
    if len(found) < len(mechanisms):
        raise InvalidArgument("run", run, "be of DPSGD and CorrelatedNoise for the checker to know its laws")
    return found


def _require_checked(run: CorrelatedNoise) -> None:
    """Refuse correlated noise that the checker has no law for."""
    if not isinstance(run.strategy, BandedToeplitz):
        raise InvalidArgument("strategy", InWords(run.strategy.describe()), "be a BandedToeplitz for a certificate")
    bands = run.strategy.bands(run.steps)
    match run.participation:
        case CyclicPoisson(parts=apart, assigned=assigned, rate=rate):
            if assigned != "person" and bands > 1 and (apart > MOST_SHARES or rate == 1.0):
                raise InvalidArgument(
                    "participation",
                    InWords(f"{apart} parts and a rate of {rate!r}"),
                    f"have at most {MOST_SHARES} parts and a rate below 1 for a certificate with examples in any parts",
                )
        case MinimumSeparation(separation=apart, together=together):
            if not together:
                raise InvalidArgument("together", False, "be True for a certificate")
        case FixedEpochs(batches=apart):
            pass
    if bands > apart:
        raise InvalidArgument(
            "strategy", InWords(f"{bands} bands"), f"have at most {apart} bands, as rounds are apart, for a certificate"
        )


def claim_of(run: Any, *, delta: float, group_size: Any, adjacency: str, removed: Any = None, added: Any = None) -> Any:
    """What is claimed about: the run, the group and delta, as the checker reads them."""
    if removed is not None or added is not None:
        group = {"adjacency": "removed-and-added", "removed": _counts(removed), "added": _counts(added)}
    else:
        group = {"adjacency": adjacency, "group_size": _counts(group_size)}
    return {"run": [described(phase) for phase in _phases(run)], **group, "delta": spelled(delta)}


def _counts(group: Any) -> Any:
    return {name: int(count) for name, count in group.items()} if isinstance(group, Mapping) else int(group or 0)


def described(phase: DPSGD | CorrelatedNoise) -> dict[str, Any]:
    """One phase under the names of run files, its floats as the decimals that name them."""
    if isinstance(phase, CorrelatedNoise):
        return _described_correlated(phase)
    return {name: _exact(value) for name, value in phase.values().items()}


def _exact(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _exact(part) for name, part in value.items()}
    return spelled(value) if isinstance(value, float) else value


def _described_correlated(run: CorrelatedNoise) -> dict[str, Any]:
    """Correlated noise as the checker reads it; M-3's shares belong to the claim, because its law depends on them."""
    _require_checked(run)
    participation = run.participation
    found = {
        "mechanism": run.name,
        "strategy": run.strategy.name,
        "column": [spelled(value) for value in run.strategy.first_column(run.steps).tolist()],  # type: ignore[union-attr]
        "participation": participation.name,
        "noise_multiplier": spelled(run.noise_multiplier),
        "normalisation": run.normalisation,
        "steps": run.steps,
    }
    match participation:
        case CyclicPoisson(parts=parts, rate=rate, assigned=assigned):
            found |= {"parts": parts, "rate": spelled(rate), "assigned": assigned}
            if assigned != "person":
                found["shares"] = [spelled(share) for share in row_shares(run.strategy, run.steps, parts=parts)]
        case MinimumSeparation(separation=separation, participations=participations):
            found |= {"separation": separation, "participations": participations}
        case FixedEpochs(batches=batches):
            found |= {"batches": batches}
    return found


def certificate_of(claim: dict[str, Any]) -> Certificate:
    """The certificate of a claim, tried out: hints are refined until the checker decides, or stays undecided."""
    proving = proving_of(claim, Clock(steps=MOST_STEPS))
    proving.contours()
    if any(pair.hints is None for pair in proving.pairs):
        proving.lattices(ENOUGH_CELLS)
    return tried(claim, proving)


def proving_of(claim: dict[str, Any], clock: Clock) -> Proving:
    """Nothing is proved yet; the claim has a meaning."""
    try:
        phases(claim["run"])
        return Proving(claim, clock)
    except NotACertificate as error:
        raise InvalidArgument.saying("claim", str(error)) from None


def tried(claim: dict[str, Any], proving: Proving) -> Certificate:
    """A claim with the hints that were found, and what the checker says; what is proved is not proved again."""
    document = {
        "format": "groupdp certificate",
        "version": 1,
        "made_by": f"groupdp {VERSION}",
        "claim": claim,
        "hints": proving.hints,
    }
    try:
        return Certificate(document, decide(json.dumps(document), proving.clock, proving.known))
    except NotACertificate as error:
        raise InvalidArgument.saying("claim", str(error)) from None


def outward(lower: float, upper: float) -> dict[str, str]:
    """Both sides as decimals, a little further apart than the doubles."""
    if math.isinf(lower):
        return {"lower": "infinity", "upper": "infinity"}
    if upper == 0.0:
        return {"lower": "0", "upper": "0"}
    low, high = Decimal(lower) * (1 - _OUTWARD), Decimal(upper) * (1 + _OUTWARD) if math.isfinite(upper) else None
    return {
        "lower": _spelled(low, ROUND_FLOOR) if lower > 0.0 else "0",
        "upper": "infinity" if high is None else _spelled(high, ROUND_CEILING),
    }


def _spelled(value: Decimal, rounding: str) -> str:
    return format(Context(prec=17, rounding=rounding).plus(value), "f")


def spelled(value: float) -> str:
    """The shortest decimal that names a double, in the checker's spelling."""
    text = repr(float(value))
    return text[:-2] if text.endswith(".0") else text.replace("e-0", "e-").replace("e+", "e")


def is_tight(claim: dict[str, Any]) -> bool:
    """Whether the checker knows the claim's laws to be attained."""
    return all(tight(phase, change) for phase in claim["run"] for change in changes(claim))
