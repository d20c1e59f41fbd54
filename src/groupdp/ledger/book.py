"""What a ledger says: everything that was released about people, both figures, and what still fits.

An entry has its run, so that every figure is computed again from the file; the bound that was stated when it was added;
and whether its parameters were chosen after looking at earlier outcomes. If any were, only a filter's budget is a
guarantee (R-8); if none were, the composition is.
"""

from __future__ import annotations

import contextlib
import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from groupdp.baselines.adaptive import filter_epsilon
from groupdp.bounds import Bounds
from groupdp.calibration import calibrate_noise, calibrate_steps
from groupdp.engines import Progress
from groupdp.errors import (
    LARGEST_COUNT,
    NOT_SHOWN,
    InvalidArgument,
    InWords,
    LimitExceeded,
    require_choice,
    require_number,
    shown,
)
from groupdp.groups import not_given
from groupdp.guarantees import epsilon as epsilon_of
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.mechanisms.mechanism import SMALLEST_NOISE, Wrapper
from groupdp.mechanisms.wrappers import OfGroup
from groupdp.run_file.run import RunFile

#: When the parameters of a release were chosen.
CHOSEN = BEFOREHAND, AFTER_LOOKING = ("beforehand", "after-looking")
#: The two figures.
COMPOSED, FILTER = "composed", "filter"
#: How close, relatively, the least noise is to the best.
_TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One release, or several that were made together."""

    date: str
    title: str
    covers: str
    """Whose data the entry is about, in words."""
    chosen: str
    """Whether its parameters were fixed beforehand or chosen after looking at earlier outcomes."""
    phases: tuple[OfGroup, ...]
    run_file_sha256: str
    """The digest of the run file's bytes; empty for a run that was not a file."""
    bound: Mapping[str, Any]
    """The bound on this entry alone when it was added, and what computed it."""
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What a ledger says, verified."""

    date: str
    covers: str
    delta: float
    adjacency: str
    epsilon: float | None
    """The budget that was fixed when the ledger was made."""
    filter_orders: tuple[float, ...]
    entries: tuple[Entry, ...] = ()
    made: str = ""
    """The digest of the first line."""
    head: str = ""
    """The digest of the last entry, or of the first line where there is none."""

    @property
    def looked(self) -> bool:
        """Whether some parameters were chosen after looking, so that the filter's figure applies."""
        return any(entry.chosen == AFTER_LOOKING for entry in self.entries)

    @property
    def phases(self) -> tuple[OfGroup, ...]:
        """All releases so far."""
        return tuple(phase for entry in self.entries for phase in entry.phases)

    def run_file(self, name: str = "the ledger") -> RunFile:
        """Everything released so far as one run."""
        if not self.entries:
            raise InvalidArgument("ledger", InWords(f"{shown(name)} without entries"), "have an entry")
        entries = "1 entry" if len(self.entries) == 1 else f"{len(self.entries)} entries"
        return RunFile(
            title=f"everything released so far ({entries})",
            phases=self.phases,
            delta=self.delta,
            group_size=max(1, *(phase.group if isinstance(phase.group, int) else 1 for phase in self.phases)),
            adjacency=self.adjacency,
            looked=self.looked,
        )

    def composed(self, more: Sequence[OfGroup] = (), *, progress: Progress | None = None) -> Bounds:
        """Epsilon of all releases, and `more`, if all parameters were fixed beforehand."""
        phases = (*self.phases, *more)
        if not phases:
            return Bounds(0.0, 0.0)
        filtered = self.filtered(more)  # valid here as well: smaller where only divergences of a search are known
        try:
            composed = epsilon_of(phases, delta=self.delta, adjacency=self.adjacency, progress=progress)
        except LimitExceeded:
            if filtered.upper == math.inf:
                raise
            return filtered
        smaller = composed.upper <= filtered.upper
        return composed if smaller else replace(filtered, lower=min(composed.lower, filtered.upper))

    def filtered(self, more: Sequence[OfGroup] = ()) -> Bounds:
        """The smallest budget, fixed beforehand, of a filter that lets all releases, and `more`, pass (R-8)."""
        phases = (*self.phases, *more)
        if not phases:
            return Bounds(0.0, 0.0)
        return filter_epsilon(phases, delta=self.delta, adjacency=self.adjacency, orders=self.filter_orders)


@dataclass(frozen=True, slots=True)
class State:
    """What an entry costs alone, and with all before it."""

    alone: Bounds
    composed: Bounds
    filtered: Bounds
    agrees: bool
    """Whether the bound that the entry states contains, or overlaps, the one computed again."""


def spent(ledger: Ledger, *, progress: Progress | None = None) -> list[State]:
    """The state of the ledger after every entry, computed from its runs."""
    states = []
    for index, entry in enumerate(ledger.entries):
        before = replace(ledger, entries=ledger.entries[:index])
        alone = epsilon_of(entry.phases, delta=ledger.delta, adjacency=ledger.adjacency)
        lower, upper = (float(entry.bound["epsilon"][side]) for side in ("lower", "upper"))
        agrees = lower <= alone.upper and alone.lower <= upper and entry.bound["delta"] == ledger.delta
        composed, filtered = before.composed(entry.phases), before.filtered(entry.phases)
        states.append(State(alone, composed, filtered, agrees))
        if progress is not None:
            progress((index + 1) / len(ledger.entries))
    return states


def require_chosen(chosen: str | None, *, first: bool) -> str:
    """When parameters were chosen; it must be given from the second entry on."""
    if chosen is None and not first:
        requirement = f"be given from the second entry on, like --chosen {BEFOREHAND}, or --chosen {AFTER_LOOKING}"
        raise InvalidArgument("chosen", NOT_SHOWN, requirement)
    return require_choice("chosen", BEFOREHAND if chosen is None else chosen, CHOSEN)


def releases_of(run: RunFile) -> tuple[OfGroup, ...]:
    """The phases of a run, each with the group size that a person has in it."""
    if run.group_size is None and not all(isinstance(phase, OfGroup) for phase in run.phases):
        raise not_given("group_size")
    return tuple(phase if isinstance(phase, OfGroup) else OfGroup.of(phase, run.group_size) for phase in run.phases)


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
        if not looked:
            raise InvalidArgument("epsilon", InWords("none"), "be given, here or in the ledger")
        asked = InWords(f"{budget!r}, where {ledger.epsilon or 'none'!s} was fixed")
        raise InvalidArgument("epsilon", asked, "be the budget that was fixed when the ledger was made")
    phases = releases_of(run)
    report = progress or (lambda _: None)
    composed, filtered = ledger.composed(phases), ledger.filtered(phases)
    report(0.2)
    inner, fit = Wrapper.innermost(phases[-1]), _most_by_filter if looked else _most_by_composition
    values: dict[str, Any] = {"noise_multiplier": None, "steps": None}
    for share, name in enumerate(values):
        if isinstance(inner, DPSGD) or (name == "noise_multiplier" and hasattr(inner, name)):
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
        high = 1
        while high < LARGEST_COUNT // 2 and fits(high):
            high *= 2
        more = bisect_left(range(high // 2 + 1, high), True, key=lambda steps: not fits(steps))
        return high // 2 + more or None
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
