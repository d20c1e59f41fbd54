"""A statement in sentences: whom it is for, what it means, what it assumes, how it was computed.

Every epsilon in it is an upper bound, rounded up. Sentences explain an epsilon to one person by an attacker with a
stated prior and rate of false alarms, who sees everything the run releases, and knows all but which of two cases it was
(neighbours.py). The numbers bound the best attack (tradeoff/risk.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from groupdp import printing
from groupdp.bounds import Bounds
from groupdp.engines import Progress
from groupdp.guarantees import epsilon
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.mechanisms.mechanism import Wrapper
from groupdp.neighbours import DIRECTIONS, SAME_SIZE, TwoCases
from groupdp.printing import counted, given, given_percent, sides, upper_text
from groupdp.question import neighbours_of
from groupdp.run_file.run import RunFile, remarks_on, stated, with_sizes_stated
from groupdp.samplings.sampling import DIVIDED_BY_A_CONSTANT
from groupdp.tradeoff.risk import Risk, risk

if TYPE_CHECKING:
    from groupdp.statement import Statement

#: Significant digits of an epsilon in a sentence.
DIGITS = 6


def guarantee(statement: Statement) -> str:
    """The formal guarantee."""
    run = statement.run
    delta, relation, whom = given(run.stated_delta), run.neighbours.label, run.neighbours.whom
    ledger = statement.ledger
    subject = "the training run" if ledger is None else f"{run.title} about {ledger.covers}"
    if statement.epsilon.upper == math.inf and run.looked:
        return (
            f"No guarantee is stated for {subject}: parameters were chosen after looking at earlier outcomes, and no "
            "budget that was fixed beforehand covers the releases."
        )
    if statement.epsilon.upper == math.inf:
        return (
            f"No finite epsilon protects {whom} at delta = {delta} under {relation}: {subject} is not "
            "differentially private at this delta."
        )
    return (
        f"{subject[0].upper()}{subject[1:]} is (epsilon, delta)-differentially private for {whom} under {relation}, "
        f"with epsilon = {rounded(statement.epsilon.upper)} and delta = {delta}."
    )


def meaning(statement: Statement) -> str:
    """What the guarantee means, for whom it holds, and remarks on the run."""
    return " ".join([_meaning(statement), *remarks_on(statement.run)])


def _meaning(statement: Statement) -> str:
    run = statement.run
    if statement.epsilon.upper == math.inf and run.looked:
        return "Releases cannot be taken back. A larger budget needs a new ledger, in which it is fixed from the start."
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


def _choices(statement: Statement) -> str:
    """Which of a ledger's two figures is stated, and why."""
    ledger, filtered = statement.ledger, statement.filtered
    if ledger is None or filtered is None:
        return ""
    needed = "no filter is enough"
    if filtered.upper < math.inf:
        needed = f"a filter needs a budget of {rounded(filtered.upper)}, fixed beforehand"
    if not ledger.looked:
        return (
            "The parameters of every release were fixed before the data were looked at, so the releases are composed. "
            f"For parameters chosen after looking at earlier outcomes {needed}. "
        )
    budget = "none" if ledger.epsilon is None else given(ledger.epsilon)
    return (
        "Parameters of some releases were chosen after looking at earlier outcomes. Then only the budget of a Renyi "
        f"filter is a guarantee, if it was fixed beforehand and lets all of them pass: {budget} was fixed when the "
        f"ledger was made, and for the releases so far {needed}. "
    )


def _protected(run: RunFile) -> str:
    """Whose data may differ."""
    if run.neighbours.words:
        return run.neighbours.whom
    count = run.neighbours.counted(run.neighbours.largest_group)
    if run.neighbours.unit != "person":
        return f"every person who has at most {count} in the dataset"
    return "every person" if run.neighbours.largest_group == 1 else f"any {count} together"


def _many(run: RunFile) -> str:
    return "people" if run.neighbours.unit == "person" else "examples"


def assumptions(run: RunFile) -> list[str]:
    """What must be true of the training for the guarantee to hold."""
    sentences = []
    if run.neighbours.unit != "person" and not run.neighbours.words:
        most = run.neighbours.counted(run.neighbours.largest_group)
        sentences.append(f"No person has more than {most} in the dataset.")
    for phase in run.training:
        sentences += phase.sampling.assumptions(microbatches=phase.in_microbatches)
    if any(change.keeps_places for change in run.neighbours.changes):
        sentences.append(DIVIDED_BY_A_CONSTANT)
    if run.several_owners:
        sentences.append(
            "Records have several owners: who owns which record is public and the same in both datasets, which records "
            "are used depends on that and on a seed alone, and what is protected is their contents."
        )
    sentences += _dataset_sizes(run)
    sentences += (sentence for phase in run.phases for sentence in phase.assumptions())
    sentences.append(
        "The data influence the parameters only through the outcomes of earlier releases."
        if run.looked
        else "Nothing else depends on the data: choices made after looking at them (architecture, hyperparameters, the "
        "stopping round) are not accounted for here."
    )
    return list(dict.fromkeys(sentences))


