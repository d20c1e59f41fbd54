"""`groupdp calibrate noise|steps|rate|batch|group`: the best value of one parameter for a target."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from groupdp.bounds import round_up
from groupdp.cli.support import (
    Adjacency,
    AsJSON,
    BatchSize,
    DatasetSize,
    Delta,
    Epochs,
    Epsilon,
    GroupSize,
    MicrobatchSize,
    NoiseMultiplier,
    SamplingRate,
    Steps,
    emit_json,
    emit_table,
    handle_errors,
    lower_text,
    option,
    progress_bar,
    read_adjacency,
    read_integer,
    read_number,
    run_as_json,
    run_from_options,
    upper_text,
)

if TYPE_CHECKING:
    from groupdp.calibration import Calibration
    from groupdp.dpsgd import DPSGD

_EXAMPLE = """
Example:

    groupdp calibrate noise --sampling-rate 0.01 --steps 2000 --epsilon 8 --delta 1e-6 --group-size 9
"""

Tolerance = Annotated[str, option("--tolerance", "NUMBER", "How close to the best value, relatively.", "The question")]


def register(app: typer.Typer) -> None:
    """Add the group of commands."""
    group = typer.Typer(
        help="The least noise, or the most steps, rate, batch or group size, that meets a target.",
        context_settings={"help_option_names": ["-h", "--help"]},
        no_args_is_help=False,
    )
    for name, command in (("noise", noise), ("steps", steps), ("rate", rate), ("batch", batch), ("group", group_size)):
        group.command(name=name, epilog=_EXAMPLE)(handle_errors(command))
    app.add_typer(group, name="calibrate")


def noise(
    *,
    sampling_rate: SamplingRate = None,
    batch_size: BatchSize = None,
    dataset_size: DatasetSize = None,
    steps: Steps = None,
    epochs: Epochs = None,
    microbatch_size: MicrobatchSize = "1",
    epsilon: Epsilon,
    delta: Delta,
    group_size: GroupSize = "1",
    adjacency: Adjacency = "add-or-remove",
    tolerance: Tolerance = "1e-9",
    as_json: AsJSON = False,
) -> None:
    """The smallest noise multiplier."""
    run = run_from_options(
        sampling_rate=sampling_rate,
        batch_size=batch_size,
        dataset_size=dataset_size,
        noise_multiplier="1",
        steps=steps,
        epochs=epochs,
        microbatch_size=microbatch_size,
    )
    from groupdp.calibration import calibrate_noise

    extra = {"tolerance": read_number("tolerance", tolerance), "group_size": _group_size(group_size)}
    _answer(calibrate_noise, run, epsilon, delta, adjacency, as_json, **extra)


def steps(
    *,
    sampling_rate: SamplingRate = None,
    batch_size: BatchSize = None,
    dataset_size: DatasetSize = None,
    noise_multiplier: NoiseMultiplier,
    microbatch_size: MicrobatchSize = "1",
    epsilon: Epsilon,
    delta: Delta,
    group_size: GroupSize = "1",
    adjacency: Adjacency = "add-or-remove",
    as_json: AsJSON = False,
) -> None:
    """The largest number of steps."""
    run = run_from_options(
        sampling_rate=sampling_rate,
        batch_size=batch_size,
        dataset_size=dataset_size,
        noise_multiplier=noise_multiplier,
        steps="1",
        epochs=None,
        microbatch_size=microbatch_size,
    )
    from groupdp.calibration import calibrate_steps

    _answer(calibrate_steps, run, epsilon, delta, adjacency, as_json, group_size=_group_size(group_size))


def rate(
    *,
    noise_multiplier: NoiseMultiplier,
    steps: Steps,
    microbatch_size: MicrobatchSize = "1",
    epsilon: Epsilon,
    delta: Delta,
    group_size: GroupSize = "1",
    adjacency: Adjacency = "add-or-remove",
    tolerance: Tolerance = "1e-9",
    as_json: AsJSON = False,
) -> None:
    """The largest Poisson sampling rate."""
    run = run_from_options(
        sampling_rate="1",
        batch_size=None,
        dataset_size=None,
        noise_multiplier=noise_multiplier,
        steps=steps,
        epochs=None,
        microbatch_size=microbatch_size,
    )
    from groupdp.calibration import calibrate_rate

    extra = {"tolerance": read_number("tolerance", tolerance), "group_size": _group_size(group_size)}
    _answer(calibrate_rate, run, epsilon, delta, adjacency, as_json, **extra)


def batch(
    *,
    dataset_size: DatasetSize,
    noise_multiplier: NoiseMultiplier,
    steps: Steps,
    microbatch_size: MicrobatchSize = "1",
    epsilon: Epsilon,
    delta: Delta,
    group_size: GroupSize = "1",
    adjacency: Adjacency = "add-or-remove",
    as_json: AsJSON = False,
) -> None:
    """The largest fixed batch size."""
    run = run_from_options(
        sampling_rate=None,
        batch_size="1",
        dataset_size=dataset_size,
        noise_multiplier=noise_multiplier,
        steps=steps,
        epochs=None,
        microbatch_size=microbatch_size,
    )
    from groupdp.calibration import calibrate_batch_size

    _answer(calibrate_batch_size, run, epsilon, delta, adjacency, as_json, group_size=_group_size(group_size))


def group_size(
    *,
    sampling_rate: SamplingRate = None,
    batch_size: BatchSize = None,
    dataset_size: DatasetSize = None,
    noise_multiplier: NoiseMultiplier,
    steps: Steps = None,
    epochs: Epochs = None,
    microbatch_size: MicrobatchSize = "1",
    epsilon: Epsilon,
    delta: Delta,
    adjacency: Adjacency = "add-or-remove",
    as_json: AsJSON = False,
) -> None:
    """The largest number of examples per person."""
    run = run_from_options(
        sampling_rate=sampling_rate,
        batch_size=batch_size,
        dataset_size=dataset_size,
        noise_multiplier=noise_multiplier,
        steps=steps,
        epochs=epochs,
        microbatch_size=microbatch_size,
    )
    from groupdp.calibration import calibrate_group_size

    _answer(calibrate_group_size, run, epsilon, delta, adjacency, as_json)


def _group_size(text: str) -> int:
    return read_integer("group_size", text, at_least=1)


def _answer(
    calibrate: Callable[..., Calibration],
    run: DPSGD,
    epsilon: str,
    delta: str,
    adjacency: str,
    as_json: bool,
    **extra: Any,
) -> None:
    question = {
        "epsilon": read_number("epsilon", epsilon),
        "delta": read_number("delta", delta),
        "adjacency": read_adjacency(adjacency),
    }
    with progress_bar("calibrate") as progress:
        found = calibrate(run, **question, **extra, progress=progress)
    if as_json:
        assert not isinstance(found.run, tuple)
        emit_json({**found.as_dict(), "run": run_as_json(found.run)})
        return
    rows = [(str(found.value), lower_text(found.epsilon.lower, 12), upper_text(found.epsilon.upper, 12), "meets it")]
    if found.failing_value is not None and found.failing_epsilon is not None:
        failing = found.failing_epsilon
        sides = (lower_text(failing.lower, 12), upper_text(failing.upper, 12))
        rows.append((str(found.failing_value), *sides, "fails, proved"))
    emit_table(
        f"{found.parameter.replace('_', ' ')} for epsilon = {found.target_epsilon!r} at delta = {found.delta!r}, "
        f"groups of up to {found.group_size}",
        (found.parameter.replace("_", " "), "epsilon at least", "epsilon at most", "target"),
        rows,
        note=_optimality(found),
    )


def _optimality(found: Calibration) -> str:
    if not found.proved_optimal:
        if found.proved_gap is None:
            return "The value is safe; that no better one would be could not be proved."
        return f"Proved optimal to a relative {round_up(found.proved_gap, 2)}, not to the tolerance asked for."
    if found.failing_value is None:
        return "The extreme value accepted: nothing better can be asked for."
    if found.tolerance is not None:
        return f"Proved optimal to a relative {found.tolerance:g}."
    return "Proved optimal."
