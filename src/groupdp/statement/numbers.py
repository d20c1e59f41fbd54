"""The numbers of a statement: computed once, worded in text.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from groupdp._version import VERSION
from groupdp.baselines import old_tool_epsilon, vadhan_epsilons
from groupdp.baselines.poisson_claim import poisson_claim
from groupdp.bounds import Bounds
from groupdp.engines.interface import Progress
from groupdp.errors import InvalidArgument
from groupdp.guarantees import epsilon
from groupdp.run_file.read import RunFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What a statement says, before it is put into words."""

    run: RunFile
    epsilon: Bounds
    changes: Mapping[str, Bounds]
    """The ordered changes of the adjacency one by one, where there are several."""
    one_example: Bounds | None
    vadhan: Bounds | None
    """None where the old analysis does not cover the run."""
    old_tool: float | None
    poisson_claim: Bounds | None
    """What Poisson accounting would claim for a run that does not sample like that: not a guarantee."""
    version: str = VERSION


def make_statement(run: RunFile, *, progress: Progress | None = None) -> Statement:
    """Compute what the statement says."""
    report = progress if progress is not None else (lambda _: None)
    if run.group_size is None and run.removed is None and run.added is None:
        raise InvalidArgument("group_size must be given for a statement: the most examples that one person has.")
    phases = list(run.phases)
    found = epsilon(phases, delta=run.stated_delta, every_change=True, **neighbours_of(run))
    report(0.3)
    changes = found.provenance.directions
    single = None
    if isinstance(run.group_size, int):
        single = epsilon(phases, delta=run.stated_delta, group_size=1, adjacency=run.adjacency)
    report(0.4)
    vadhan, old_tool = _old_analysis(run)
    report(0.9)
    return Statement(
        run=run,
        epsilon=found,
        changes={name: Bounds(*changes[name]) for name in sorted(changes)} if len(changes) > 1 else {},
        one_example=single,
        vadhan=vadhan,
        old_tool=old_tool,
        poisson_claim=_poisson_claim(run),
    )


def neighbours_of(run: RunFile) -> dict[str, Any]:
    """The arguments of the library's functions that say which datasets are neighbours."""
    if run.group_size is None:
        return {"removed": run.removed or 0, "added": run.added or 0}
    return {"group_size": run.group_size, "adjacency": run.adjacency}


def _old_analysis(run: RunFile) -> tuple[Bounds | None, float | None]:
    """Vadhan's lemma on the exact curve and in the old tool's arithmetic; None for runs that they do not cover."""
    if not isinstance(run.group_size, int) or run.adjacency not in ("add-or-remove", "add", "remove"):
        return None, None
    phases = list(run.phases)
    try:
        vadhan = vadhan_epsilons(
            phases,
            delta=run.stated_delta,
            group_sizes=(run.group_size,),
            form="geometric",
            adjacency=run.adjacency,
            intervals=0,  # only its upper bound is stated
            tolerance=1e-6,
        )[0]
        return vadhan, old_tool_epsilon(phases, delta=run.stated_delta, group_size=run.group_size)
    except InvalidArgument:
        return None, None


def _poisson_claim(run: RunFile) -> Bounds | None:
    if not isinstance(run.group_size, int):
        return None
    return poisson_claim(list(run.phases), delta=run.stated_delta, group_size=run.group_size, adjacency=run.adjacency)
