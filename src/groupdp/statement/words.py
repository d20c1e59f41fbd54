"""The sentences of a statement: whom it is for, what it means, what it assumes, how it was computed.

Every epsilon in them is an upper bound, rounded up.
"""

from __future__ import annotations

import math

from groupdp.bounds import Bounds
from groupdp.groups import in_words
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.mechanisms.mechanism import Mechanism
from groupdp.neighbours import DIRECTIONS, SAME_SIZE
from groupdp.printing import given, round_down, upper_text
from groupdp.run_file.read import RunFile
from groupdp.statement.explain import DIGITS
from groupdp.statement.numbers import Statement


def guarantee(statement: Statement) -> str:
    """The formal guarantee."""
    run = statement.run
    delta, relation, whom = given(run.stated_delta), run.neighbours.label, run.neighbours.whom
    if statement.epsilon.upper == math.inf:
        return (
            f"No finite epsilon protects {whom} at delta = {delta} under {relation}: "
            "this run gives no differential privacy there."
        )
    return (
        f"The training run is (epsilon, delta)-differentially private for {whom} under {relation}, "
        f"with epsilon = {rounded(statement.epsilon.upper)} and delta = {delta}."
    )


def meaning(statement: Statement) -> str:
    """What the sentence means, and for whom it holds."""
    run = statement.run
    if statement.epsilon.upper == math.inf:
        becomes = "becomes" if statement.epsilon.tight else "may become"
        return (
            f"With a probability above {given(run.stated_delta)}, somebody who sees what the run releases {becomes} "
            f"certain {run.neighbours.cases.revealed}."
        )
    return (
        f"For any two datasets of which {run.neighbours.relation}, and any event E about everything the run releases, "
        "P(E on the first) <= e^epsilon P(E on the second) + delta. It holds for every person who has at most "
        f"{in_words(run.neighbours.largest_group)} in the dataset, whatever the others have."
    )


def assumptions(run: RunFile) -> list[str]:
    """What must be true of the training for the guarantee to hold."""
    sentences = [f"No person has more than {in_words(run.neighbours.largest_group)} in the dataset."]
    for phase in run.training:
        sentences += phase.sampling.assumptions(microbatches=phase.in_microbatches)
    if any(change.keeps_places for change in run.neighbours.changes):
        sentences.append("The sum of clipped gradients is divided by a number that does not depend on the data.")
    sentences += _dataset_sizes(run)
    sentences += (sentence for phase in run.phases for sentence in phase.assumptions())
    sentences.append(
        "The data influence nothing else: choices made by looking at them (architecture, hyperparameters, the "
        "stopping round) are not accounted for here."
    )
    return list(dict.fromkeys(sentences))


def _dataset_sizes(run: RunFile) -> list[str]:
    """How large the datasets must be; a sampling for which a larger one may leak more has said so exactly."""
    sizes = {
        phase.sampling.values().get("dataset_size", 0)
        for phase in run.training
        if phase.sampling.leaks_most_where_smallest
    } - {0}
    if not sizes:
        return []
    if run.adjacency not in SAME_SIZE:
        least = f"The smaller of the two datasets (without the group) has at least {max(sizes)} examples"
        return [f"{least}; dataset sizes are public."]
    many = f"{max(sizes)} examples" if len(sizes) == 1 else "as many examples as each phase states"
    return [f"Either dataset has {many}; dataset sizes are public."]


def method(statement: Statement) -> str:
    """How the number came about, and how good it is."""
    text = (
        f"groupdp {statement.version}, from the pair of distributions that dominates the run (mixture of Gaussians "
        "mechanisms; Ganesh 2024, extended to pairs of opposed mixtures), composed over all rounds, with every error "
        "of discretisation, truncation and rounding bounded."
    )
    if statement.epsilon.upper < math.inf:
        text += (
            f" The smallest epsilon of that pair lies in {statement.epsilon:10}; the upper end, rounded up to "
            f"{DIGITS} digits, is the one stated."
        )
        text += (
            " Some loss and some dataset attain it, so no analysis of all iterates can do better without assuming "
            "more about them."
            if statement.epsilon.tight
            else " The guarantee is valid and not claimed to be tight: a better analysis may prove less."
        )
    if statement.certificate is not None and statement.proved is not None:
        text += (
            " Verified independently: a program in exact ball arithmetic that shares no code with the accountant has "
            f"proved that it lies in [{', '.join(statement.proved)}], from the certificate with SHA-256 digest "
            f"{statement.certificate}."
        )
    if set(statement.changes) == set(DIRECTIONS):
        text += (
            f" By direction: {rounded(statement.changes['add'].upper)} if the group is added, "
            f"{rounded(statement.changes['remove'].upper)} if it is removed."
        )
    if statement.run.stated_delta > 1e-4:
        text += " Note that delta is large: it should be well below one over the number of people."
    return text


def old_analysis(statement: Statement) -> str:
    """What one would have had to state before."""
    if statement.poisson_claim is not None:
        return (
            "Accounted as Poisson sampling, as is often done, this run would claim epsilon = "
            f"{rounded(statement.poisson_claim.upper)}. That is not a guarantee: its batches are not sampled like that."
        )
    if statement.vadhan is None or statement.old_tool is None or statement.one_example is None:
        return "There was no analysis of such runs for groups before."
    finite = statement.old_tool < math.inf
    if statement.run.group_size == 1:
        old = rounded(statement.old_tool) if finite else "infinite"
        return f"For single examples the customary Renyi accounting gives epsilon = {old} at the same delta."
    noiseless = any(phase.noise_multiplier == 0.0 and phase.steps > 0 for phase in statement.run.training)
    reason = "without noise Renyi divergences are infinite" if noiseless else "an intermediate delta underflows"
    infinite = f"epsilon = infinity, because {reason}"
    old = f"epsilon = {rounded(statement.old_tool)}" if finite else infinite
    return (
        f"For single examples the epsilon is {rounded(statement.one_example.upper)} at the same delta. Before, a "
        "group's guarantee was derived from the single example's by Vadhan's lemma: with exact arithmetic and the "
        f"best choice of the intermediate delta that gives {_lemma(statement.vadhan)}; with "
        f"customary Renyi accounting in double precision {old}."
    )


def _lemma(bounds: Bounds) -> str:
    """What the lemma gives, or the interval that it is known to be in."""
    if bounds.provenance.tolerance_met:
        return f"epsilon = {rounded(bounds.upper)}"
    return (
        f"an epsilon that is only known to lie between {round_down(bounds.lower, DIGITS)} and {rounded(bounds.upper)}"
    )


def batches(phase: Mechanism) -> str:
    """How a phase chooses its batches, or what else it releases."""
    if not isinstance(phase, DPSGD):
        return phase.describe()
    micro = f", microbatches of {phase.microbatch_size}" if phase.in_microbatches else ""
    return f"{phase.sampling.describe()}{micro}"


def noise_of(phase: Mechanism) -> str:
    """The noise multiplier of a phase of DP-SGD; another mechanism's description says its own."""
    return given(phase.noise_multiplier) if isinstance(phase, DPSGD) else "-"


def rounded(value: float) -> str:
    """An epsilon, rounded up."""
    return upper_text(value, DIGITS)
