"""A small independent program that proves or refutes a certificate, in ball arithmetic (python-flint).

It trusts what a claim means and nothing else: the laws are rebuilt from the run (`laws`), hints are only hints, and
every error is enclosed. docs/internals/certificate.md has the theorems taken on trust and the inequalities C-1, C-2,
... cited here. Nothing of groupdp is imported but the files beside this one.

reading         a file of unknown origin: bounded before it is used; what is claimed, in sentences
laws            the laws a claim is about, rebuilt as exact rationals
allocations     a group dealt to batches: the law of the sum of squares, and allocations that stay hidden
runs            the phases of a run, of correlated noise too: read, and composed
contour         many rounds, by a contour
lines           what a contour needs of a round; the moments of hidden allocations
envelope        the same for fixed batches with examples replaced
closed_forms    tails of one round, one round and rounds without noise in closed form
lattice         few rounds and rare large losses, by measures on a lattice
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flint import arb, ctx, fmpq

from groupdp.certificate.checker.closed_forms import delta_with, one_round
from groupdp.certificate.checker.contour import Contour, largest_loss
from groupdp.certificate.checker.lattice import Lattice
from groupdp.certificate.checker.laws import Change, Composition, Gaussians, Noiseless, changes
from groupdp.certificate.checker.lines import Hidden
from groupdp.certificate.checker.reading import Clock, NotACertificate, Undecided, digest, fields, hint, number, read
from groupdp.certificate.checker.runs import composition, law_of, phases, tight

#: Most bits of a ball.
LARGEST_PRECISION = 2_000
LARGEST_EPSILON = fmpq(10) ** 12


@dataclass(frozen=True)
class Verdict:
    """`outcome` is "verified", "refuted" or "undecided"; `reason` says why, `claim` and `digest` of what."""

    outcome: str
    reason: str
    digest: str
    claim: dict[str, Any]
    details: tuple[str, ...] = ()


def verify(text: str | bytes, *, seconds: float = 300.0, known: list[Proof] | None = None) -> Verdict:
    """Prove or refute the certificate in `text` within `seconds`; raises NotACertificate for any other text.

    `known` are earlier results of `proof_of`, which are used again. If the time ends before a pair is decided,
    `details` says so for that pair.
    """
    return decide(text, Clock(seconds), known)


def decide(text: str | bytes, clock: Clock, known: list[Proof] | None = None) -> Verdict:
    """`verify` with a clock that may count steps."""
    certificate = fields(read(text), "a certificate", {"format", "version", "claim", "hints"}, {"made_by"})
    claim = fields(
        certificate["claim"],
        "the claim",
        {"run", "adjacency", "delta", "epsilon", "tight"},
        {"group_size", "removed", "added"},
    )
    target = number(claim["delta"], "delta", fmpq(10) ** -320, 1)
    sides = fields(claim["epsilon"], "epsilon", {"lower", "upper"}, set())
    endless = sides["lower"] == "infinity" == sides["upper"]
    lower = arb.pos_inf() if endless else number(sides["lower"], "epsilon.lower", 0, LARGEST_EPSILON)
    upper = None if sides["upper"] == "infinity" else number(sides["upper"], "epsilon.upper", 0, LARGEST_EPSILON)
    if upper is not None and upper < lower:
        raise NotACertificate("epsilon.upper must be at least {lower}, the lower side, got {upper}.".format(**sides))
    if type(claim["tight"]) is not bool:
        raise NotACertificate("tight must be true or false.")
    hints = certificate["hints"] if isinstance(certificate["hints"], dict) else {}
    pairs, run, details, deltas = changes(claim), phases(claim["run"]), list[str](), list[Any]()
    known = [] if known is None else known
    for change in pairs:
        try:
            proof = proof_of(run, change, hints.get(change.name), known, clock)
            deltas.append([proof.delta(upper), proof.delta(lower if lower > 0 else None)])
            claims = (("upper", upper is not None), ("lower", lower > 0))
            sides_proved = [
                f"in [{low.str(15, radius=False)}, {high.str(15, radius=False)}] at epsilon.{side}"
                for (side, claimed), (low, high) in zip(claims, deltas[-1], strict=True)
                if claimed
            ]
            details.append(
                f"{change.name}: {'delta is ' + ' and '.join(sides_proved) if sides_proved else 'nothing is claimed'}."
            )
        except Undecided as missing:
            deltas.append([(arb(0), arb(1))] * 2)
            details.append(f"{change.name}: {missing}.")
    with ctx.workprec(LARGEST_PRECISION):
        outcome, reason = verdict(target, upper, lower, deltas)
    if outcome != "refuted" and claim["tight"] and not attained(run, pairs, hints):
        outcome, reason = "refuted", "it says tight, and the analysis is valid but not known to be tight"
    return Verdict(outcome, reason, digest(certificate), claim, tuple(details))


def attained(run: Any, pairs: list[Change], hints: dict[str, Any]) -> bool:
    """Whether all laws that the proofs use are attained (C-1)."""
    return all(
        tight(phase, change, law_of(hints.get(change.name), index))
        for change in pairs
        for index, phase in enumerate(run)
    )


def verdict(target: fmpq, upper: fmpq | None, lower: Any, deltas: list[Any]) -> tuple[str, str]:
    """C-17: an upper side must hold for every pair of datasets, a lower side for one.

    Below a lower side delta must be larger: where it is flat, equality would say nothing of smaller epsilons.
    """
    if upper is not None and any(at[0][0] > target for at in deltas):
        return "refuted", "delta(epsilon.upper) is above delta"
    if lower > 0 and all(at[1][1] < target for at in deltas):
        return "refuted", "delta(epsilon.lower) is below delta"
    if upper is not None and not all(at[0][1] <= target for at in deltas):
        return "undecided", "delta(epsilon.upper) <= delta was not proved"
    if lower > 0 and not any(at[1][0] > target for at in deltas):
        return "undecided", "delta(epsilon.lower) > delta was not proved"
    if upper is None and not lower > 0:
        return "verified", "a lower side of 0 and an upper side of infinity claim nothing"
    if upper is None:
        return "verified", "delta < delta(epsilon.lower); an upper side of infinity claims nothing"
    if not lower > 0:
        return "verified", "delta(epsilon.upper) <= delta; a lower side of 0 claims nothing"
    return "verified", "delta(epsilon.upper) <= delta < delta(epsilon.lower)"


@dataclass
class Proof:
    """Bounds on delta for one ordered pair of datasets: `bound` returns (lower, upper) at an epsilon."""

    run: Any
    change: Change
    hints: Any
    parts: Composition
    bound: Callable[[arb], tuple[arb, arb]]

    def delta(self, epsilon: Any) -> tuple[arb, arb]:
        """(lower, upper) at epsilon; (0, 0) for None, which claims nothing."""
        with ctx.workprec(precision(self.hints)):
            return (arb(0), arb(0)) if epsilon is None else self.bound(arb(epsilon))


def proof_of(run: Any, change: Change, hints: Any, known: list[Proof], clock: Clock) -> Proof:
    """The proof for a pair, from `known` where the question, or the laws and the hints, are equal."""
    mine = [proof for proof in known if (proof.run, proof.change) == (run, change)]
    for proof in mine:
        if proof.hints == hints:
            return proof
    named = [law_of(hints, index) for index in range(len(run))]
    bits = max(precision(hints), precision(None))  # enclosures of laws must not depend on `known`
    with ctx.workprec(bits):
        mine = [proof for proof in mine if named == [law_of(proof.hints, index) for index in range(len(run))]]
        laws = (proof.parts for proof in mine if max(precision(proof.hints), precision(None)) == bits)
        parts = next(laws, None) or composition(run, change, clock.check, hints)
    same = (proof.bound for proof in known if (proof.parts, proof.hints) == (parts, hints))
    known.append(Proof(run, change, hints, parts, next(same, None) or delta_of(parts, hints, clock)))
    return known[-1]


def precision(hints: Any) -> int:
    """Bits of the balls; 192 for closed forms, which have no hints."""
    return int(hint(hints, "precision", 64, LARGEST_PRECISION)) if isinstance(hints, dict) else 192


def delta_of(parts: Composition, hints: Any, clock: Clock) -> Callable[[arb], tuple[arb, arb]]:
    """(lower, upper) of delta as a function of epsilon."""
    quiet = [(round_, times) for round_, times in parts if isinstance(round_, Noiseless)]
    noisy = noisy_delta([(round_, times) for round_, times in parts if not isinstance(round_, Noiseless)], hints, clock)
    if any(isinstance(round_, Gaussians | Hidden) and round_.larger for round_, _ in parts):  # C-27, C-30
        return lambda epsilon: delta_with(quiet, lambda shifted: (arb(0), noisy(shifted)[1]), epsilon)
    return lambda epsilon: delta_with(quiet, noisy, epsilon)


def noisy_delta(parts: Composition, hints: Any, clock: Clock) -> Callable[[arb], tuple[arb, arb]]:
    """(lower, upper) of delta of noisy rounds as a function of epsilon, by the method that the hints name."""
    made: list[Contour | Lattice] = []

    def delta(epsilon: arb) -> tuple[arb, arb]:
        if epsilon >= largest_loss(parts):
            return arb(0), sum((times * arb(round_.missing) for round_, times in parts), arb(0)).upper()  # C-16, C-5
        if not parts:
            return (1 - epsilon.exp()).lower(), (1 - epsilon.exp()).upper().max(arb(0))
        if sum(times for _, times in parts) == 1 and not isinstance(parts[0][0], Hidden):
            return one_round(parts[0][0], epsilon)
        if not isinstance(hints, dict):
            raise Undecided("it has no hints, and many rounds need them")
        if not made:
            made.append((Lattice if hints.get("method") == "lattice" else Contour)(parts, hints, clock))
        return made[0].delta(epsilon)

    return delta
