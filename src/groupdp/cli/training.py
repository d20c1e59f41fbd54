"""`groupdp doctor` and `groupdp import-run`: what a training job left behind, checked and read.

Exit status 1 of `doctor` means that the log contradicts the claim; 0 that it does not, which proves nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from groupdp._files import NewFiles
from groupdp.cli.command import command, fail
from groupdp.cli.options import AsJSON, Force, option, out_option, read_adjacency, read_integer, read_number
from groupdp.cli.output import emit_json, emit_text, require_new
from groupdp.errors import InvalidArgument, InWords
from groupdp.samplings import (
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


@command("doctor", "indices.parquet --sampling poisson --sampling-rate 0.01 --dataset-size 50000")
def doctor(
    indices: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="CSV, Parquet or JSONL: a row for every example of every batch, with the columns step and index, "
            "perhaps epoch and person.",
        ),
    ],
    *,
    sampling: Annotated[str, option("--sampling", "NAME", f"What is claimed: {', '.join(_FIELDS)}.", _CLAIM)],
    dataset_size: Annotated[str, option("--dataset-size", "INTEGER", "Examples in the dataset drawn from.", _CLAIM)],
    sampling_rate: Annotated[
        str | None, option("--sampling-rate", "NUMBER", "poisson: the rate, 0.01 or 256/60000.", _CLAIM)
    ] = None,
    batches: Annotated[
        str | None, option("--batches", "INTEGER", "Where the claim has them: batches of an epoch.", _CLAIM)
    ] = None,
    batch_size: Annotated[
        str | None,
        option("--batch-size", "INTEGER", "shuffled, fixed-batch, fixed-order: examples in a batch.", _CLAIM),
    ] = None,
    epoch_steps: Annotated[
        str | None, option("--epoch-steps", "INTEGER", "Steps of an epoch, unless the claim says.", _CLAIM)
    ] = None,
    false_alarm: Annotated[
        str, option("--false-alarm", "NUMBER", "Largest probability of an alarm about a true claim.", _CLAIM)
    ] = "1e-6",
    as_json: AsJSON = False,
) -> None:
    """Does a log of drawn indices contradict the sampling that is accounted for?"""
    from groupdp.loading.draws import read_index_log
    from groupdp.loading.fit import fit, steps_of_epoch

    given = {"sampling_rate": sampling_rate, "batches": batches, "batch_size": batch_size, "dataset_size": dataset_size}
    size = read_integer("dataset_size", dataset_size, at_least=1)
    claim = _claim(sampling, given)
    alarm = read_number("false_alarm", false_alarm, above=0.0, at_most=0.1)
    steps = steps_of_epoch(claim, size) if epoch_steps is None else read_integer("epoch_steps", epoch_steps, at_least=1)
    log = read_index_log(indices, steps=steps, dataset_size=size)
    result = fit(log.drawn, claim, people=log.people, false_alarm=alarm)
    if as_json:
        emit_json(
            {
                "contradicted": result.contradicted,
                "claim": {"sampling": claim.name, **claim.values()},
                "epochs": result.epochs,
                "indices": result.draws,
                "false_alarm": result.false_alarm,
                "findings": [
                    {"what": one.what, "p_value": one.p_value, "contradicts": one in result.contradicting}
                    for one in result.findings
                ],
            }
        )
    else:
        emit_text(str(result))
    raise typer.Exit(1 if result.contradicted else 0)


def _claim(name: str, given: dict[str, str | None]) -> Any:
    """The sampling that the options describe; those that it does not have are refused."""
    from groupdp._validation import require_choice, require_fraction
    from groupdp.samplings import SAMPLINGS

    needed = _FIELDS[require_choice("sampling", name, tuple(_FIELDS))]
    for field, text in given.items():
        if text is None and field in needed:
            raise InvalidArgument(field, None, f"be given for {name}")
        if text is not None and field not in needed and field != "dataset_size":
            raise InvalidArgument(field, text, f"be left out for {name}")
    attributes = {field.name: field.attribute for field in SAMPLINGS[name].fields}
    values: dict[str, Any] = {}
    for field in needed:
        text = str(given[field])
        values[attributes[field]] = (
            float(require_fraction(field, text)) if field == "sampling_rate" else read_integer(field, text, at_least=1)
        )
    return SAMPLINGS[name](**values)


@command("import-run", "checkpoint.pt --delta 1e-6 -o run.toml")
def import_run(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A checkpoint of Opacus, or in JSON a history of it, hyperparameters of TensorFlow Privacy or "
            "DpParams of JAX Privacy: docs/integrations.md.",
        ),
    ],
    *,
    out: Annotated[str, out_option("RUN.TOML", "The run file to write.")],
    group_size: Annotated[
        str | None, option("--group-size", "INTEGER", "Examples of one person, unless the source says.", "The question")
    ] = None,
    delta: Annotated[str | None, option("--delta", "NUMBER", "Delta, unless the source says.", "The question")] = None,
    adjacency: Annotated[
        str | None, option("--adjacency", "NAME", "Adjacency, unless the source says.", "The question")
    ] = None,
    title: Annotated[str, option("--title", "TEXT", "Title of the run.", "Output")] = "",
    force: Force = False,
    as_json: AsJSON = False,
) -> None:
    """Write a run file for what another tool's training left behind."""
    from groupdp.integrations.import_run import import_run as read
    from groupdp.run_file.read import LARGEST_FILE, RunFile, parse_run_file
    from groupdp.run_file.write import run_file_text

    if Path(out).resolve() == Path(source).resolve():
        raise InvalidArgument("out", out, "be another file than the source")
    require_new(out, "out", force=force)
    try:
        found = read(source)
    except ImportError as error:
        fail(str(error))
    size = read_integer("group_size", group_size, at_least=1) if group_size is not None else found.group_size
    target = read_number("delta", delta, above=0.0, below=1.0) if delta is not None else found.delta
    chosen = read_adjacency(adjacency) if adjacency is not None else found.adjacency or "add-or-remove"
    text = run_file_text(
        RunFile(
            title=title.strip() or f"Run from {Path(source).name}",
            phases=found.phases,
            delta=target,
            group_size=size,
            adjacency=chosen,
        )
    )
    if len(text.encode()) > LARGEST_FILE:
        raise InvalidArgument(
            "source",
            InWords(f"{len(found.phases)} phases"),
            f"have few enough phases for a run file of {LARGEST_FILE} bytes",
        )
    parse_run_file(text, name=out)  # whatever the format refuses is refused before anything is written
    with NewFiles("out") as files:
        files.write_text(out, text)
    steps = sum(phase.steps for phase in found.phases)
    missing = [name for name, value in (("group_size", size), ("delta", target)) if value is None]
    if as_json:
        emit_json(
            {
                "out": out,
                "source": found.source,
                "run": [phase.values() for phase in found.phases],
                "group_size": size,
                "delta": target,
                "adjacency": chosen,
                "missing": missing,
            }
        )
        return
    emit_text(f"{out}: {found.source}, {steps} steps in {_counted(len(found.phases), 'phase')}.")
    if missing:
        emit_text(f"The source does not say {' and '.join(missing)}: give it here, in the file, or with the question.")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
