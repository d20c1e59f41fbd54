"""The prover: writes the claim, and finds the hints with which the checker proves it.

proving        which method is to prove a claim, and what it can prove
chosen_laws    laws of hidden allocations for a claim
hints          where the contour should lie, and how fine and how far a lattice should be, in plain floats
float_rounds   a round's law in plain floats, for both; float_hidden: the same for hidden allocations
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

from groupdp._version import VERSION
from groupdp.certificate.checker import Verdict, attained, decide
from groupdp.certificate.checker.laws import changes
from groupdp.certificate.checker.reading import MOST_PHASES, Clock, NotACertificate, digest
from groupdp.certificate.checker.runs import MOST_SHARES, phases
from groupdp.certificate.prover.chosen_laws import laws_of_claim, sides_of_laws
from groupdp.certificate.prover.proving import (
    ENOUGH_CELLS,
    FEWEST_CELLS,
    MOST_CELLS,
    MOST_STEPS,
    Deadline,
    Proving,
    more_cells,
)
from groupdp.errors import InvalidArgument, InWords, require_integer, require_number
from groupdp.guarantees import epsilon
from groupdp.mechanisms.correlated import (
    BandedToeplitz,
    BandMF,
    CorrelatedNoise,
    CyclicPoisson,
    FixedEpochs,
    MinimumSeparation,
    SeparatedPoisson,
)
from groupdp.mechanisms.correlated.sensitivities import row_shares
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.mechanisms.mechanism import Mechanism, Wrapper, mechanisms_of
from groupdp.mechanisms.releases import GaussianRelease
from groupdp.mechanisms.wrappers import FIXED, OfGroup, Search, with_own_groups
from groupdp.samplings.poisson import PoissonSampling

#: Bounds are moved outward by this much, relatively: the claim is about decimals, the engines' answer about doubles.
_OUTWARD = Decimal("2e-14")
#: How far below, relatively, the lower side is moved where column norms were rounded up (M-1): at most 4 096 roundings.
_NORMS_ROUNDED = 1e-11


@dataclass(frozen=True)
class Certificate:
    """A claim with hints, as written to a file, and the checker's `verdict` on it."""

    document: dict[str, Any]
    verdict: Verdict

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON."""
        return digest(self.document)

    @property
    def relative_width(self) -> float:
        """(epsilon.upper - epsilon.lower) / epsilon.upper; infinite if the upper side is, and 0 if both are."""
        lower, upper = (float(self.document["claim"]["epsilon"][side]) for side in ("lower", "upper"))
        if lower == upper:
            return 0.0
        return (upper - lower) / upper if math.isfinite(upper) else math.inf

    @property
    def width(self) -> float:
        """The name of `relative_width` before 0.3."""
        warnings.warn("Certificate.width is now called relative_width.", DeprecationWarning, stacklevel=2)
        return self.relative_width

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

    Where an allocation stays hidden and the bound is valid, not tight, the claim is the upper side of a law that the
    checker has (C-30), which may be a little larger than `groupdp.epsilon`'s.

    Formal guarantee: if `verdict.outcome` is "verified", then delta(epsilon.upper) <= delta, and delta(epsilon.lower)
    > delta unless epsilon.lower is 0, for the decimals in the claim. Bounds are moved outward by 2e-14 relatively;
    and further, where the checker can only prove an interval that is wider than that of `groupdp.epsilon`. The same
    question has the same certificate on every run: `steps` of the proofs are counted, some 5 000 in a second, and half
    of them go into a narrower interval. LimitExceeded is raised if it takes longer than `seconds`, if they are given.
    """
    limit = math.inf if seconds is None else require_number("seconds", seconds, above=0.0)
    clock = Deadline(limit, require_integer("steps", steps, at_least=1))
    question: dict[str, Any] = {"adjacency": adjacency, "removed": removed, "added": added}
    run, group_size = with_own_groups(run, group_size)
    correlated = [phase for phase in map(Wrapper.innermost, _phases(run)) if isinstance(phase, CorrelatedNoise)]
    for phase in correlated:
        _require_checked(phase)
    bounds = epsilon(_phases(run), delta=delta, group_size=group_size, progress=progress, **question)
    claim = claim_of(run, delta=delta, group_size=group_size, **question)
    sides = bounds.lower * (1.0 - (_NORMS_ROUNDED if correlated else 0.0)), bounds.upper
    made = None
    for laws in laws_of_claim(claim, delta, clock):
        if made is None or made.verdict.outcome == "undecided":
            is_tight = bounds.tight and attained(
                claim["run"], changes(claim), {name: {"laws": named} for name, named in laws.items()}
            )
            made = _certified({**claim, "tight": is_tight}, sides, laws, clock, delta)
    if made is None:
        raise AssertionError("a claim must have laws")
    return made


def _certified(
    claim: dict[str, Any], sides: tuple[float, float], laws: dict[str, list[Any]], clock: Clock, delta: float
) -> Certificate:
    """The claim of these sides, or of those of laws that dominate the run, with hints that prove it."""
    claim = {**claim, "epsilon": outward(*sides)}
    clock.check()
    proving = proving_of(claim, clock, laws)
    is_exact = not laws or claim["tight"]
    if proving.has_larger_laws or not is_exact:
        sides = sides_of_laws(proving, delta) or (0.0, sides[1])
        claim["epsilon"] = outward(*sides)
        proving = proving_of(claim, clock, laws)
    long = proving.has_long_contours
    proving.contours(long=not long)
    if all(pair.settled for pair in proving.pairs):
        return tried(claim, proving)
    made = _widened(claim, proving, sides)
    if long and (made.verdict.outcome == "undecided" or made.relative_width > proving.slack):
        proving.contours()
        if all(pair.settled for pair in proving.pairs):
            return tried(claim, proving)
    return made


