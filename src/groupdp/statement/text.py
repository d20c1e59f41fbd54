"""A statement in sentences: whom it is for, what it means, what it assumes, how it was computed.

Every epsilon in it is an upper bound, rounded up.
"""

from __future__ import annotations

import math

from groupdp.bounds import Bounds
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.mechanisms.mechanism import Wrapper
from groupdp.neighbours import DIRECTIONS, SAME_SIZE
from groupdp.printing import counted, given, round_down, upper_text
from groupdp.run_file.run import RunFile, remarks_on, stated, with_sizes_stated
from groupdp.statement.numbers import DIGITS, Statement


def guarantee(statement: Statement) -> str:
    """The formal guarantee."""
    run = statement.run
    delta, relation, whom = given(run.stated_delta), run.neighbours.label, run.neighbours.whom
    if statement.epsilon.upper == math.inf and run.looked:
        return (
            f"No guarantee is stated for {_subject(statement)}: parameters were chosen after looking at earlier "
            "outcomes, and no budget that was fixed beforehand covers the releases."
        )
    if statement.epsilon.upper == math.inf:
        return (
            f"No finite epsilon protects {whom} at delta = {delta} under {relation}: "
            f"{_subject(statement)} gives no differential privacy there."
        )
    subject = _subject(statement)
    return (
        f"{subject[0].upper()}{subject[1:]} is (epsilon, delta)-differentially private for {whom} under {relation}, "
        f"with epsilon = {rounded(statement.epsilon.upper)} and delta = {delta}."
    )


def meaning(statement: Statement) -> str:
    """What the sentence means, and for whom it holds."""
    run = statement.run
    if statement.epsilon.upper == math.inf and run.looked:
        return "What was released cannot be taken back; a larger budget holds only for a ledger that begins with it."
    if statement.epsilon.upper == math.inf:
        becomes = "becomes" if statement.epsilon.tight else "may become"
        return (
            f"With a probability above {given(run.stated_delta)}, somebody who sees what the run releases {becomes} "
            f"certain {run.neighbours.cases.revealed}."
        )
    return (
        f"For any two datasets of which {run.neighbours.relation}, and any event E about everything the run releases, "
        f"P(E on the first) <= e^epsilon P(E on the second) + delta. It holds for {_protected(run)}, whatever the "
        "others have."
    )


def meaning_of(statement: Statement) -> str:
    """What the guarantee means, and what is to be noted about the run."""
    return " ".join([meaning(statement), *remarks_on(statement.run)])


def sections(statement: Statement) -> list[tuple[str, list[str], bool]]:
    """After the guarantee and the run: each heading, its sentences, and whether they are a list."""
    explained, data = statement.explanation, statement.run.data
    return [
        *([] if data is None else [("The data", data.sentences(), True)]),
        *([] if explained is None else [("What it means for one person", explained.sentences(), True)]),
        ("What it assumes", assumptions(statement.run), True),
        ("How it was computed", [method(statement)], False),
        ("Earlier methods", [old_analysis(statement)], False),
    ]


def _subject(statement: Statement) -> str:
    return "the training run" if statement.ledger is None else f"{statement.run.title} about {statement.ledger.covers}"


def _choices(statement: Statement) -> str:
    """Which of a ledger's two figures is stated, and why."""
    ledger, filtered = statement.ledger, statement.filtered
    if ledger is None or filtered is None:
        return ""
    needed = "no filter" if filtered.upper == math.inf else f"a filter with a budget of {rounded(filtered.upper)}"
    if not ledger.looked:
        return (
            "The parameters of every release were fixed before the data were looked at: the releases are composed. Had "
            f"they been chosen after looking at earlier outcomes, {needed} fixed beforehand would have let them pass. "
        )
    budget = "none" if ledger.epsilon is None else given(ledger.epsilon)
    return (
        "Parameters of some releases were chosen after looking at earlier outcomes. Then only the budget of a Renyi "
        f"filter is a guarantee, if it was fixed beforehand and lets all of them pass: {budget} was fixed when the "
        f"ledger was made, and the releases so far need {needed}. "
    )


def _of_people(run: RunFile) -> bool:
    return run.neighbours.unit == "person"


def _many(run: RunFile) -> str:
    return "people" if _of_people(run) else "examples"


def _protected(run: RunFile) -> str:
    """Whose data may differ."""
    if run.neighbours.words:
        return run.neighbours.whom
    count = run.neighbours.counted(run.neighbours.largest_group)
    if not _of_people(run):
        return f"every person who has at most {count} in the dataset"
    return "every person" if run.neighbours.largest_group == 1 else f"any {count} together"


