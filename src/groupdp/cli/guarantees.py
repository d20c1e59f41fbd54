"""`groupdp epsilon` and `groupdp delta`: one question about one run, answered with both bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupdp.bounds import Bounds
from groupdp.cli.asked import Asked
from groupdp.cli.command import command
from groupdp.cli.options import flag, number
from groupdp.cli.output import NOT_TIGHT, emit_json, emit_run, emit_table, emit_text, progress_bar
from groupdp.printing import lower_text, sides, upper_text

if TYPE_CHECKING:
    from groupdp.statement.numbers import Explanation


@command(
    "epsilon",
    "--sampling-rate 0.01 --noise-multiplier 1 --steps 2000 --delta 1e-6 --group-size 9",
    explain=flag("Also say what it means for one person."),
)
def epsilon(asked: Asked, *, explain: bool, memory: int, as_json: bool) -> None:
    """The smallest epsilon for groups of up to k examples, between two proved bounds."""
    target = asked.delta
    from groupdp import guarantees

    with progress_bar("epsilon") as progress:
        found = guarantees.epsilon(
            asked.run, delta=target, every_change=True, memory_budget=memory, progress=progress, **asked.neighbours
        )
    meaning = _meaning(asked, found) if explain else None
    changes = _changes(found)
    claim = _poisson_claim(asked)
    if as_json:
        emit_json(
            {
                "epsilon": sides(found),
                "tight": found.tight,
                **{name: sides(bounds) for name, bounds in changes.items()},
                "delta": target,
                **({} if claim is None else {"poisson_claim_not_a_guarantee": claim.upper}),
                **({} if meaning is None else {"explanation": meaning.as_json()}),
                **asked.as_json_fields(),
            }
        )
        return
    _emit("epsilon", found, changes, f"delta = {target!r}", asked)
    if claim is not None:
        emit_text(
            f"Poisson accounting would claim {upper_text(claim.upper, 6)}. That is not a guarantee for this run: its "
            "batches are not Poisson samples."
        )
    if meaning is not None:
        for sentence in meaning.sentences():
            emit_text(f"- {sentence}")


def _poisson_claim(asked: Asked) -> Bounds | None:
    """What Poisson accounting would claim for a run that is often mistaken for it."""
    mistaken = any(phase.sampling.mistaken_for_poisson for phase in asked.file.training)
    if "removed" in asked.neighbours or not mistaken:
        return None
    from groupdp.baselines.comparison import poisson_claim

    return poisson_claim(asked.run, delta=asked.delta, **asked.neighbours)


def _meaning(asked: Asked, certified: Bounds) -> Explanation:
    """What the epsilon means for one person, at the prior and the rate of false alarms that `explain` assumes."""
    from groupdp.statement.numbers import explain as explained

    with progress_bar("explain") as progress:
        return explained(asked.run, delta=asked.delta, certified=certified, progress=progress, **asked.neighbours)


@command(
    "delta",
    "--sampling-rate 0.01 --noise-multiplier 1 --steps 2000 --epsilon 40 --group-size 9",
    question=("group_size", "adjacency", "removed", "added"),
    epsilon=number("The epsilon of (epsilon, delta)-DP.", required=True, at_least=0.0),
)
def delta(asked: Asked, *, epsilon: float, memory: int, as_json: bool) -> None:
    """The smallest delta for groups of up to k examples, between two proved bounds."""
    from groupdp import guarantees

    with progress_bar("delta") as progress:
        logarithm = guarantees.log_delta(
            asked.run, epsilon=epsilon, every_change=True, memory_budget=memory, progress=progress, **asked.neighbours
        )
    found = guarantees.exponential(logarithm)
    changes = {name: guarantees.exponential(bounds) for name, bounds in _changes(logarithm).items()}
    if as_json:
        emit_json(
            {
                "delta": sides(found),
                "log_delta": sides(logarithm),
                "tight": found.tight,
                **{name: sides(bounds) for name, bounds in changes.items()},
                "epsilon": epsilon,
                **asked.as_json_fields(),
            }
        )
        return
    # The smallest doubles have few digits: then the logarithm is printed as well.
    small = 0.0 < found.upper < 1e-300
    note = f"log delta is at most {upper_text(logarithm.upper, 12)}." if small else ""
    _emit("delta", found, changes, f"epsilon = {epsilon!r}", asked, note)


def _changes(found: Bounds) -> dict[str, Bounds]:
    """The ordered changes one by one, where there are several; in the order of their names."""
    changes = found.provenance.directions
    if len(changes) < 2:
        return {}
    return {name: Bounds(*changes[name]) for name in sorted(changes)}


def _emit(
    quantity: str, answer: Bounds, changes: dict[str, Bounds], question: str, asked: Asked, note: str = ""
) -> None:
    emit_run(asked)
    first = "in either order" if "removed" in asked.neighbours else asked.file.adjacency
    rows = [(first, lower_text(answer.lower, 12), upper_text(answer.upper, 12))]
    if len(changes) <= 12:
        rows += [(name, lower_text(bounds.lower, 12), upper_text(bounds.upper, 12)) for name, bounds in changes.items()]
    notes = [note] if note else []
    notes += [] if answer.tight else [NOT_TIGHT]
    emit_table(
        f"{quantity} at {question} for {asked.group_text()}",
        ("adjacency", "at least", "at most (the guarantee)"),
        rows,
        note="\n".join(notes),
    )
