"""The options that commands share, described once.

All arrive as text, to be read by `values`: every bad value then gets the library's own sentence.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

ADJACENCIES = ("add-or-remove", "add", "remove")

_RUN = "The run"
_QUESTION = "The question"
_OUTPUT = "Output"
_COMPUTATION = "The computation"


def option(name: str, metavar: str, text: str, panel: str) -> Any:
    """A typer option that arrives as text, in one of the help's panels."""
    return typer.Option(name, metavar=metavar, help=text, rich_help_panel=panel, show_default=False)


SamplingRate = Annotated[
    str | None,
    option(
        "--sampling-rate",
        "NUMBER",
        "Poisson sampling: probability that an example joins a batch.",
        _RUN,
    ),
]
BatchSize = Annotated[
    str | None,
    option("--batch-size", "INTEGER", "Fixed batches of this size (with --dataset-size).", _RUN),
]
DatasetSize = Annotated[
    str | None,
    option("--dataset-size", "INTEGER", "Examples in the smaller dataset, the one without the group.", _RUN),
]
NoiseMultiplier = Annotated[
    str,
    option("--noise-multiplier", "NUMBER", "Standard deviation of the noise over the clipping norm.", _RUN),
]
OptionalNoiseMultiplier = Annotated[
    str | None,
    option("--noise-multiplier", "NUMBER", "Standard deviation of the noise over the clipping norm.", _RUN),
]
Steps = Annotated[str | None, option("--steps", "INTEGER", "Number of rounds.", _RUN)]
Epochs = Annotated[
    str | None,
    option("--epochs", "NUMBER", "Instead of --steps: passes over the data (rounded up).", _RUN),
]
MicrobatchSize = Annotated[
    str,
    option("--microbatch-size", "INTEGER", "Examples averaged before clipping (1: each is clipped).", _RUN),
]
Delta = Annotated[str, option("--delta", "NUMBER", "The delta of (epsilon, delta)-DP.", _QUESTION)]
Epsilon = Annotated[str, option("--epsilon", "NUMBER", "The epsilon of (epsilon, delta)-DP.", _QUESTION)]
GroupSize = Annotated[
    str, option("--group-size", "INTEGER", "Examples that one person may have (1 if not given).", _QUESTION)
]
Adjacency = Annotated[
    str,
    typer.Option(
        "--adjacency",
        metavar="|".join(ADJACENCIES),
        help="Whether the group is added, removed or either.",
        rich_help_panel=_QUESTION,
        autocompletion=lambda: list(ADJACENCIES),
    ),
]
Memory = Annotated[
    str, option("--memory", "SIZE", "Most memory for lattices, such as 512M or 2G (1G if not given).", _COMPUTATION)
]
AsJSON = Annotated[
    bool,
    typer.Option("--json", help="Machine-readable output, in full precision.", rich_help_panel=_OUTPUT),
]