def assumptions(run: RunFile) -> list[str]:
    """What must be true of the training for the guarantee to hold."""
    count = run.neighbours.counted(run.neighbours.largest_group)
    sentences = [] if _of_people(run) or run.neighbours.words else [f"No person has more than {count} in the dataset."]
    for phase in run.training:
        sentences += phase.sampling.assumptions(microbatches=phase.in_microbatches)
    if any(change.keeps_places for change in run.neighbours.changes):
        sentences.append("The sum of clipped gradients is divided by a number that does not depend on the data.")
    if run.several_owners:
        sentences.append(
            "Records have several owners: who owns which record is public and the same in both datasets, which records "
            "are used depends on that and on a seed alone, and what is protected is their contents."
        )
    sentences += _dataset_sizes(run)
    sentences += (sentence for phase in run.phases for sentence in phase.assumptions())
    sentences.append(
        "The data influence nothing else: choices made by looking at them (architecture, hyperparameters, the "
        "stopping round) are not accounted for here."
        if not run.looked
        else "The data influence parameters by the outcomes of earlier releases alone."
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
    what = _many(run)
    if run.adjacency not in SAME_SIZE:
        least = f"The smaller of the two datasets (without the group) has at least {max(sizes)} {what}"
        return [f"{least}; dataset sizes are public."]
    many = f"{max(sizes)} {what}" if len(sizes) == 1 else f"as many {what} as each phase states"
    return [f"Either dataset has {many}; dataset sizes are public."]


def method(statement: Statement) -> str:
    """How the number was computed, and how tight it is."""
    text = (
        f"{_choices(statement)}groupdp {statement.version}, from the pair of distributions that dominates the run "
        "(mixture of Gaussians mechanisms; Ganesh 2024, extended to pairs of opposed mixtures), composed over all "
        "rounds, with every error of discretisation, truncation and rounding bounded."
    )
    if statement.epsilon.upper < math.inf and not statement.run.looked:
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
    """What earlier methods give."""
    if statement.poisson_claim is not None:
        return (
            "Accounted as Poisson sampling, as is often done, this run would claim epsilon = "
            f"{rounded(statement.poisson_claim.upper)}. That is not a guarantee: its batches are not Poisson samples."
        )
    if statement.vadhan is None or statement.old_tool is None or statement.one_example is None:
        return "Earlier methods have no bound for groups in such a run."
    finite = statement.old_tool < math.inf
    if statement.run.group_size == 1:
        old = rounded(statement.old_tool) if finite else "infinite"
        return (
            f"For single {_many(statement.run)} the customary Renyi accounting gives epsilon = {old} at the same delta."
        )
    noiseless = any(phase.noise_multiplier == 0.0 and phase.steps > 0 for phase in statement.run.training)
    reason = "without noise Renyi divergences are infinite" if noiseless else "an intermediate delta underflows"
    infinite = f"epsilon = infinity, because {reason}"
    old = f"epsilon = {rounded(statement.old_tool)}" if finite else infinite
    return (
        f"For single {_many(statement.run)} the epsilon is {rounded(statement.one_example.upper)} at the same delta. "
        "Earlier methods derive a group's guarantee from that by Vadhan's lemma: with exact arithmetic and the best "
        f"intermediate delta this gives {_lemma(statement.vadhan)}; with customary Renyi accounting in double "
        f"precision, {old}."
    )


def _lemma(bounds: Bounds) -> str:
    """What the lemma gives, or the interval that it is known to be in."""
    if bounds.provenance.tolerance_met:
        return f"epsilon = {rounded(bounds.upper)}"
    return (
        f"an epsilon that is only known to lie between {round_down(bounds.lower, DIGITS)} and {rounded(bounds.upper)}"
    )


def batches(run: RunFile, index: int) -> str:
    """How a phase chooses its batches, by the sizes that it was given by; or what else it releases."""
    phase = run.phases[index]
    inner = Wrapper.innermost(phase)
    if not isinstance(inner, DPSGD):
        return phase.describe()
    micro = f", microbatches of {inner.microbatch_size}" if inner.in_microbatches else ""
    chosen = phase.describe().replace(inner.describe(), f"{inner.sampling.describe()}{micro}")
    return with_sizes_stated(chosen, phase, stated(run, index))


def noise_of(run: RunFile, index: int) -> str:
    """The noise multiplier of a phase of DP-SGD; empty for other mechanisms, whose description states the noise."""
    inner = Wrapper.innermost(run.phases[index])
    return given(inner.noise_multiplier) if isinstance(inner, DPSGD) else ""


def phase_rows(run: RunFile) -> list[tuple[str, str, str, str]]:
    """The table of the phases: number, batches, noise multiplier, rounds."""
    return [
        (str(i + 1), batches(run, i), noise_of(run, i) or "-", counted(phase.releases))
        for i, phase in enumerate(run.phases)
    ]


def rounded(value: float) -> str:
    """An epsilon, rounded up."""
    return upper_text(value, DIGITS)
