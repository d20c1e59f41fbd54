"""What a tool's answer is worth: an error against the truth, a violation of it, or the way it failed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

#: Answers are compared with the truth up to this, relative to it: the golden tables are good to 1e-13.
RESOLUTION = 2e-13


@dataclass(frozen=True, slots=True)
class Outcome:
    """One tool at one setting on one item."""

    kind: str  # "value", "violation", "infinite", "timeout", "error" or "missing"
    value: float | None = None
    seconds: float | None = None
    error: float | None = None  # |value - truth|
    width: float | None = None  # certified width, for tools that state both sides
    message: str = ""

    @property
    def gives_time(self) -> bool:
        return self.seconds is not None and self.kind in ("value", "violation", "infinite")

    @property
    def inaccuracy(self) -> float | None:
        """What the user has to reckon with: the certified width, or else the true error."""
        return self.width if self.width is not None else self.error


def judge(answer: dict[str, Any] | None, *, claim: str, truth: float | None) -> Outcome:
    """`claim` is what the tool says its value is: "bounds", "upper bound" or "estimate"."""
    if answer is None:
        return Outcome("missing")
    if "timeout" in answer:
        return Outcome("timeout", seconds=answer["timeout"], message=f"no answer in {answer['timeout']:g} s")
    if "error" in answer:
        return Outcome("error", message=answer["error"])
    value, seconds = float(answer["value"]), answer["seconds"]
    if not math.isfinite(value):
        return Outcome("infinite", value=value, seconds=seconds, message=answer.get("warning", ""))
    stated = answer.get("lower")
    lower = math.nan if stated in (None, "None") else float(stated)
    width = value - lower if claim == "bounds" and math.isfinite(lower) else None
    error = None if truth is None else abs(value - truth)
    if truth is not None and claim != "estimate":
        slack = RESOLUTION * abs(truth)
        if value < truth - slack:
            message = f"below the truth by {truth - value:.2g}"
            return Outcome("violation", value, seconds, error, width, message)
        if lower > truth + slack:
            message = f"its lower bound is above the truth by {lower - truth:.2g}"
            return Outcome("violation", value, seconds, error, width, message)
    return Outcome("value", value, seconds, error, width, answer.get("warning", ""))


def time_ratio(peer: Outcome, ours: Outcome) -> float | None:
    """How many times longer the peer took; at least this if it ran into the time limit."""
    if ours.seconds is None or peer.seconds is None or not (peer.gives_time or peer.kind == "timeout"):
        return None
    return peer.seconds / ours.seconds


def error_ratio(peer: Outcome, ours: Outcome) -> float | None:
    """The peer's error over our certified width."""
    if peer.error is None or not ours.width:
        return None
    return peer.error / ours.width
