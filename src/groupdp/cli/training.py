"""`groupdp doctor` and `groupdp import-run`: check a log of batches, and read what another tool's training saved.

Exit status 1 of `doctor` means that the log contradicts the claim; 0 that it does not, which proves nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from groupdp._validation import require_choice, require_fraction
from groupdp.cli.command import command, fail
from groupdp.cli.options import OUTPUT, argument, choice, integer, number, out, words
from groupdp.cli.output import emit_json, emit_text, new_files, waiting
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords
from groupdp.neighbours import ADJACENCIES
from groupdp.samplings import (
    SAMPLINGS,
    BallsInBinsSampling,
    FixedBatchSampling,
    FixedOrderSampling,
    PoissonSampling,
    ShuffledSampling,
    SpreadSampling,
)

_CLAIM = "The claim"
#: The samplings that have a test, with the names of the numbers that they need.
_FIELDS = {
    kind.name: tuple(field.name for field in kind.fields if field.default is None)
    for kind in (
        PoissonSampling,
        BallsInBinsSampling,
        SpreadSampling,
        ShuffledSampling,
        FixedBatchSampling,
        FixedOrderSampling,
    )
}


@command(
    "doctor",
    "indices.parquet --sampling poisson --sampling-rate 0.01 --dataset-size 50000",
    indices=argument(
        "FILE",
        "CSV, Parquet or JSONL: a row for every example of every batch, with the columns step and index, perhaps epoch "
        "and person.",
    ),
    sampling=words("NAME", f"What is claimed: {', '.join(_FIELDS)}.", _CLAIM, required=True),
    dataset_size=integer("Examples in the dataset drawn from.", _CLAIM, required=True),
    sampling_rate=words(
        "NUMBER",
        "poisson: the rate, 0.01 or 256/60000.",
        _CLAIM,
        read=lambda name, text: float(require_fraction(name, text)),
    ),
    batches=integer("Where the claim has them: batches of an epoch.", _CLAIM),
    batch_size=integer("shuffled, fixed-batch, fixed-order: examples in a batch.", _CLAIM),
    epoch_steps=integer("Steps of an epoch, unless the claim says.", _CLAIM),
    false_alarm=number(
        "Largest probability of an alarm about a true claim.", _CLAIM, default="1e-6", above=0.0, at_most=0.1
    ),
)
def doctor(
    indices: str,
    *,
    sampling: str,
    dataset_size: int,
    epoch_steps: int | None,
    false_alarm: float,
    as_json: bool,
    **given: Any,
) -> None:
    """Does a log of drawn indices contradict the sampling that is accounted for?"""
    from groupdp.loading.draws import read_index_log
    from groupdp.loading.fit import fit, steps_of_epoch

    claim = _claim(sampling, {**given, "dataset_size": dataset_size})
    steps = steps_of_epoch(claim, dataset_size) if epoch_steps is None else epoch_steps
    with waiting("doctor"):
        log = read_index_log(indices, steps=steps, dataset_size=dataset_size)
        result = fit(log.drawn, claim, people=log.people, false_alarm=false_alarm)
    if as_json:
        emit_json(
            {
                "contradicted": result.contradicted,
                "claim": {"sampling": claim.name, **claim.values()},
                "epochs": result.epochs,
                "indices": result.draws,
                "false_alarm": result.false_alarm,
                "findings": [
                    {"what": finding.what, "p_value": finding.p_value, "contradicts": finding in result.contradicting}
                    for finding in result.findings
                ],
            }
        )
    else:
        emit_text(str(result))
    raise typer.Exit(1 if result.contradicted else 0)


def _claim(name: str, given: dict[str, Any]) -> Any:
    """The sampling that the options describe; those that it does not have are refused."""
    needed = _FIELDS[require_choice("sampling", name, tuple(_FIELDS))]
    for field, value in given.items():
        if value is None and field in needed:
            raise InvalidArgument(field, NOT_SHOWN, f"be given for {name}, as --{field.replace('_', '-')}")
        if value is not None and field not in needed and field != "dataset_size":
            raise InvalidArgument(field, value, f"be left out for {name}")
    kind = SAMPLINGS[name]
    return kind(**{field.attribute: given[field.name] for field in kind.fields if field.name in needed})


@command(
    "import-run",
    "checkpoint.pt --delta 1e-6 -o run.toml",
    source=argument(
        "FILE",
        "A checkpoint of Opacus, or in JSON a history of it, hyperparameters of TensorFlow Privacy or DpParams of JAX "
        "Privacy: docs/integrations.md.",
    ),
    out=out("RUN.TOML", "The run file to write.", required=True),
    group_size=integer("Examples of one person, unless the source says."),
    delta=number("Delta, unless the source says.", above=0.0, below=1.0),
    adjacency=choice(ADJACENCIES, "Adjacency, unless the source says."),
    title=words("TEXT", "Title of the run.", OUTPUT, default=""),
)
def import_run(source: str, *, out: str, title: str, force: bool, as_json: bool, **question: Any) -> None:
    """Write a run file from what another tool's training saved: a checkpoint, a history, parameters."""
    from groupdp.integrations.import_run import import_run as read
    from groupdp.run_file.read import LARGEST_FILE, parse_run_file
    from groupdp.run_file.run import RunFile
    from groupdp.run_file.write import run_file_text

    if Path(out).resolve() == Path(source).resolve():
        raise InvalidArgument("out", out, "be another file than the source")
    with new_files(force=force, out=out) as files:
        try:
            with waiting("import-run"):  # loading a checkpoint imports PyTorch
                found = read(source)
        except ImportError as error:
            fail(str(error))
        known: dict[str, Any] = {"group_size": found.group_size, "delta": found.delta, "adjacency": found.adjacency}
        known |= {name: value for name, value in question.items() if value is not None}
        known["adjacency"] = known["adjacency"] or ADJACENCIES[0]
        title = title.strip() or f"Run from {Path(source).name}"
        text = run_file_text(RunFile(title=title, phases=found.phases, **known))
        if len(text.encode()) > LARGEST_FILE:
            raise InvalidArgument(
                "source",
                InWords(f"{len(found.phases)} phases"),
                f"have few enough phases for a run file of {LARGEST_FILE} bytes",
            )
        parse_run_file(text, name=out)  # refuse before anything is written
        files.write_text(out, text)
    steps = sum(phase.steps for phase in found.phases)
    missing = [name for name in ("group_size", "delta") if known[name] is None]
    if as_json:
        described = [phase.values() for phase in found.phases]
        emit_json({"out": out, "source": found.source, "run": described, **known, "missing": missing})
        return
    phases = "1 phase" if len(found.phases) == 1 else f"{len(found.phases)} phases"
    emit_text(f"{out}: {found.source}, {steps} steps in {phases}.")
    if missing:
        emit_text(f"The source does not say {' and '.join(missing)}: give it here, in the file, or with the question.")
