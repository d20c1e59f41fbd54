"""`groupdp epsilon` and `groupdp delta`: one question about one run, answered with both bounds."""

from __future__ import annotations

import typer

from groupdp.bounds import Bounds
from groupdp.cli.support import (
    Adjacency,
    AsJSON,
    BatchSize,
    DatasetSize,
    Delta,
    Epochs,
    Epsilon,
    GroupSize,
    Memory,
    MicrobatchSize,
    NoiseMultiplier,
    SamplingRate,
    Steps,
    bounds_as_json,
    emit_json,
    emit_table,
    handle_errors,
    lower_text,
    progress_bar,
    read_adjacency,
    read_integer,
    read_memory,
    read_number,
    run_as_json,
    run_from_options,
    upper_text,
)
from groupdp.engines.interface import share_of

_EPSILON_EXAMPLE = """
Example:

    groupdp epsilon --sampling-rate 0.01 --noise-multiplier 1 --steps 2000 --delta 1e-6 --group-size 9
"""
_DELTA_EXAMPLE = """
Example:

    groupdp delta --sampling-rate 0.01 --noise-multiplier 1 --steps 2000 --epsilon 40 --group-size 9
"""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(name="epsilon", epilog=_EPSILON_EXAMPLE)(handle_errors(epsilon))
    app.command(name="delta", epilog=_DELTA_EXAMPLE)(handle_errors(delta))


def epsilon(
    *,
    sampling_rate: SamplingRate = None,
    batch_size: BatchSize = None,
    dataset_size: DatasetSize = None,
    noise_multiplier: NoiseMultiplier,
    steps: Steps = None,
    epochs: Epochs = None,
    microbatch_size: MicrobatchSize = "1",
    delta: Delta,
    group_size: GroupSize = "1",
    adjacency: Adjacency = "add-or-remove",
    memory: Memory = "1G",
    as_json: AsJSON = False,
) -> None:
    """The smallest epsilon for groups of up to k examples, between two proved bounds."""
    run = run_from_options(
        sampling_rate=sampling_rate,
        batch_size=batch_size,
        dataset_size=dataset_size,
        noise_multiplier=noise_multiplier,
        steps=steps,
        epochs=epochs,
        microbatch_size=microbatch_size,
    )
    target = read_number("delta", delta, at_least=0.0, at_most=1.0)
    size = read_integer("group_size", group_size)
    chosen = read_adjacency(adjacency)
    budget = read_memory(memory)
    from groupdp import guarantees

    asked = _directions(chosen)
    directions = {}
    with progress_bar("epsilon") as progress:
        for index, direction in enumerate(asked):
            directions[direction] = guarantees.epsilon(
                run,
                delta=target,
                group_size=size,
                adjacency=direction,
                memory_budget=budget,
                progress=share_of(progress, index, len(asked)),
            )
    answer = _worst(directions)
    if as_json:
        emit_json(
            {
                "epsilon": bounds_as_json(answer),
                **{direction: bounds_as_json(bounds) for direction, bounds in directions.items()},
                "delta": target,
                "group_size": size,
                "adjacency": chosen,
                "run": run_as_json(run),
            }
        )
        return
    _emit("epsilon", answer, directions, f"delta = {target!r}", size, chosen)


def delta(
    *,
    sampling_rate: SamplingRate = None,
    batch_size: BatchSize = None,
    dataset_size: DatasetSize = None,
    noise_multiplier: NoiseMultiplier,
    steps: Steps = None,
    epochs: Epochs = None,
    microbatch_size: MicrobatchSize = "1",
    epsilon: Epsilon,
    group_size: GroupSize = "1",
    adjacency: Adjacency = "add-or-remove",
    memory: Memory = "1G",
    as_json: AsJSON = False,
) -> None:
    """The smallest delta for groups of up to k examples, between two proved bounds."""
    run = run_from_options(
        sampling_rate=sampling_rate,
        batch_size=batch_size,
        dataset_size=dataset_size,
        noise_multiplier=noise_multiplier,
        steps=steps,
        epochs=epochs,
        microbatch_size=microbatch_size,
    )
    target = read_number("epsilon", epsilon, at_least=0.0)
    size = read_integer("group_size", group_size)
    chosen = read_adjacency(adjacency)
    budget = read_memory(memory)
    from groupdp import guarantees

    asked = _directions(chosen)
    logarithms = {}
    with progress_bar("delta") as progress:
        for index, direction in enumerate(asked):
            logarithms[direction] = guarantees.log_delta(
                run,
                epsilon=target,
                group_size=size,
                adjacency=direction,
                memory_budget=budget,
                progress=share_of(progress, index, len(asked)),
            )
    directions = {
        direction: Bounds(guarantees.exp_down(found.lower), guarantees.exp_up(found.upper), found.provenance)
        for direction, found in logarithms.items()
    }
    answer = _worst(directions)
    if as_json:
        emit_json(
            {
                "delta": bounds_as_json(answer),
                "log_delta": bounds_as_json(_worst(logarithms)),
                **{direction: bounds_as_json(bounds) for direction, bounds in directions.items()},
                "epsilon": target,
                "group_size": size,
                "adjacency": chosen,
                "run": run_as_json(run),
            }
        )
        return
    _emit("delta", answer, directions, f"epsilon = {target!r}", size, chosen)


def _directions(adjacency: str) -> tuple[str, ...]:
    return ("add", "remove") if adjacency == "add-or-remove" else (adjacency,)


def _worst(directions: dict[str, Bounds]) -> Bounds:
    """The guarantee that holds in every direction."""
    return Bounds(
        max(bounds.lower for bounds in directions.values()),
        max(bounds.upper for bounds in directions.values()),
    )


def _emit(
    quantity: str, answer: Bounds, directions: dict[str, Bounds], question: str, size: int, adjacency: str
) -> None:
    rows = [(adjacency, lower_text(answer.lower, 12), upper_text(answer.upper, 12))]
    if len(directions) > 1:
        rows += [
            (name, lower_text(bounds.lower, 12), upper_text(bounds.upper, 12)) for name, bounds in directions.items()
        ]
    emit_table(
        f"{quantity} at {question} for groups of up to {size}",
        ("adjacency", "at least", "at most (the guarantee)"),
        rows,
    )
