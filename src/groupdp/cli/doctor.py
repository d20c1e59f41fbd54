"""`groupdp doctor`: hold a log of drawn indices against the sampling that is accounted for.

Exit status 1 means that the log contradicts the claim; 0 that it does not, which proves nothing.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from groupdp.cli.options import example
from groupdp.cli.support import AsJSON, emit_json, emit_text, handle_errors, option, read_integer, read_number
from groupdp.errors import InvalidArgument

_CLAIM = "The claim"
_EXAMPLE = example("groupdp doctor indices.parquet --sampling poisson --sampling-rate 0.01 --dataset-size 50000")
#: The samplings that have a test, with the names of the numbers that they need.
_FIELDS = {
    "poisson": ("sampling_rate",),
    "balls-in-bins": ("batches",),
    "spread": ("batches",),
    "shuffled": ("batch_size", "dataset_size"),
    "fixed-batch": ("batch_size", "dataset_size"),
    "fixed-order": ("batch_size", "dataset_size"),
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="doctor", epilog=_EXAMPLE)(handle_errors(doctor))


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
        str | None, option("--batches", "INTEGER", "balls-in-bins, spread: batches of an epoch.", _CLAIM)
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
    from groupdp.loading.fit import fit, steps_of_epoch
    from groupdp.loading.index_log import read_index_log

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
