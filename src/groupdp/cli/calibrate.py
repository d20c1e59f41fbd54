"""`groupdp calibrate noise|steps|rate|batch|group`: the best value of one parameter for a target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from groupdp.cli.asked import Asked
from groupdp.cli.options import example
from groupdp.cli.support import (
    NOT_TIGHT,
    AsJSON,
    Epsilon,
    emit_json,
    emit_run,
    emit_table,
    handle_errors,
    lower_text,
    option,
    progress_bar,
    read_integer,
    read_number,
    upper_text,
)
from groupdp.cli.with_run import with_run
from groupdp.errors import NOT_SHOWN, InvalidArgument
from groupdp.printing import given, round_up

if TYPE_CHECKING:
    from groupdp.calibration import Calibration

#: What an example of each command says beside the target.
_EXAMPLES = {
    "noise": "--sampling-rate 0.01 --steps 2000 --group-size 9",
    "steps": "--sampling-rate 0.01 --noise-multiplier 4 --group-size 9",
    "rate": "--noise-multiplier 4 --steps 2000 --group-size 9",
    "batch": "--dataset-size 50000 --noise-multiplier 8 --steps 2000 --group-size 9",
    "group": "--sampling-rate 0.01 --noise-multiplier 4 --steps 2000",
}

Tolerance = Annotated[str, option("--tolerance", "NUMBER", "How close to the best value, relatively.", "The question")]
WhichPhase = Annotated[
    str | None,
    option("--which-phase", "INTEGER", "Of several phases, the one to change: 1 is the first.", "The question"),
]


def register(app: typer.Typer) -> None:
    """Add the group of commands."""
    group = typer.Typer(
        help="The least noise, or the most steps, rate, batch or group size, that meets a target.",
        context_settings={"help_option_names": ["-h", "--help"]},
        no_args_is_help=False,
        epilog=example("groupdp calibrate noise run.toml --epsilon 8"),
    )
    for name, command in (("noise", noise), ("steps", steps), ("rate", rate), ("batch", batch), ("group", group_size)):
        line = f"groupdp calibrate {name} {_EXAMPLES[name]} --epsilon 8 --delta 1e-6"
        group.command(name=name, epilog=example(line))(handle_errors(command))
    app.add_typer(group, name="calibrate")


#: Whom a calibration is for; the target's delta is an option of its own.
_QUESTION = ("delta", "group_size", "adjacency", "removed", "added")


@with_run(question=_QUESTION, saves_itself=True, assumed={"noise_multiplier": "1"})
def noise(asked: Asked, *, epsilon: Epsilon, tolerance: Tolerance = "1e-9", as_json: AsJSON = False) -> None:
    """The smallest noise multiplier (or, of several phases, the common factor on their noise)."""
    from groupdp.calibration import calibrate_noise

    extra = {"tolerance": read_number("tolerance", tolerance), **asked.neighbours}
    _answer(calibrate_noise, asked, epsilon, as_json, **extra)


@with_run(question=_QUESTION, saves_itself=True, assumed={"steps": "1"})
def steps(asked: Asked, *, epsilon: Epsilon, which_phase: WhichPhase = None, as_json: AsJSON = False) -> None:
    """The largest number of steps."""
    from groupdp.calibration import calibrate_steps

    phase = _phase(asked, which_phase)
    _answer(calibrate_steps, asked, epsilon, as_json, phase=phase, **asked.neighbours)


@with_run(question=_QUESTION, saves_itself=True, assumed={"sampling": "poisson", "sampling_rate": "1"})
def rate(
    asked: Asked,
    *,
    epsilon: Epsilon,
    which_phase: WhichPhase = None,
    tolerance: Tolerance = "1e-9",
    as_json: AsJSON = False,
) -> None:
    """The largest Poisson sampling rate."""
    from groupdp.calibration import calibrate_rate

    extra = {
        "tolerance": read_number("tolerance", tolerance),
        "phase": _phase(asked, which_phase),
        **asked.neighbours,
    }
    _answer(calibrate_rate, asked, epsilon, as_json, **extra)


@with_run(question=_QUESTION, saves_itself=True, assumed={"sampling": "fixed-batch", "batch_size": "1"})
def batch(asked: Asked, *, epsilon: Epsilon, which_phase: WhichPhase = None, as_json: AsJSON = False) -> None:
    """The largest fixed batch size."""
    from groupdp.calibration import calibrate_batch_size

    phase = _phase(asked, which_phase)
    _answer(calibrate_batch_size, asked, epsilon, as_json, phase=phase, **asked.neighbours)


@with_run(question=("delta", "adjacency"), saves_itself=True)
def group_size(asked: Asked, *, epsilon: Epsilon, as_json: AsJSON = False) -> None:
    """The largest number of examples per person."""
    from groupdp.calibration import calibrate_group_size

    _answer(calibrate_group_size, asked, epsilon, as_json, adjacency=asked.file.adjacency)


def _phase(asked: Asked, text: str | None) -> int:
    """The phase to change, counted from 0 as in the library; on the command line, as all that is printed, from 1."""
    count = len(asked.file.phases)
    if text is None:
        if count > 1:
            raise InvalidArgument(
                "which_phase", NOT_SHOWN, f"say which of the {count} phases to change: --which-phase 1 to {count}"
            )
        return 0
    return read_integer("which_phase", text, at_least=1, at_most=count) - 1


def _answer(calibrate: Callable[..., Calibration], asked: Asked, epsilon: str, as_json: bool, **extra: Any) -> None:
    question = {"epsilon": read_number("epsilon", epsilon), "delta": asked.delta}
    with progress_bar("calibrate") as progress:
        found = calibrate(asked.run, **question, **extra, progress=progress)
    from groupdp.mechanisms.mechanism import mechanisms_of

    phases = mechanisms_of(found.run)
    file = replace(asked.file, phases=phases)
    if found.parameter == "group_size":
        file = replace(file, group_size=found.group_size, removed=None, added=None)
    asked = replace(asked, file=file)
    asked.save()
    if as_json:
        described = [phase.values() for phase in phases]
        emit_json({**found.as_dict(), "run": described[0] if len(described) == 1 else described})
        return
    emit_run(asked)
    rows = [(str(found.value), lower_text(found.epsilon.lower, 12), upper_text(found.epsilon.upper, 12), "meets it")]
    if found.failing_value is not None and found.failing_epsilon is not None:
        failing = found.failing_epsilon
        sides = (lower_text(failing.lower, 12), upper_text(failing.upper, 12))
        fails = "fails, proved" if found.epsilon.tight else "fails by this analysis"
        rows.append((str(found.failing_value), *sides, fails))
    emit_table(
        f"{found.parameter.replace('_', ' ')} for epsilon = {found.target_epsilon!r} at delta = {found.delta!r}, "
        f"{asked.group_text()}",
        (found.parameter.replace("_", " "), "epsilon at least", "epsilon at most", "target"),
        rows,
        note=_optimality(found) if found.epsilon.tight else f"{_optimality(found)}\n{NOT_TIGHT}",
    )


def _optimality(found: Calibration) -> str:
    by = "" if found.epsilon.tight else " for this analysis"
    if not found.proved_optimal:
        if found.proved_gap is None:
            return "The value is safe; that no better one would be could not be proved."
        gap = round_up(found.proved_gap, 2)
        return f"Proved optimal{by} to a relative {gap}, not to the tolerance asked for."
    if found.failing_value is None:
        return "The extreme value accepted: nothing better can be asked for."
    if found.tolerance is not None:
        return f"Proved optimal{by} to a relative {given(found.tolerance)}."
    return f"Proved optimal{by}."
