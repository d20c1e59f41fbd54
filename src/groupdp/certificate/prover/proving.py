"""Choose the method and the hints for each pair of a claim; widen the interval where the claim cannot be proved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from flint import arb, ctx

from groupdp.certificate.checker import LARGEST_EPSILON, LARGEST_PRECISION, Proof, proof_of
from groupdp.certificate.checker.closed_forms import revealed
from groupdp.certificate.checker.contour import MOST_NODES, MOST_POINTS, largest_loss
from groupdp.certificate.checker.laws import Change, Composition, Gaussians, Mixtures, Noiseless, Profile, changes
from groupdp.certificate.checker.lines import Hidden
from groupdp.certificate.checker.reading import Clock, Undecided, number
from groupdp.certificate.prover.float_rounds import nodes_of_envelope
from groupdp.certificate.prover.hints import hints_for, lattice_hints
from groupdp.errors import LimitExceeded

#: How far below the claim's own width the contour's errors are asked to be, one attempt after the other.
ATTEMPTS = (1e-2, 1e-4, 1e-7)
#: Cells of a round on the lattice: at first, of a claim that may not be widened, and at most.
FEWEST_CELLS, ENOUGH_CELLS, MOST_CELLS = 1_000, 8_000, 60_000
#: Steps of a certificate, some 5 000 in a second; a third of them are for contours, half of them for a narrow interval.
MOST_STEPS = 1_500_000
#: Steps of the contours of few rounds, which are long, before lattices are tried: some 5 s in all.
_FIRST_STEPS, _FEW_ROUNDS = 25_000, 100
#: Terms of sums in a contour that take as long as a step, about, and as a node of an envelope.
_TERMS_OF_STEP, _TERMS_OF_NODE = 1_600.0, 100.0
#: Relative width of an interval that is not worth more cells.
NARROW = 1e-4
#: Errors of hints in floats: the checker then says which hint is missing.
_NO_HINTS = (Undecided, ValueError, OverflowError, ZeroDivisionError)


class Deadline(Clock):
    """Raises LimitExceeded after the seconds that a caller allows; no bound depends on them."""

    def is_over(self) -> None:
        raise LimitExceeded(
            f"seconds: the certificate was not finished within the {self.seconds:g} that were asked for."
        )


class ClosedForm(Exception):
    """No hints are needed."""


@dataclass
class Pair:
    """An ordered pair of datasets, with its laws and hints.

    It is settled once its hints decide both sides of the claim as far as this pair can, and near enough if it widens
    the claim by so little that more cells are not worth it.
    """

    change: Change
    parts: Composition
    laws: list[Any] | None = None
    hints: dict[str, Any] | None = None
    settled: bool = False
    near_enough: bool = False

    @property
    def all_hints(self) -> dict[str, Any] | None:
        """The hints with the laws of hidden allocations (C-30)."""
        return self.hints if self.laws is None else with_laws(self.laws, self.hints)


def with_laws(laws: list[Any] | None, hints: dict[str, Any] | None = None) -> dict[str, Any] | None:
    """Hints that name laws of hidden allocations."""
    return hints if laws is None else {"precision": 192, **(hints or {}), "laws": laws}


class Proving:
    """Hints for the pairs of a claim and the proofs made with them; `laws` are those of hidden allocations."""

    def __init__(self, claim: dict[str, Any], clock: Clock, laws: dict[str, list[Any]] | None = None) -> None:
        self.claim, self.clock, self.known = claim, clock, list[Proof]()
        self.target = number(claim["delta"], "delta", 0, 1)
        sides = (claim["epsilon"][side] for side in ("upper", "lower"))
        self.upper, self.lower = (
            None if side == "infinity" else number(side, "epsilon", 0, LARGEST_EPSILON) for side in sides
        )
        self.is_below = self.lower == 0  # whether delta(epsilon.lower) > delta is proved for one pair, or not claimed
        self.slack = max(
            NARROW, 0.0 if self.upper is None or not self.lower else 2 - 2 * float(self.lower / self.upper)
        )
        self.pairs: list[Pair] = []
        for change in changes(claim):
            try:
                own = (laws or {}).get(change.name)
                parts = proof_of(claim["run"], change, with_laws(own), self.known, clock).parts
                self.pairs.append(Pair(change, parts, own))
            except Undecided:
                continue  # the checker will say what is missing

    @property
    def has_larger_laws(self) -> bool:
        """Whether the checker has a law of a pair for the upper side alone (C-27, C-30)."""
        return any(
            isinstance(round_, Gaussians | Hidden) and round_.larger for pair in self.pairs for round_, _ in pair.parts
        )

    @property
    def has_hidden_laws(self) -> bool:
        """Whether a pair has a hidden allocation, which needs a contour."""
        return any(isinstance(round_, Hidden) for pair in self.pairs for round_, _ in pair.parts)

    @property
    def hints(self) -> dict[str, Any]:
        """By the names of the pairs that have some."""
        named = {pair.change.name: pair.all_hints for pair in self.pairs}
        return {name: hints for name, hints in named.items() if hints is not None}

    @property
    def has_long_contours(self) -> bool:
        """Whether lattices are tried before long contours: few rounds decay slowly."""
        return not self.has_hidden_laws and all(
            sum(times for _, times in pair.parts) <= _FEW_ROUNDS for pair in self.pairs
        )

    def contours(self, *, long: bool = True) -> None:
        """Give every pair a contour that settles it, refined where need be, unless that would take too many steps."""
        left = self.clock.steps / 3 if long else _FIRST_STEPS
        for n, pair in enumerate(self.pairs):
            if pair.settled:
                continue
            if (same := next((same for same in self.pairs[:n] if same.parts == pair.parts), None)) is not None:
                pair.hints, pair.settled = same.hints, same.settled
                continue
            for share in ATTEMPTS:
                try:
                    noisy, asked = self.asked(pair, share)
                    hints = hints_for(noisy, **asked)
                except ClosedForm:
                    pair.settled = True
                    break
                except _NO_HINTS:
                    break
                if (needed := steps_of(noisy, hints)) > left:
                    break
                left -= needed
                if hints != pair.hints:
                    pair.hints = hints
                    pair.settled = self.settles(pair)
                if pair.settled:
                    break

    def lattices(self, cells: int) -> None:
        """Give every pair that is not near enough a lattice of up to `cells` cells, if there is one."""
        for n, pair in enumerate(self.pairs):
            if (same := next((same for same in self.pairs[:n] if same.parts == pair.parts), None)) is not None:
                pair.hints, pair.near_enough = same.hints, same.near_enough
            elif not pair.settled and not pair.near_enough:
                try:
                    noisy, asked = self.asked(pair, ATTEMPTS[0])
                    asked["accuracy"] = max(25 * asked["accuracy"], 1e-9 * abs(asked["epsilon"]))
                    pair.hints = lattice_hints(noisy, **asked, most=cells)
                except _NO_HINTS:
                    continue
                pair.near_enough = self.settles(pair, self.slack / 4)  # so that the whole has that width

    def asked(self, pair: Pair, share: float) -> tuple[Composition, dict[str, float]]:
        """The noisy rounds of a pair, where their delta is to be enclosed, and how accurately."""
        lower, upper = (float(self.claim["epsilon"][side]) for side in ("lower", "upper"))
        middle = lower + (upper - lower) / 2 if math.isfinite(upper) else lower
        width = max((upper - lower) / max(middle, 1e-9), 1e-14) if math.isfinite(upper) else 1e-3
        if lower == 0.0:  # only the upper side is to be proved
            middle, width = upper, 1e-3
        noisy = [(round_, times) for round_, times in pair.parts if not isinstance(round_, Noiseless)]
        quiet = revealed([(round_, times) for round_, times in pair.parts if isinstance(round_, Noiseless)])
        epsilon = middle - float(quiet.most)
        few = sum(times for _, times in noisy) < 2 and not any(isinstance(round_, Hidden) for round_, _ in noisy)
        if few or not epsilon < float(largest_loss(noisy)):
            raise ClosedForm
        left = float(quiet.p[0]), float(Decimal(self.claim["delta"]).ln())
        target = math.log((math.exp(left[1]) - 1 + left[0]) / left[0]) if left[0] < 1.0 else left[1]
        return noisy, {"epsilon": epsilon, "log_delta": target, "accuracy": share * width * middle}

    def settles(self, pair: Pair, slack: float = 0.0) -> bool:
        """Whether the pair's hints decide the upper side, and the lower side unless another pair has.

        Of an interval that is wider by `slack` on either side, relatively.
        """
        sides = (self.upper, 1 + slack), (self.lower, 1 - slack)
        try:
            proof = proof_of(self.claim["run"], pair.change, pair.all_hints, self.known, self.clock)
            above, below = (None if side is None else proof.delta(arb(side) * by) for side, by in sides)
        except Undecided:
            return False
        with ctx.workprec(LARGEST_PRECISION):
            proves = below is None or below[0] > self.target
            self.is_below = self.is_below or bool(proves and not slack)
            is_above = above is None or above[1] <= self.target or above[0] > self.target
            return bool(is_above and (self.is_below or below is None or proves or below[1] < self.target))

    def interval(self, bounds: tuple[float, float]) -> tuple[float, float]:
        """The interval around `bounds` that the current hints prove; `bounds` if they prove none."""
        lower, upper = (bounds[0] if self.is_below else 0.0), bounds[1]
        for pair in (pair for pair in self.pairs if not pair.settled):
            try:
                proof = proof_of(self.claim["run"], pair.change, pair.all_hints, self.known, self.clock)
                upper = self.outward(upper, 1, proof)
                if lower < bounds[0]:
                    lower = max(lower, self.outward(bounds[0], -1, proof))
            except Undecided:
                return bounds
        return lower, upper

    def outward(self, start: float, sign: int, proof: Proof) -> float:
        """A number near `start`, above it (1) with delta <= target, or below it (-1) with delta > target, or 0."""

        def holds(log_distance: float) -> bool:
            lower, upper = proof.delta(arb(start * (1 + sign * math.exp(log_distance))))
            with ctx.workprec(LARGEST_PRECISION):
                return bool(upper <= self.target) if sign > 0 else bool(lower > self.target)

        if not math.isfinite(start):
            return start
        low = high = math.log(1e-14)
        while not holds(high):
            if high == 0.0 and sign > 0:
                raise Undecided("no epsilon near the bounds could be proved")
            if high == 0.0:
                return 0.0
            low, high = high, min(high + 6.0, 0.0)
        for _ in range(5 if high > low else 0):
            middle = (low + high) / 2
            low, high = (low, middle) if holds(middle) else (middle, high)
        return start * (1 + sign * math.exp(high))


def more_cells(cells: int, factor: float) -> int:
    """Cells for an interval that is to be narrower by `factor`.

    Its width is an error of second order, and of a lower one in few cells: a third lattice takes longer than a larger
    second one.
    """
    if not cells:
        return FEWEST_CELLS
    return min(math.ceil(cells * min(max(2.0 * math.sqrt(factor), 1.5), 16.0)), MOST_CELLS)


def steps_of(noisy: Composition, hints: dict[str, Any]) -> float:
    """About how many steps a contour is worth: every point has a sum over the nodes of a branch, or integrals."""
    if hints["points"] > MOST_POINTS:
        return math.inf
    total = 0.0
    for (round_, _), part in zip(noisy, hints["rounds"], strict=True):
        if isinstance(round_, Mixtures):
            nodes = part["last"] - part["first"]
            terms = math.inf if nodes >= MOST_NODES else len(round_.branches) * nodes * hints["points"]
            total += terms / _TERMS_OF_STEP
        elif isinstance(round_, Profile):
            total += 2 * nodes_of_envelope(round_, part) * (hints["points"] + _TERMS_OF_NODE) / _TERMS_OF_STEP
        elif isinstance(round_, Hidden):
            for factor in part["factors"]:
                nodes, points = factor["last"] - factor["first"], factor["high"] - factor["low"]
                terms = nodes * ((factor["order"] + 1) * (30 + points) + hints["points"])
                total += terms * hints["precision"] / 192 / _TERMS_OF_STEP
    return total
