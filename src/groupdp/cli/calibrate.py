"""`groupdp calibrate` and `groupdp bands`: the best value of one parameter for a target; bands of correlated noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from groupdp.cli.asked import Asked
from groupdp.cli.command import command, with_run
from groupdp.cli.options import (
    Adjacency,
    AsJSON,
    Delta,
    Epsilon,
    option,
    read_adjacency,
    read_group_sizes,
    read_integer,
    read_number,
)
from groupdp.cli.output import NOT_TIGHT, bounds_as_json, emit_json, emit_run, emit_table, progress_bar
from groupdp.errors import NOT_SHOWN, InvalidArgument
from groupdp.neighbours import ADJACENCIES
from groupdp.printing import given, lower_text, round_up, upper_text

if TYPE_CHECKING:
    from groupdp.calibration import Calibration

Tolerance = Annotated[str, option("--tolerance", "NUMBER", "How close to the best value, relatively.", "The question")]
WhichPhase = Annotated[
    str | None,
    option(
        "--which-phase", "INTEGER", "Of several phases, the one to change: 1 is the first, or last.", "The question"
    ),
]


GROUPS = {
    "calibrate": (
        "The least noise, or the most steps, rate, batch or group size, that meets a target.",
        "groupdp calibrate noise run.toml --epsilon 8",
    )
}


#: Whom a calibration is for; the target's delta is an option of its own.
_QUESTION = ("delta", "group_size", "adjacency", "removed", "added")


@command(
    "calibrate noise",
    "--sampling-rate 0.01 --steps 2000 --group-size 9 --epsilon 8 --delta 1e-6",
)
@with_run(question=_QUESTION, saves_itself=True, assumed={"noise_multiplier": "1"})
def noise(
    asked: Asked,
    *,
    epsilon: Epsilon,
    which_phase: WhichPhase = None,
    tolerance: Tolerance = "1e-9",
    as_json: AsJSON = False,
) -> None:
    """The smallest noise multiplier of one phase, or the common factor on the noise of all."""
    from groupdp.calibration import calibrate_noise

    phase = None if which_phase is None else _phase(asked, which_phase)
    extra = {"tolerance": read_number("tolerance", tolerance), "phase": phase, **asked.neighbours}
    _answer(calibrate_noise, asked, epsilon, as_json, **extra)


@command(
    "calibrate steps",
    "--sampling-rate 0.01 --noise-multiplier 4 --group-size 9 --epsilon 8 --delta 1e-6",
)
@with_run(question=_QUESTION, saves_itself=True, assumed={"steps": "1"})
def steps(asked: Asked, *, epsilon: Epsilon, which_phase: WhichPhase = None, as_json: AsJSON = False) -> None:
    """The largest number of steps."""
    from groupdp.calibration import calibrate_steps

    phase = _phase(asked, which_phase)
    _answer(calibrate_steps, asked, epsilon, as_json, phase=phase, **asked.neighbours)


@command("calibrate rate", "--noise-multiplier 4 --steps 2000 --group-size 9 --epsilon 8 --delta 1e-6")
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


@command(
    "calibrate batch",
    "--dataset-size 50000 --noise-multiplier 8 --steps 2000 --group-size 9 --epsilon 8 --delta 1e-6",
)
@with_run(question=_QUESTION, saves_itself=True, assumed={"sampling": "fixed-batch", "batch_size": "1"})
def batch(asked: Asked, *, epsilon: Epsilon, which_phase: WhichPhase = None, as_json: AsJSON = False) -> None:
    """The largest fixed batch size."""
    from groupdp.calibration import calibrate_batch_size

    phase = _phase(asked, which_phase)
    _answer(calibrate_batch_size, asked, epsilon, as_json, phase=phase, **asked.neighbours)


@command(
    "calibrate group",
    "--sampling-rate 0.01 --noise-multiplier 4 --steps 2000 --epsilon 8 --delta 1e-6",
)
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
    if text == "last":
        return count - 1
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


_RUN, _QUESTION_PANEL = "The run", "The question"


@command(
    "bands",
    "--bands 1,2,4,8 --sampling-rate 0.01 --steps 2000 --noise-multiplier 2 --normalisation unit-columns "
    "--assigned person --delta 1e-6 --group-size 3 --epsilon 8",
)
def bands(
    *,
    bands: Annotated[str, option("--bands", "NUMBERS", "Numbers of bands: 1,2,4 or 1:8.", _RUN)] = "1,2,4,8,16",
    sampling_rate: Annotated[
        str, option("--sampling-rate", "NUMBER", "Expected batch over the whole dataset, for every row.", _RUN)
    ],
    steps: Annotated[str, option("--steps", "INTEGER", "Number of rounds.", _RUN)],
    noise_multiplier: Annotated[
        str, option("--noise-multiplier", "NUMBER", "Noise over the clipping norm, as --normalisation says.", _RUN)
    ],
    normalisation: Annotated[
        str,
        option("--normalisation", "NAME", "as-given, or unit-columns: the noise is times the column norm.", _RUN),
    ],
    assigned: Annotated[
        str, option("--assigned", "NAME", "What decides an example's part: person, example or position.", _RUN)
    ],
    delta: Delta,
    group_size: Annotated[
        str, option("--group-size", "INTEGER", "Examples that one person may have.", _QUESTION_PANEL)
    ] = ("1"),
    epsilon: Annotated[
        str | None,
        option("--epsilon", "NUMBER", "Also the noise that meets this epsilon, and its error.", _QUESTION_PANEL),
    ] = None,
    adjacency: Adjacency = ADJACENCIES[0],
    as_json: AsJSON = False,
) -> None:
    """Bands of correlated noise against epsilon and the error of prefix sums."""
    question: dict[str, Any] = {
        "sampling_rate": read_number("sampling_rate", sampling_rate),
        "steps": read_integer("steps", steps, at_least=1),
        "noise_multiplier": read_number("noise_multiplier", noise_multiplier),
        "normalisation": normalisation,
        "assigned": assigned,
        "delta": read_number("delta", delta),
        "group_size": read_integer("group_size", group_size, at_least=1),
        "epsilon": None if epsilon is None else read_number("epsilon", epsilon),
        "adjacency": read_adjacency(adjacency),
    }
    counts = read_group_sizes(bands, name="bands")
    from groupdp.correlated import bands_table

    rows = bands_table(counts, **question)
    if as_json:
        described = [
            {
                "bands": row.bands,
                "epsilon": bounds_as_json(row.epsilon),
                "tight": row.epsilon.tight,
                "column_norm": row.run.column_norm,
                "standard_deviation": row.run.standard_deviation,
                "squared_error": row.squared_error,
                **(
                    {}
                    if row.calibrated is None
                    else {
                        "calibrated_noise_multiplier": row.calibrated.noise_multiplier,
                        "calibrated_squared_error": row.calibrated_error,
                    }
                ),
            }
            for row in rows
        ]
        emit_json({"rows": described, **question})
        return
    columns = ["bands", "epsilon", "sigma / clip", "squared error"]
    if question["epsilon"] is not None:
        columns += [f"noise for {question['epsilon']:g}", "its squared error"]
    emit_table(
        f"Bands against epsilon at delta = {question['delta']!r} for a group of {question['group_size']} "
        f"({question['adjacency']}, {assigned}, {normalisation})",
        columns,
        [
            (
                str(row.bands),
                upper_text(row.epsilon.upper, 6),
                f"{row.run.standard_deviation:.6g}",
                f"{row.squared_error:.5g}",
                *(
                    ()
                    if row.calibrated is None
                    else (upper_text(row.calibrated.noise_multiplier, 6), f"{row.calibrated_error:.5g}")
                ),
            )
            for row in rows
        ],
        note="Squared error: of all prefix sums of gradients clipped to 1, in total; not certified, smaller is better."
        + ("" if all(row.epsilon.tight for row in rows) else f" {NOT_TIGHT}"),
    )