def _dataset_sizes(run: RunFile) -> list[str]:
    """How large the datasets must be; a sampling for which a larger one may leak more has said so exactly."""
    samplings = [phase.sampling for phase in run.training if phase.sampling.leaks_most_where_smallest]
    sizes = {sampling.values().get("dataset_size", 0) for sampling in samplings} - {0}
    if not sizes:
        return []
    if run.adjacency not in SAME_SIZE:
        has = f"The smaller of the two datasets (without the group) has at least {max(sizes)} {_many(run)}"
    else:
        many = f"{max(sizes)} {_many(run)}" if len(sizes) == 1 else f"as many {_many(run)} as each phase states"
        has = f"Either dataset has {many}"
    return [f"{has}; dataset sizes are public."]


_TIGHT = (
    "Some loss and some dataset attain this value, so no analysis that releases all iterates can prove a smaller one "
    "without further assumptions."
)
_VALID = "The guarantee is valid and not claimed to be tight: a better analysis may prove a smaller epsilon."


def method(statement: Statement) -> str:
    """How the number was computed, and how tight it is."""
    text = (
        f"{_choices(statement)}groupdp {statement.version} computed it from the pair of distributions that dominates "
        "the run (mixture of Gaussians mechanisms; Ganesh 2024, extended to pairs of opposed mixtures), composed over "
        "all rounds. Every error of discretisation, truncation and rounding is bounded."
    )
    if statement.epsilon.upper < math.inf and not statement.run.looked:
        text += (
            f" The smallest epsilon of that pair lies in {statement.epsilon:10}; the stated epsilon is the upper end, "
            f"rounded up to {DIGITS} digits. {_TIGHT if statement.epsilon.tight else _VALID}"
        )
    if statement.certificate is not None and statement.proved is not None:
        text += (
            " Verified independently: a program in ball arithmetic that shares no code with the accountant has proved "
            f"that the epsilon lies in [{', '.join(statement.proved)}], from the certificate with SHA-256 digest "
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
            "Poisson accounting, which is often used for such runs, would claim epsilon = "
            f"{rounded(statement.poisson_claim.upper)}. That is not a guarantee, because the run's batches are not "
            "Poisson samples."
        )
    if statement.vadhan is None or statement.old_tool is None or statement.one_example is None:
        return "Earlier methods have no bound for groups in such a run."
    finite, single = statement.old_tool < math.inf, f"For one {statement.run.neighbours.unit}"
    if statement.run.group_size == 1:
        old = rounded(statement.old_tool) if finite else "infinite"
        return f"{single} the usual Renyi accounting gives epsilon = {old} at the same delta."
    noiseless = any(phase.noise_multiplier == 0.0 and phase.steps > 0 for phase in statement.run.training)
    reason = "without noise Renyi divergences are infinite" if noiseless else "an intermediate delta underflows"
    infinite = f"epsilon = infinity, because {reason}"
    old = f"epsilon = {rounded(statement.old_tool)}" if finite else infinite
    return (
        f"{single} the epsilon is {rounded(statement.one_example.upper)} at the same delta. "
        "Earlier methods derive a group's guarantee from this by Vadhan's lemma: with exact arithmetic and the best "
        f"intermediate delta this gives {_lemma(statement.vadhan)}; with the usual Renyi accounting in double "
        f"precision, {old}."
    )


def _lemma(bounds: Bounds) -> str:
    """What the lemma gives, or the interval that it is known to be in."""
    if bounds.provenance.tolerance_met:
        return f"epsilon = {rounded(bounds.upper)}"
    lower = printing.round_down(bounds.lower, DIGITS)
    return f"an epsilon that is only known to lie between {lower} and {rounded(bounds.upper)}"


