"""What a run file says to `groupdp cap`: delta, adjacency, steps and the batch; its noise is what `cap` looks for."""

from __future__ import annotations

from typing import Any

from groupdp.errors import NOT_SHOWN, InvalidArgument
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.printing import given
from groupdp.run_file.read import read_run_file


def filled(question: dict[str, Any], path: str | None) -> dict[str, Any]:
    """The question with what the options leave open taken from the file; a rate stands for `batch_size` until the data
    are counted.
    """
    if path is not None:
        file = read_run_file(path)
        phase = file.phases[0]
        if len(file.phases) != 1 or not isinstance(phase, DPSGD) or phase.sampling.name != "poisson":
            raise InvalidArgument("run", path, "have one phase of Poisson sampling for a cap")
        length = {} if question["steps"] or question["epochs"] else {"steps": phase.steps}
        said = {
            "delta": file.delta,
            "adjacency": file.adjacency,
            "batch_size": phase.sampling.share_of_data(),
            **length,
        }
        question = {**question, **{name: value for name, value in said.items() if question.get(name) is None}}
    for name in ("delta", "batch_size"):
        if question[name] is None:
            raise InvalidArgument(name, NOT_SHOWN, "be given, as an option or in a run file (--run RUN.TOML)")
    return question


def with_batch(question: dict[str, Any], counts: Any) -> tuple[dict[str, Any], list[str]]:
    """The question with a rate turned into a batch of the examples counted; and a remark where rounding tells."""
    share = question["batch_size"]
    if isinstance(share, int):
        return question, []
    from groupdp.people.view import histogram_of

    values, people = histogram_of(counts)
    examples = sum(int(value) * int(number) for value, number in zip(values, people, strict=True))
    expected = float(share * examples)
    batch = max(round(expected), 1)
    remark = f"Note: the run's rate of {examples} examples is {given(expected)} a batch, rounded to {batch}."
    return {**question, "batch_size": batch}, [remark] if abs(batch - expected) > 0.01 * expected else []
