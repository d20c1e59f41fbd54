"""`groupdp calibrate` and `groupdp bands`: the best value of one parameter for a target; bands of correlated noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from groupdp import fields
from groupdp.cli.asked import Asked
from groupdp.cli.command import command
from groupdp.cli.options import RUN, SHARED, choice, integer, number, read_counts, words
from groupdp.cli.output import NOT_TIGHT, emit_json, emit_run, emit_table, progress_bar, waiting
from groupdp.errors import NOT_SHOWN, InvalidArgument
from groupdp.neighbours import ADJACENCIES
from groupdp.printing import given, lower_text, round_up, sides, upper_text

if TYPE_CHECKING:
    from groupdp.calibration import Calibration

GROUPS = {
    "calibrate": (
        "The least noise, or the most steps, rate, batch or group size, that meets a target.",
        "groupdp calibrate noise run.toml --epsilon 8",
    )
}
_EPSILON: dict[str, Any] = {"epsilon": SHARED["epsilon"]}
_PHASE: dict[str, Any] = {
    "which_phase": words("INTEGER", "Of several phases, the one to change: 1 is the first, or last.")
}
_TOLERANCE: dict[str, Any] = {"tolerance": number("How close to the best value, relatively.", default="1e-9")}


@command(
    "calibrate noise",
    "--sampling-rate 0.01 --steps 2000 --group-size 9 --epsilon 8 --delta 1e-6",
    assumed={"noise_multiplier": "1"},
    **_EPSILON,
    **_PHASE,
    **_TOLERANCE,
)
def noise(asked: Asked, *, which_phase: str | None, as_json: bool, **question: Any) -> Asked:
    """The smallest noise multiplier of one phase, or the common factor on the noise of all."""
    from groupdp.calibration import calibrate_noise

    phase = None if which_phase is None else _phase(asked, which_phase)
    return _answer(calibrate_noise, asked, as_json=as_json, phase=phase, **question, **asked.neighbours)


@command(
    "calibrate steps",
    "--sampling-rate 0.01 --noise-multiplier 4 --group-size 9 --epsilon 8 --delta 1e-6",
    assumed={"steps": "1"},
    **_EPSILON,
    **_PHASE,
)
def steps(asked: Asked, *, which_phase: str | None, as_json: bool, **question: Any) -> Asked:
    """The largest number of steps."""
    from groupdp.calibration import calibrate_steps

    question |= {"phase": _phase(asked, which_phase), **asked.neighbours}
    return _answer(calibrate_steps, asked, as_json=as_json, **question)


@command(
    "calibrate rate",
    "--noise-multiplier 4 --steps 2000 --group-size 9 --epsilon 8 --delta 1e-6",
    assumed={"sampling": "poisson", "sampling_rate": "1"},
    **_EPSILON,
    **_PHASE,
    **_TOLERANCE,
)
def rate(asked: Asked, *, which_phase: str | None, as_json: bool, **question: Any) -> Asked:
    """The largest Poisson sampling rate."""
    from groupdp.calibration import calibrate_rate

    question |= {"phase": _phase(asked, which_phase), **asked.neighbours}
    return _answer(calibrate_rate, asked, as_json=as_json, **question)


@command(
    "calibrate batch",
    "--dataset-size 50000 --noise-multiplier 8 --steps 2000 --group-size 9 --epsilon 8 --delta 1e-6",
    assumed={"sampling": "fixed-batch", "batch_size": "1"},
    **_EPSILON,
    **_PHASE,
)
def batch(asked: Asked, *, which_phase: str | None, as_json: bool, **question: Any) -> Asked:
    """The largest fixed batch size."""
    from groupdp.calibration import calibrate_batch_size

    question |= {"phase": _phase(asked, which_phase), **asked.neighbours}
    return _answer(calibrate_batch_size, asked, as_json=as_json, **question)


@command(
    "calibrate group",
    "--sampling-rate 0.01 --noise-multiplier 4 --steps 2000 --epsilon 8 --delta 1e-6",
    question=("delta", "adjacency"),
    **_EPSILON,
)
def group_size(asked: Asked, *, as_json: bool, **question: Any) -> Asked:
    """The largest number of examples per person."""
    from groupdp.calibration import calibrate_group_size

    return _answer(calibrate_group_size, asked, as_json=as_json, adjacency=asked.file.adjacency, **question)


def _phase(asked: Asked, text: str | None) -> int:
    """The index of the phase to change; the library counts from 0, the command line from 1."""
    count = len(asked.file.phases)
    if text is None:
        if count > 1:
            raise InvalidArgument(
                "which_phase", NOT_SHOWN, f"say which of the {count} phases to change: --which-phase 1 to {count}"
            )
        return 0
    if text == "last":
        return count - 1
    return fields.integer("which_phase", text, at_least=1, at_most=count) - 1


def _answer(calibrate: Callable[..., Calibration], asked: Asked, *, as_json: bool, **question: Any) -> Asked:
    """Print the calibrated value; the run with it."""
    with progress_bar("calibrate") as progress:
        found = calibrate(asked.run, delta=asked.delta, progress=progress, **question)
    from groupdp.mechanisms.mechanism import mechanisms_of

    phases = mechanisms_of(found.run)
    file = replace(asked.file, phases=phases)
    if found.parameter == "group_size":
        file = replace(file, group_size=found.group_size, removed=None, added=None)
    asked = replace(asked, file=file)
    if as_json:
        described = [phase.values() for phase in phases]
        emit_json({**found.as_dict(), "run": described[0] if len(described) == 1 else described})
        return asked
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
    return asked


def _optimality(found: Calibration) -> str:
    by = "" if found.epsilon.tight else " for this analysis"
    if not found.proved_optimal:
        if found.proved_gap is None:
            return "The value is safe; it is not proved that no better one is."
        gap = round_up(found.proved_gap, 2)
        return f"Proved optimal{by} to a relative {gap}, not to the tolerance asked for."
    if found.failing_value is None:
        return "This is the extreme value that is accepted."
    if found.tolerance is not None:
        return f"Proved optimal{by} to a relative {given(found.tolerance)}."
    return f"Proved optimal{by}."


@command(
    "bands",
    "--bands 1,2,4,8 --sampling-rate 0.01 --steps 2000 --noise-multiplier 2 --normalisation unit-columns "
    "--assigned person --delta 1e-6 --group-size 3 --epsilon 8",
    bands=words("NUMBERS", "Numbers of bands: 1,2,4 or 1:8.", RUN, default="1,2,4,8,16", read=read_counts),
    sampling_rate=number("Expected batch over the whole dataset, for every row.", RUN, required=True),
    steps=integer("Number of rounds.", RUN, required=True),
    noise_multiplier=number("Noise over the clipping norm, as --normalisation says.", RUN, required=True),
    normalisation=words("NAME", "as-given, or unit-columns: the noise is times the column norm.", RUN, required=True),
    assigned=words("NAME", "What decides an example's part: person, example or position.", RUN, required=True),
    delta=number("The delta of (epsilon, delta)-DP.", required=True),
    group_size=integer("Examples that one person may have.", required=True),
    epsilon=number("Also the noise that meets this epsilon, and its error."),
    adjacency=choice(ADJACENCIES, f"Which datasets are neighbours: {', '.join(ADJACENCIES)}.", default=ADJACENCIES[0]),
)
def bands_of_noise(*, bands: list[int], as_json: bool, **question: Any) -> None:
    """Bands of correlated noise against epsilon and the error of prefix sums."""
    from groupdp.correlated import bands_table

    with waiting("bands"):
        rows = bands_table(bands, **question)
    if as_json:
        described = [
            {
                "bands": row.bands,
                "epsilon": sides(row.epsilon),
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
        columns += [f"noise for {given(question['epsilon'])}", "its squared error"]
    emit_table(
        f"Bands against epsilon at delta = {question['delta']!r} for a group of {question['group_size']} "
        f"({question['adjacency']}, {question['assigned']}, {question['normalisation']})",
        columns,
        [
            (
                str(row.bands),
                upper_text(row.epsilon.upper, 6),
                upper_text(row.run.standard_deviation, 6),
                f"{row.squared_error:.5g}",
                *(
                    ()
                    if row.calibrated is None
                    else (upper_text(row.calibrated.noise_multiplier, 6), f"{row.calibrated_error:.5g}")
                ),
            )
            for row in rows
        ],
        note="Squared error: the total over all prefix sums of gradients clipped to 1, not certified."
        + ("" if all(row.epsilon.tight for row in rows) else f" {NOT_TIGHT}"),
    )
