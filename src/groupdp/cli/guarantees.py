"""`groupdp epsilon`, `delta`, `calibrate` and `bands`: one question about one run, answered with both bounds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from groupdp import fields
from groupdp.bounds import Bounds
from groupdp.cli.asked import Asked
from groupdp.cli.command import QUESTION, command
from groupdp.cli.options import EPSILON, LATTICE_MEMORY, RUN, choice, flag, integer, number, read_counts, words
from groupdp.cli.output import NOT_TIGHT, Answer, Table, progress_bar, values_of
from groupdp.engines import Progress
from groupdp.errors import NOT_SHOWN, InvalidArgument
from groupdp.neighbours import ADJACENCIES
from groupdp.printing import given, lower_text, round_up, sides, upper_text

if TYPE_CHECKING:
    from groupdp.calibration import Calibration


@command(
    "epsilon",
    "--sampling-rate 0.01 --noise-multiplier 1 --steps 2000 --delta 1e-6 --group-size 9",
    explain=flag("Also say what epsilon means for one person."),
    memory=LATTICE_MEMORY,
)
def epsilon(asked: Asked, *, explain: bool, memory: int, progress: Progress) -> Answer:
    """The smallest epsilon for groups of up to k examples, between two proved bounds."""
    about: dict[str, Any] = {"delta": asked.delta, "progress": progress, **asked.neighbours}
    from groupdp import guarantees

    bounds = guarantees.epsilon(asked.run, every_change=True, memory_budget=memory, **about)
    more: dict[str, Any] = {"delta": asked.delta}
    after: list[str] = []
    claim = _poisson_claim(asked)
    if claim is not None and claim.upper < bounds.upper:
        more["poisson_claim_not_a_guarantee"] = claim.upper
        after.append(
            f"Poisson accounting would claim {upper_text(claim.upper, 6)}. That is not a guarantee for this run: its "
            "batches are not Poisson samples."
        )
    if explain:
        from groupdp.statement.text import explain as explained

        meaning = explained(asked.run, certified=bounds, **about)
        more["explanation"] = meaning.as_json()
        after += (f"- {sentence}" for sentence in meaning.sentences())
    table = _table(f"epsilon at delta = {asked.delta!r}", bounds, _changes(bounds), asked)
    payload = {"epsilon": sides(bounds), **_loose(bounds, _changes(bounds)), **more, **asked.as_json_fields()}
    return Answer(json=payload, about=asked.about(), text=[table, *after])


def _poisson_claim(asked: Asked) -> Bounds | None:
    """What Poisson accounting would claim for a run that is often mistaken for it."""
    mistaken = any(phase.sampling.mistaken_for_poisson for phase in asked.file.training)
    if "removed" in asked.neighbours or not mistaken:
        return None
    from groupdp.baselines import poisson_claim

    return poisson_claim(asked.run, delta=asked.delta, **asked.neighbours)


@command(
    "delta",
    "--sampling-rate 0.01 --noise-multiplier 1 --steps 2000 --epsilon 40 --group-size 9",
    question=("group_size", "adjacency", "removed", "added"),
    epsilon=number("The epsilon of (epsilon, delta)-DP.", required=True, at_least=0.0),
    memory=LATTICE_MEMORY,
)
def delta(asked: Asked, *, epsilon: float, memory: int, progress: Progress) -> Answer:
    """The smallest delta for groups of up to k examples, between two proved bounds."""
    from groupdp import guarantees

    logarithm = guarantees.log_delta(
        asked.run, epsilon=epsilon, every_change=True, memory_budget=memory, progress=progress, **asked.neighbours
    )
    bounds = guarantees.exponential(logarithm)
    changes = {name: guarantees.exponential(change) for name, change in _changes(logarithm).items()}
    # The smallest doubles have few digits: then the logarithm is printed as well.
    small = f"log delta is at most {upper_text(logarithm.upper, 12)}." if 0.0 < bounds.upper < 1e-300 else ""
    table = _table(f"delta at epsilon = {epsilon!r}", bounds, changes, asked, small)
    both = {"delta": sides(bounds), "log_delta": sides(logarithm), **_loose(bounds, changes)}
    return Answer(json={**both, "epsilon": epsilon, **asked.as_json_fields()}, about=asked.about(), text=[table])


def _changes(bounds: Bounds) -> dict[str, Bounds]:
    """The ordered changes one by one, where there are several; in the order of their names."""
    changes = bounds.provenance.directions
    return {name: Bounds(*changes[name]) for name in sorted(changes)} if len(changes) > 1 else {}


def _loose(bounds: Bounds, changes: dict[str, Bounds]) -> dict[str, Any]:
    return {"tight": bounds.tight, **{name: sides(change) for name, change in changes.items()}}


def _table(title: str, answer: Bounds, changes: dict[str, Bounds], asked: Asked, *notes: str) -> Table:
    first = "in either order" if "removed" in asked.neighbours else asked.file.adjacency
    shown = {first: answer, **(changes if len(changes) <= 12 else {})}
    return Table(
        f"{title} for {asked.group_text()}",
        ("adjacency", "at least", "at most (the guarantee)"),
        [(name, lower_text(bounds.lower, 12), upper_text(bounds.upper, 12)) for name, bounds in shown.items()],
        [*notes, "" if answer.tight else NOT_TIGHT],
    )


GROUPS = {
    "calibrate": (
        "The least noise, or the most steps, rate, batch or group size, that meets a target.",
        "groupdp calibrate noise run.toml --epsilon 8",
    )
}
#: Of every command `calibrate NAME`: the library's `calibrate_PARAMETER`, the help, the example, and values of the run
#: that it does not need.
_CALIBRATIONS: dict[str, tuple[str, str, str, dict[str, str]]] = {
    "noise": (
        "noise",
        "The smallest noise multiplier of one phase, or the smallest common factor on the noise of all phases.",
        "--sampling-rate 0.01 --steps 2000 --group-size 9 --epsilon 8 --delta 1e-6",
        {"noise_multiplier": "1"},
    ),
    "steps": (
        "steps",
        "The largest number of steps.",
        "--sampling-rate 0.01 --noise-multiplier 4 --group-size 9 --epsilon 8 --delta 1e-6",
        {"steps": "1"},
    ),
    "rate": (
        "rate",
        "The largest Poisson sampling rate.",
        "--noise-multiplier 4 --steps 2000 --group-size 9 --epsilon 8 --delta 1e-6",
        {"sampling": "poisson", "sampling_rate": "1"},
    ),
    "batch": (
        "batch_size",
        "The largest fixed batch size.",
        "--dataset-size 50000 --noise-multiplier 8 --steps 2000 --group-size 9 --epsilon 8 --delta 1e-6",
        {"sampling": "fixed-batch", "batch_size": "1"},
    ),
    "group": (
        "group_size",
        "The largest number of examples per person.",
        "--sampling-rate 0.01 --noise-multiplier 4 --steps 2000 --epsilon 8 --delta 1e-6",
        {},
    ),
}


def _calibration(name: str, parameter: str, text: str, example: str, assumed: dict[str, str]) -> Any:
    """The command `calibrate NAME`."""
    options: dict[str, Any] = {"epsilon": EPSILON}
    if name != "group":
        options["which_phase"] = words("INTEGER", "Which of several phases to change: a number from 1, or last.")
    if name in ("noise", "rate"):
        options["tolerance"] = number("Largest relative distance from the best value.", default="1e-9")

    def calibrate(asked: Asked, *, progress: Progress, **question: Any) -> Answer:
        from groupdp import calibration

        if name == "group":
            question["adjacency"] = asked.file.adjacency
        else:
            which = question.pop("which_phase")
            all_phases = name == "noise" and which is None
            question |= {"phase": None if all_phases else _phase(asked, which), **asked.neighbours}
        function = getattr(calibration, f"calibrate_{parameter}")
        return _calibrated(asked, function(asked.run, delta=asked.delta, progress=progress, **question))

    calibrate.__doc__ = text
    asks = ("delta", "adjacency") if name == "group" else QUESTION
    return command(f"calibrate {name}", example, question=asks, assumed=assumed, **options)(calibrate)


for _name, _row in _CALIBRATIONS.items():
    globals()[f"calibrate_{_name}"] = _calibration(_name, *_row)


def _phase(asked: Asked, text: str | None) -> int:
    """The index of the phase to change; the library counts from 0, the command line from 1."""
    count = len(asked.file.phases)
    if text is None and count > 1:
        needed = f"say which of the {count} phases to change: --which-phase 1 to {count}"
        raise InvalidArgument("which_phase", NOT_SHOWN, needed)
    if text is None or text == "last":
        return count - 1
    return fields.integer("which_phase", text, at_least=1, at_most=count) - 1


def _calibrated(asked: Asked, result: Calibration) -> Answer:
    """The calibrated value; --save writes the run with it."""
    from groupdp.mechanisms.mechanism import mechanisms_of

    file = replace(asked.file, phases=mechanisms_of(result.run))
    if result.parameter == "group_size":
        file = replace(file, group_size=result.group_size, removed=None, added=None)
    asked = replace(asked, file=file)
    tried = [(result.value, result.epsilon, "meets it")]
    if result.failing_value is not None and result.failing_epsilon is not None:
        fails = "fails, proved" if result.epsilon.tight else "fails by this analysis"
        tried.append((result.failing_value, result.failing_epsilon, fails))
    name = result.parameter.replace("_", " ")
    cells = [(str(value), lower_text(of.lower, 12), upper_text(of.upper, 12), meets) for value, of, meets in tried]
    table = Table(
        f"{name} for epsilon = {result.target_epsilon!r} at delta = {result.delta!r}, {asked.group_text()}",
        (name, "epsilon at least", "epsilon at most", "target"),
        cells,
        [_optimality(result), "" if result.epsilon.tight else NOT_TIGHT],
    )
    save, json = asked.run_text(), {**result.as_dict(), "run": asked.run_as_json()}
    return Answer(json=json, about=asked.about(), text=[table], files={"save": save})


def _optimality(result: Calibration) -> str:
    by = "" if result.epsilon.tight else " for this analysis"
    if not result.proved_optimal:
        if result.proved_gap is None:
            return "The value meets the target; it is not proved to be the best one."
        gap = round_up(result.proved_gap, 2)
        return f"Proved optimal{by} to a relative {gap}, which is wider than the tolerance asked for."
    if result.failing_value is None:
        return "The value is at the end of the accepted range."
    if result.tolerance is not None:
        return f"Proved optimal{by} to a relative {given(result.tolerance)}."
    return f"Proved optimal{by}."


@command(
    "bands",
    "--bands 1,2,4,8 --sampling-rate 0.01 --steps 2000 --noise-multiplier 2 --normalisation unit-columns "
    "--assigned person --delta 1e-6 --group-size 3 --epsilon 8",
    bands=words("NUMBERS", "Numbers of bands: 1,2,4 or 1:8.", RUN, default="1,2,4,8,16", read=read_counts),
    sampling_rate=number("Expected batch size over the dataset size, in every row.", RUN, required=True),
    steps=integer("Number of rounds.", RUN, required=True),
    noise_multiplier=number("Noise over the clipping norm, before --normalisation.", RUN, required=True),
    normalisation=words(
        "NAME", "unit-columns multiplies the noise by the column norm, as-given does not.", RUN, required=True
    ),
    assigned=words(
        "NAME", "What decides which part an example is in: person, example or position.", RUN, required=True
    ),
    delta=number("The delta of (epsilon, delta)-DP.", required=True),
    group_size=integer("Examples that one person may have.", required=True),
    epsilon=number("Also print the noise that meets this epsilon, and its error."),
    adjacency=choice(ADJACENCIES, f"Which datasets are neighbours: {', '.join(ADJACENCIES)}.", default=ADJACENCIES[0]),
)
def bands_of_noise(*, bands: list[int], **question: Any) -> Answer:
    """Compare numbers of bands of correlated noise by epsilon and by the error of prefix sums."""
    from groupdp.correlated import bands_table

    with progress_bar("bands"):
        rows = bands_table(bands, **question)
    columns, cells = ["bands", "epsilon", "sigma / clip", "squared error"], []
    if question["epsilon"] is not None:
        columns += [f"noise for {given(question['epsilon'])}", "its squared error"]
    payload: list[dict[str, Any]] = []
    for row in rows:
        noises = upper_text(row.epsilon.upper, 6), upper_text(row.run.standard_deviation, 6)
        cells.append([str(row.bands), *noises, f"{row.squared_error:.5g}"])
        norms = values_of(row.run, ("column_norm", "standard_deviation"))
        about = {"bands": row.bands, "epsilon": sides(row.epsilon), "tight": row.epsilon.tight, **norms}
        payload.append({**about, "squared_error": row.squared_error})
        if row.calibrated is not None:
            noise, error = row.calibrated.noise_multiplier, row.calibrated_error
            cells[-1] += [upper_text(noise, 6), f"{error:.5g}"]
            payload[-1] |= {"calibrated_noise_multiplier": noise, "calibrated_squared_error": error}
    table = Table(
        f"Bands against epsilon at delta = {question['delta']!r} for a group of {question['group_size']} "
        f"({question['adjacency']}, {question['assigned']}, {question['normalisation']})",
        columns,
        cells,
        [
            "Squared error: the total over all prefix sums of gradients clipped to 1, not certified."
            + ("" if all(row.epsilon.tight for row in rows) else f" {NOT_TIGHT}")
        ],
    )
    return Answer(json={"rows": payload, **question}, text=[table])
