"""A privacy statement that a reviewer can check: what is guaranteed, for whom, under which assumptions.

Every epsilon in it is an upper bound, rounded up. Rendered as Markdown, as plain text or as JSON.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import Any

from groupdp._version import VERSION
from groupdp.baselines import old_tool_epsilon, vadhan_epsilons
from groupdp.bounds import Bounds, round_up
from groupdp.dpsgd import DPSGD
from groupdp.engines.interface import Progress
from groupdp.errors import InvalidArgument
from groupdp.guarantees import epsilon
from groupdp.run_file.describe import run_as_json
from groupdp.run_file.read import RunFile
from groupdp.samplings import PoissonSampling

#: Significant digits of an epsilon in a statement.
DIGITS = 5
FORMATS = ("markdown", "text", "json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """The numbers of a statement; the words are in `as_markdown` and `as_text`."""

    run: RunFile
    epsilon: Bounds
    add: Bounds | None
    remove: Bounds | None
    one_example: Bounds
    vadhan: Bounds
    old_tool: float
    version: str = VERSION


def make_statement(run: RunFile, *, progress: Progress | None = None) -> Statement:
    """Compute what the statement says."""
    report = progress if progress is not None else (lambda _: None)
    if run.group_size is None:
        raise InvalidArgument("group_size must be given for a statement: the most examples that one person has.")
    phases = list(run.phases)
    directions = ("add", "remove") if run.adjacency == "add-or-remove" else (run.adjacency,)
    found = {
        direction: epsilon(phases, delta=run.stated_delta, group_size=run.group_size, adjacency=direction)
        for direction in directions
    }
    report(0.3)
    one = epsilon(phases, delta=run.stated_delta, group_size=1, adjacency=run.adjacency)
    report(0.4)
    vadhan = vadhan_epsilons(
        phases,
        delta=run.stated_delta,
        group_sizes=(run.group_size,),
        form="geometric",
        adjacency=run.adjacency,
        intervals=0,  # only its upper bound is stated
        tolerance=1e-6,
    )[0]
    report(0.9)
    return Statement(
        run=run,
        epsilon=Bounds(max(bounds.lower for bounds in found.values()), max(bounds.upper for bounds in found.values())),
        add=found.get("add"),
        remove=found.get("remove"),
        one_example=one,
        vadhan=vadhan,
        old_tool=old_tool_epsilon(phases, delta=run.stated_delta, group_size=run.group_size),
    )


def as_json(statement: Statement) -> dict[str, Any]:
    """Everything in full precision, for machines."""
    run = statement.run
    return {
        "title": run.title,
        "epsilon": _pair(statement.epsilon),
        **({"add": _pair(statement.add)} if statement.add else {}),
        **({"remove": _pair(statement.remove)} if statement.remove else {}),
        "delta": run.stated_delta,
        "group_size": run.group_size,
        "adjacency": run.adjacency,
        "phases": [run_as_json(phase) for phase in run.phases],
        "old_analysis": {
            "one_example": _pair(statement.one_example),
            "vadhan_upper": statement.vadhan.upper,
            "old_tool": statement.old_tool,
        },
        "assumptions": assumptions(run),
    }


def as_markdown(statement: Statement) -> str:
    """The statement as Markdown."""
    run = statement.run
    lines = [f"# Privacy statement: {run.title}", "", f"**{guarantee(statement)}**", "", _meaning_of(statement), ""]
    lines += ["## The run", "", "| phase | batches | noise multiplier | rounds |", "|---|---|---|---|"]
    lines += [
        f"| {number} | {_batches(phase)} | {_plain(phase.noise_multiplier)} | {phase.steps} |"
        for number, phase in enumerate(run.phases, 1)
    ]
    lines += ["", "## What it assumes", ""]
    lines += [f"- {sentence}" for sentence in assumptions(run)]
    lines += ["", "## How it was computed", "", method(statement), "", "## With the old analysis", ""]
    lines += [old_analysis(statement), ""]
    return "\n".join(lines)


def as_text(statement: Statement) -> str:
    """The statement as plain text of 80 columns."""
    run = statement.run

    def paragraph(text: str, first: str = "", then: str = "") -> str:
        return textwrap.fill(
            text,
            width=80,
            initial_indent=first,
            subsequent_indent=then,
            break_long_words=False,
            break_on_hyphens=False,
        )

    blocks = [paragraph(f"PRIVACY STATEMENT: {run.title}"), paragraph(guarantee(statement))]
    blocks.append(paragraph(_meaning_of(statement)))
    phases = [
        paragraph(
            f"phase {number}: {_batches(phase)}; noise multiplier {_plain(phase.noise_multiplier)}; "
            f"{phase.steps} rounds",
            "  ",
            "    ",
        )
        for number, phase in enumerate(run.phases, 1)
    ]
    blocks.append("\n".join(["THE RUN", *phases]))
    assumed = [paragraph(sentence, "  - ", "    ") for sentence in assumptions(run)]
    blocks.append("\n".join(["WHAT IT ASSUMES", *assumed]))
    blocks.append("HOW IT WAS COMPUTED\n" + paragraph(method(statement), "  ", "  "))
    blocks.append("WITH THE OLD ANALYSIS\n" + paragraph(old_analysis(statement), "  ", "  "))
    return "\n\n".join(blocks) + "\n"


def guarantee(statement: Statement) -> str:
    """The one sentence that matters."""
    run = statement.run
    whom = "one example" if run.group_size == 1 else f"any group of up to {run.group_size} examples"
    if statement.epsilon.upper == math.inf:
        return (
            f"No finite epsilon protects {whom} at delta = {_plain(run.stated_delta)} under {run.adjacency} adjacency: "
            "this run gives no differential privacy there."
        )
    return (
        f"The training run is (epsilon, delta)-differentially private for {whom} under {run.adjacency} adjacency, "
        f"with epsilon = {_rounded(statement.epsilon.upper)} and delta = {_plain(run.stated_delta)}."
    )


def _meaning_of(statement: Statement) -> str:
    return meaning(statement.run, guaranteed=statement.epsilon.upper < math.inf)


def meaning(run: RunFile, *, guaranteed: bool = True) -> str:
    """What the sentence means, and for whom it holds."""
    if not guaranteed:
        return (
            f"With a probability above {_plain(run.stated_delta)}, somebody who sees what the run releases becomes "
            f"certain "
            "that a person's examples were used."
        )
    datasets = {
        "add-or-remove": "one is the other plus",
        "add": "the second is the first plus",
        "remove": "the first is the second plus",
    }[run.adjacency]
    return (
        f"For any two datasets of which {datasets} at most {run.group_size} "
        f"example{'' if run.group_size == 1 else 's'}, and any event E about everything the run releases, "
        "P(E on the first) <= e^epsilon P(E on the second) + delta. It holds for every person who has at most "
        f"{run.group_size} example{'' if run.group_size == 1 else 's'} in the dataset, whatever the others have."
    )


def assumptions(run: RunFile) -> list[str]:
    """What must be true of the training for the guarantee to hold."""
    poisson = any(isinstance(phase.sampling, PoissonSampling) for phase in run.phases)
    sizes = sorted(
        {
            phase.sampling.values()["dataset_size"]
            for phase in run.phases
            if not isinstance(phase.sampling, PoissonSampling)
        }
    )
    k = run.group_size
    sentences = [f"No person has more than {k} example{'' if k == 1 else 's'} in the dataset."]
    if poisson:
        sentences.append(
            "Batches marked as Poisson include every example independently with the stated probability, anew in "
            "every round. Shuffling the data and cutting it into batches is not that."
        )
    if sizes:
        sentences.append(
            "Batches marked as fixed are drawn uniformly without replacement from the whole dataset, independently "
            "in every round. Shuffling the data and cutting it into batches is not that."
        )
        sentences.append(
            f"The smaller of the two datasets (without the group) has at least {sizes[-1]} examples; "
            "dataset sizes are public."
        )
    if any(phase.microbatch_size == 1 for phase in run.phases):
        sentences.append(
            "Every example's gradient is clipped to the clipping norm on its own before anything is summed."
        )
    if any(phase.microbatch_size > 1 for phase in run.phases):
        sentences.append(
            "Where microbatches are stated, averages of that many gradients are clipped instead of single ones: one "
            "example then moves a clipped average by up to twice the clipping norm, and the sensitivity is doubled "
            "accordingly (under fixed batches the factor of two is there already)."
        )
    sentences += [
        "In every round, independent Gaussian noise of standard deviation (noise multiplier x clipping norm) is "
        "added to the sum of the batch, by a generator whose output cannot be told from randomness.",
        "Every iterate may be released: all checkpoints are covered, not only the last one.",
        "The data influence nothing else: choices made by looking at them (architecture, hyperparameters, the "
        "stopping round) are not accounted for here.",
    ]
    return sentences


def method(statement: Statement) -> str:
    """How the number came about, and how good it is."""
    run = statement.run
    text = (
        f"groupdp {statement.version}, from the exact pair of distributions that dominates the run (mixture of "
        "Gaussians mechanisms; Ganesh 2024, Theorems 3.1 and 3.3), composed over all rounds, with every error of "
        "discretisation, truncation and rounding bounded."
    )
    if statement.epsilon.upper < math.inf:
        text += (
            f" The smallest epsilon of that pair lies in {statement.epsilon:10}; the upper end, rounded up to "
            f"{DIGITS} digits, is the one stated."
        )
        if all(phase.microbatch_size == 1 for phase in run.phases):
            text += (
                " Some loss and some dataset attain it, so no analysis of all iterates can do better without "
                "assuming more about them."
            )
    if statement.add and statement.remove:
        text += (
            f" By direction: {_rounded(statement.add.upper)} if the group is added, "
            f"{_rounded(statement.remove.upper)} if it is removed."
        )
    if run.stated_delta > 1e-4:
        text += " Note that delta is large: it should be well below one over the number of people."
    return text


def old_analysis(statement: Statement) -> str:
    """What one would have had to state before."""
    run = statement.run
    if run.group_size == 1:
        old = _rounded(statement.old_tool) if statement.old_tool < math.inf else "infinite"
        return f"For single examples the customary Renyi accounting gives epsilon = {old} at the same delta."
    old = (
        f"epsilon = {_rounded(statement.old_tool)}"
        if statement.old_tool < math.inf
        else "epsilon = infinity, because an intermediate delta underflows"
    )
    exact = _rounded(statement.vadhan.upper) if statement.vadhan.upper < math.inf else "infinity"
    return (
        f"For single examples the epsilon is {_rounded(statement.one_example.upper)} at the same delta. Before, a "
        "group's guarantee was derived from the single example's by Vadhan's lemma: with exact arithmetic and the "
        f"best choice of the intermediate delta that gives epsilon = {exact}; with customary Renyi accounting in "
        f"double precision {old}."
    )


def _batches(phase: DPSGD) -> str:
    micro = f", microbatches of {phase.microbatch_size}" if phase.microbatch_size > 1 else ""
    if isinstance(phase.sampling, PoissonSampling):
        return f"Poisson, rate {_plain(phase.sampling.rate)}{micro}"
    values = phase.sampling.values()
    return f"fixed, {values['batch_size']} of {values['dataset_size']}{micro}"


def _pair(bounds: Bounds) -> dict[str, float]:
    return {"lower": bounds.lower, "upper": bounds.upper}


def _rounded(value: float) -> str:
    return round_up(value, DIGITS) if value < math.inf else "infinity"


def _plain(value: float) -> str:
    """A parameter as it was given: the shortest decimal that is this double."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