def _batches(run: RunFile, index: int) -> str:
    """How a phase chooses its batches, by the sizes that it was given by; or what else it releases."""
    phase = run.phases[index]
    inner = Wrapper.innermost(phase)
    if not isinstance(inner, DPSGD):
        return phase.describe()
    micro = f", microbatches of {inner.microbatch_size}" if inner.in_microbatches else ""
    chosen = phase.describe().replace(inner.describe(), f"{inner.sampling.describe()}{micro}")
    return with_sizes_stated(chosen, phase, stated(run, index))


def phase_rows(run: RunFile) -> list[tuple[str, str, str, str]]:
    """(number, batches, noise multiplier, rounds) of every phase; the description of other mechanisms has the noise."""
    rows = []
    for i, phase in enumerate(run.phases):
        inner = Wrapper.innermost(phase)
        noise = given(inner.noise_multiplier) if isinstance(inner, DPSGD) else ""
        rows.append((str(i + 1), _batches(run, i), noise, counted(phase.releases)))
    return rows


def rounded(value: float) -> str:
    """An epsilon, rounded up."""
    return upper_text(value, DIGITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The numbers behind the sentences."""

    epsilon: Bounds
    delta: float
    prior: float
    false_alarm_rate: float
    risk: Risk
    cases: TwoCases
    """The two cases that are compared; an alarm claims the first."""

    def sentences(self) -> list[str]:
        """What epsilon means, in five sentences; upper bounds are rounded up."""
        caught = self.risk.true_positive_rate[self.false_alarm_rate].upper
        belief = self.risk.posterior[self.false_alarm_rate].upper
        rate, known = given_percent(self.false_alarm_rate), max(self.prior, 1.0 - self.prior)
        # How often the better of two guesses is right before the release, for the decimal that was given.
        right = given_percent(self.prior if self.prior >= 0.5 else float(printing.complement(self.prior)))
        if self.epsilon.upper < math.inf:
            first = f"{self.cases.likely(_factor(self.epsilon.upper), given(self.delta))}."
        else:
            first = f"The release may give away {self.cases.revealed}, with a probability above {given(self.delta)}."
        return [
            first,
            self.cases.detected(rate, _share(caught, guessed=self.false_alarm_rate)),
            f"An attacker who is {given_percent(self.prior)} sure beforehand that {self.cases.first}, and raises "
            f"false alarms in {rate} of the other cases, is at most {_share(belief, guessed=self.prior)} sure after an "
            "alarm. An attacker with fewer false alarms may be surer.",
            f"Without the release, the best guess between the two cases is right in {right} of the cases; with it, in "
            f"at most {_share(self.risk.success.upper, guessed=known, text=right)}.",
            self.cases.order(),
        ]

    def as_json(self) -> dict[str, Any]:
        """The numbers, in full precision."""
        rate = self.false_alarm_rate
        return {
            "epsilon": sides(self.epsilon),
            "tight": self.epsilon.tight,
            "delta": self.delta,
            "prior": self.prior,
            "false_alarm_rate": rate,
            "detected": sides(self.risk.true_positive_rate[rate]),
            "posterior": sides(self.risk.posterior[rate]),
            "right_guess": sides(self.risk.success),
            "advantage": sides(self.risk.advantage),
            "sentences": self.sentences(),
        }


def explain(
    run: Any,
    *,
    delta: float,
    prior: float = 0.5,
    false_alarm_rate: float = 0.01,
    certified: Bounds | None = None,
    progress: Progress | None = None,
    **neighbours: Any,
) -> Explanation:
    """What the run's epsilon at `delta`, which `certified` is if it is known, means for one person.

    `neighbours` as for `epsilon`.
    """
    rate = float(false_alarm_rate)
    return Explanation(
        epsilon=epsilon(run, delta=delta, **neighbours) if certified is None else certified,
        delta=delta,
        prior=prior,
        false_alarm_rate=rate,
        risk=risk(run, prior=prior, false_positive_rates=(rate,), progress=progress, **neighbours),
        cases=neighbours_of(run, **neighbours).cases,
    )


def _factor(epsilon: float) -> str:
    """e^epsilon, rounded up: in digits where these say something, else as a power of ten."""
    if epsilon > 60.0:
        return f"10^{math.floor(epsilon / 2.302585) + 1}"  # the divisor is below log(10)
    if epsilon <= 0.0:
        return "1"
    return printing.round_up(math.nextafter(math.exp(epsilon) * (1.0 + 1e-15), math.inf), 3)


def _share(value: float, *, guessed: float, text: str = "") -> str:
    """A probability as a percentage, rounded up; `guessed`, as it was given, where it is not above that."""
    return (text or given_percent(guessed)) if value <= guessed else printing.upper_percent(min(value, 1.0))
