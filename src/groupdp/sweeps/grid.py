"""The points of a sweep: every combination of the values that vary, and the run and question each of them means."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

from groupdp._validation import require_integer, require_number
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords
from groupdp.mechanisms.dpsgd import DPSGD, phases_of
from groupdp.mechanisms.named_values import keys_of, training_of
from groupdp.neighbours import ADJACENCIES

#: Most points of one sweep.
LARGEST_SWEEP = 1_000_000
#: Most combinations with other values that one value is tried in.
_MOST_TRIED = 1000
#: Names that vary the question instead of the run.
QUESTION_KEYS = ("delta", "group_size", "adjacency")


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of values: the run and the question it means."""

    values: tuple[Any, ...]
    run: tuple[DPSGD, ...]
    delta: float
    group_size: Any
    adjacency: str
    refused: str | None = None
    """Why there is no such run, if so: values that are right by themselves may not go together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A run, a question, and the values of what varies, in order."""

    phases: tuple[DPSGD, ...]
    delta: float | None
    group_size: Any
    adjacency: str
    vary: tuple[tuple[str, tuple[Any, ...]], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """What varies."""
        return tuple(name for name, _ in self.vary)

    def __len__(self) -> int:
        return math.prod(len(values) for _, values in self.vary)

    @property
    def chunk(self) -> int:
        """How many points are evaluated in one go, and written together: a few hundred chunks, of a second at most."""
        return min(max(len(self) // 500, 250), 2000)

    @property
    def bare(self) -> Grid:
        """Without the values: what a worker needs besides those of its own points."""
        return replace(self, vary=tuple((name, ()) for name in self.names))

    def points(self, values: Iterable[tuple[Any, ...]]) -> Iterator[Point]:
        """The points with these values."""
        made: dict[tuple[Any, ...], tuple[tuple[DPSGD, ...], InvalidArgument | None]] = {}
        names = self.names
        places = [place for place, name in enumerate(names) if name not in QUESTION_KEYS]
        asked = [(names.index(name) if name in names else None, name) for name in QUESTION_KEYS]
        for chosen in values:
            about_run = tuple([chosen[place] for place in places])
            if about_run not in made:
                made[about_run] = self._run_or_reason({names[place]: chosen[place] for place in places})
            delta, size, adjacency = (getattr(self, name) if at is None else chosen[at] for at, name in asked)
            run, refused = made[about_run]
            yield Point(chosen, run, float(delta), size, adjacency, None if refused is None else str(refused))

    def values(self, first: int = 0, last: int | None = None) -> Iterator[tuple[Any, ...]]:
        """The values of what varies, in the order of `names`, from number `first` to before `last`."""
        for number in range(first, len(self) if last is None else min(last, len(self))):
            chosen = []
            for _, values in reversed(self.vary):
                number, place = divmod(number, len(values))
                chosen.append(values[place])
            yield tuple(reversed(chosen))

    def _run_or_reason(self, values: dict[str, Any]) -> tuple[tuple[DPSGD, ...], InvalidArgument | None]:
        try:
            return self._run(values), None
        except InvalidArgument as error:
            return (), error

    def _run(self, values: dict[str, Any]) -> tuple[DPSGD, ...]:
        if not values:
            return self.phases
        (phase,) = self.phases
        if set(values) <= {"noise_multiplier", "steps", "microbatch_size"}:
            return (replace(phase, **values),)
        described = phase.values()
        if "epochs" in values:
            described.pop("steps")
        if "batch_size" in values and "batch_size" not in described:
            described.pop("sampling_rate", None)
        return (training_of({**described, **values}),)


def grid_of(run: Any, *, delta: Any, group_size: Any, adjacency: Any, vary: Any) -> Grid:
    """A validated grid: every value is tried on the run before anything is computed."""
    phases = phases_of(run)
    if not isinstance(vary, Mapping) or not vary:
        raise InvalidArgument("vary", vary, "be a mapping from names to sequences of values")
    lists = tuple((name, _values(name, values)) for name, values in vary.items())
    about_run = [name for name, _ in lists if name not in QUESTION_KEYS]
    if about_run and len(phases) > 1:
        names = ", ".join(QUESTION_KEYS)
        raise InvalidArgument("vary", about_run[0], f"be one of {names} for a run of {len(phases)} phases")
    known = (*(key for key in keys_of(phases[0].sampling.name) if key != "mechanism"), *QUESTION_KEYS)
    for name in about_run:
        if name not in known or name == "sampling":
            names = ", ".join(key for key in known if key != "sampling")
            raise InvalidArgument("vary", name, f"name what a run or question has ({names})")
    if delta is None and "delta" not in vary:
        raise InvalidArgument("delta", NOT_SHOWN, "be given, or vary")
    if group_size is None and "group_size" not in vary:
        raise InvalidArgument("group_size", NOT_SHOWN, "be given, or vary")
    grid = Grid(
        phases=phases,
        delta=None if delta is None else require_number("delta", delta, above=0.0, below=1.0),
        group_size=1 if group_size is None else group_size,
        adjacency=adjacency,
        vary=lists,
    )
    if len(grid) > LARGEST_SWEEP:
        raise InvalidArgument("vary", len(grid), f"amount to at most {LARGEST_SWEEP} points")
    _try_values(grid)
    return grid


def _values(name: str, values: Any) -> tuple[Any, ...]:
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
        raise InvalidArgument(f"vary[{name!r}]", values, "be a sequence of values")
    listed = tuple(getattr(value, "item", lambda value=value: value)() for value in values)
    if not listed:
        raise InvalidArgument(f"vary[{name!r}]", InWords("none"), "have at least one value")
    if name == "adjacency" and any(value not in ADJACENCIES for value in listed):
        raise InvalidArgument("vary['adjacency']", listed, f"be some of {', '.join(ADJACENCIES)}")
    if name == "group_size":
        return tuple(require_integer("group_size", value, at_least=0) for value in listed)
    if name == "delta":
        return tuple(require_number("delta", value, above=0.0, below=1.0) for value in listed)
    return listed


def _try_values(grid: Grid) -> None:
    """Every value with some of the others: one that goes with none is refused now, not after an hour."""
    about_run = [(name, values) for name, values in grid.vary if name not in QUESTION_KEYS]
    for position, (_, values) in enumerate(about_run):
        for value in values:
            lists = [[value] if place == position else others for place, (_, others) in enumerate(about_run)]
            first_reason = None
            for chosen in islice(product(*lists), _MOST_TRIED):
                _, reason = grid._run_or_reason(dict(zip((name for name, _ in about_run), chosen, strict=True)))
                if reason is None:
                    break
                first_reason = first_reason or reason
            else:
                raise first_reason or InvalidArgument("vary", NOT_SHOWN, "leave a run")