def _widened(claim: dict[str, Any], proving: Proving, sides: tuple[float, float]) -> Certificate:
    """The claim of the narrowest interval around `sides` that contours and lattices of a growing size prove."""
    clock = proving.clock
    has_contours = all(pair.settled or pair.hints is not None for pair in proving.pairs)
    made, decided, cells = None, False, 0 if has_contours else FEWEST_CELLS
    while True:
        if cells:
            proving.lattices(cells)
        again = tried({**claim, "epsilon": outward(*proving.interval(sides))}, proving)
        is_decided = again.verdict.outcome != "undecided"
        if made is None or (is_decided and (not decided or again.relative_width < made.relative_width)):
            made = again
        decided = made.verdict.outcome != "undecided"
        if decided and (made.relative_width <= proving.slack or clock.done > clock.steps / 2):
            return made
        if cells == MOST_CELLS or clock.done > clock.steps or (cells and proving.has_hidden_laws):
            return made
        cells = more_cells(cells, made.relative_width / proving.slack if decided else math.inf)


def _phases(run: Any) -> tuple[Mechanism, ...]:
    """The run as phases of DP-SGD and correlated noise, some with a group size of their own (C-36)."""
    listed: list[Mechanism] = []
    for phase in mechanisms_of(with_own_groups(run, None)[0]):
        own = phase.group_size if isinstance(phase, OfGroup) else None
        mechanism: Any = phase.mechanism if isinstance(phase, OfGroup) else phase
        times = 1
        if isinstance(mechanism, Search) and mechanism.law == FIXED and mechanism.runs <= MOST_PHASES:
            mechanism, times = mechanism.mechanism, int(mechanism.runs)
        if isinstance(mechanism, BandMF):
            mechanism = mechanism.run
        elif isinstance(mechanism, GaussianRelease):  # the law of full batches; of a person, that of one example
            own = 1 if mechanism.per_person and own != 0 else own
            mechanism = DPSGD(
                PoissonSampling(rate=1.0), noise_multiplier=mechanism.noise_multiplier, steps=mechanism.releases
            )
        if not isinstance(mechanism, DPSGD | CorrelatedNoise):
            known = "DPSGD, CorrelatedNoise, GaussianRelease or a fixed number of runs of them"
            raise InvalidArgument("run", mechanism, f"be of {known} for the checker to know its laws")
        listed += [mechanism if own is None else OfGroup.of(mechanism, own)] * times
    return tuple(listed)


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
        case SeparatedPoisson(separation=apart, rate=rate):
            if bands > 1 and (bands > MOST_SHARES or rate == 1.0):
                needed = f"have at most {MOST_SHARES} bands and a rate below 1 for a certificate"
                raise InvalidArgument("participation", InWords(f"{bands} bands and a rate of {rate!r}"), needed)
        case other:
            raise InvalidArgument("participation", InWords(other.name), "be one that the checker has a law for")
    if bands > apart:
        raise InvalidArgument(
            "strategy",
            InWords(f"{bands} bands"),
            f"have at most {apart} bands for a certificate: the rounds of an example are so far apart",
        )


def claim_of(run: Any, *, delta: float, group_size: Any, adjacency: str, removed: Any = None, added: Any = None) -> Any:
    """The run, the group and delta of a claim, as the checker reads them."""
    if removed is not None or added is not None:
        group = {"adjacency": "removed-and-added", "removed": _counts(removed), "added": _counts(added)}
    else:
        group = {"adjacency": adjacency, "group_size": _counts(group_size)}
    return {"run": [described(phase) for phase in _phases(run)], **group, "delta": spelled(delta)}


def _counts(group: Any) -> Any:
    return {name: int(count) for name, count in group.items()} if isinstance(group, Mapping) else int(group or 0)


def described(phase: Mechanism) -> dict[str, Any]:
    """One phase under the names of run files, its floats as the decimals that name them."""
    if isinstance(phase, OfGroup):
        return {**described(phase.mechanism), "group_size": phase.group_size}
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
    description = {
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
            description |= {"parts": parts, "rate": spelled(rate), "assigned": assigned}
            if assigned != "person":
                description["shares"] = [spelled(share) for share in row_shares(run.strategy, run.steps, parts=parts)]
        case MinimumSeparation(separation=separation, participations=participations):
            description |= {"separation": separation, "participations": participations}
        case FixedEpochs(batches=batches):
            description |= {"batches": batches}
        case SeparatedPoisson(separation=separation, rate=rate):
            shares = row_shares(run.strategy, run.steps, parts=run.strategy.bands(run.steps))
            description |= {"separation": separation, "rate": spelled(rate), "shares": [*map(spelled, shares)]}
    return description


def certificate_of(claim: dict[str, Any]) -> Certificate:
    """The certificate of any claim, with hints as good as the prover makes them; the verdict may be any."""
    proving = proving_of(claim, Clock(steps=MOST_STEPS))
    proving.contours()
    if any(pair.hints is None for pair in proving.pairs):
        proving.lattices(ENOUGH_CELLS)
    return tried(claim, proving)


def proving_of(claim: dict[str, Any], clock: Clock, laws: dict[str, list[Any]] | None = None) -> Proving:
    """The proofs to make for a valid claim; raises InvalidArgument for an invalid one."""
    try:
        phases(claim["run"])
        return Proving(claim, clock, laws)
    except NotACertificate as error:
        raise InvalidArgument.saying("claim", str(error)) from None


def tried(claim: dict[str, Any], proving: Proving) -> Certificate:
    """The certificate of a claim with the current hints; the checker uses the proofs made before."""
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
