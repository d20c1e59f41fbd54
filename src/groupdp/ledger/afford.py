"""Whether the next run fits a budget after everything released so far, and the least noise and most steps that do."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from groupdp._validation import LARGEST_COUNT, require_number
from groupdp.bounds import Bounds
from groupdp.calibration import calibrate_noise, calibrate_steps
from groupdp.engines.interface import Progress
from groupdp.errors import InvalidArgument, InWords, LimitExceeded
from groupdp.ledger.book import AFTER_LOOKING, Ledger, releases_of, require_chosen
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.mechanisms.mechanism import SMALLEST_NOISE, Wrapper
from groupdp.mechanisms.wrappers import OfGroup
from groupdp.run_file.run import RunFile

#: The two figures.
COMPOSED, FILTER = "composed", "filter"
#: How close, relatively, the least noise is to the best.
_TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Afforded:
    """Whether a run fits the budget after everything released so far."""

    budget: float
    figure: str
    """Which figure applies: "composed", or "filter" where parameters are chosen after looking."""
    composed: Bounds
    """Epsilon with the run, all parameters fixed beforehand."""
    filtered: Bounds
    """The smallest budget of a filter that lets the run pass as well."""
    least_noise: float | None
    """The least noise multiplier of the run's last phase that fits; None if there is none, or nothing to choose."""
    most_steps: int | None
    """The most steps of its last phase that fit."""

    @property
    def fits(self) -> bool:
        """Whether the run fits as it is."""
        return (self.composed if self.figure == COMPOSED else self.filtered).upper <= self.budget


def afford(
    ledger: Ledger,
    run: RunFile,
    *,
    epsilon: float | None = None,
    chosen: str | None = None,
    progress: Progress | None = None,
) -> Afforded:
    """Whether `run` fits a budget, and the least noise and the most steps of its last phase that do.

    If its parameters, or those of an entry, were chosen after looking, the filter decides, with the budget that was
    fixed when the ledger was made.
    """
    looked = require_chosen(chosen, first=not ledger.entries) == AFTER_LOOKING or ledger.looked
    budget = ledger.epsilon if epsilon is None else require_number("epsilon", epsilon, above=0.0)
    if budget is None or (looked and budget != ledger.epsilon):
        fixed = "none" if ledger.epsilon is None else f"{ledger.epsilon!r}"
        asked = InWords(f"{budget!r}, where {fixed} was fixed") if looked else InWords("none")
        needed = (
            "be the budget that was fixed when the ledger was made" if looked else "be given, here or in the ledger"
        )
        raise InvalidArgument("epsilon", asked, needed)
    phases = releases_of(run)
    report = progress or (lambda _: None)
    composed, filtered = ledger.composed(phases), ledger.filtered(phases)
    report(0.2)
    values: dict[str, Any] = {"noise_multiplier": None, "steps": None}
    for share, name in enumerate(values):
        inner = Wrapper.innermost(phases[-1])
        if isinstance(inner, DPSGD) or (name == "noise_multiplier" and hasattr(inner, name)):
            fit = _most_by_filter if looked else _most_by_composition
            with contextlib.suppress(LimitExceeded):
                values[name] = fit(ledger, phases, name, budget)
        report(0.6 + 0.4 * share)
    return Afforded(
        budget=budget,
        figure=FILTER if looked else COMPOSED,
        composed=composed,
        filtered=filtered,
        least_noise=values["noise_multiplier"],
        most_steps=values["steps"],
    )


def _most_by_composition(ledger: Ledger, phases: Sequence[OfGroup], name: str, budget: float) -> float | None:
    """The value of the last phase that still fits, by calibration; None if there is none."""
    question: dict[str, Any] = {"epsilon": budget, "delta": ledger.delta, "adjacency": ledger.adjacency, "phase": -1}
    releases = [*ledger.phases, *phases]
    try:
        if name == "steps":
            return calibrate_steps(releases, **question).value or None
        return calibrate_noise(releases, tolerance=_TOLERANCE, **question).value
    except InvalidArgument as error:
        if error.name != "epsilon":
            raise
        return None


def _most_by_filter(ledger: Ledger, phases: Sequence[OfGroup], name: str, budget: float) -> float | None:
    """The same by bisection: a filter's figure falls with the noise and grows with the steps."""

    def fits(value: float) -> bool:
        own = int(value) if name == "steps" else value
        return ledger.filtered((*phases[:-1], Wrapper.changed(phases[-1], **{name: own}))).upper <= budget

    if name == "steps":
        low, high = 0, 1
        while high < LARGEST_COUNT // 2 and fits(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low or None
    good: float = max(Wrapper.innermost(phases[-1]).noise_multiplier, 0.1)
    bad = good
    while not fits(good):
        bad, good = good, 2.0 * good
        if good > 1e6:
            return None
    while bad >= good and bad > SMALLEST_NOISE:
        bad *= 0.5
        if fits(bad):
            good = bad
    while good - bad > _TOLERANCE * good:
        between = math.sqrt(good * bad)
        good, bad = (between, bad) if fits(between) else (good, between)
    return good
