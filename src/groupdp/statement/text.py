"""A statement in sentences: whom it is for, what it means, what it assumes, how it was computed; in four formats.

Every epsilon in it is an upper bound, rounded up.
"""

from __future__ import annotations

import json
import math
import re
import textwrap
from typing import Any

from groupdp.bounds import Bounds
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.mechanisms.mechanism import Mechanism
from groupdp.neighbours import DIRECTIONS, SAME_SIZE
from groupdp.printing import counted, given, grouped, round_down, upper_text
from groupdp.run_file.read import RunFile
from groupdp.run_file.write import remarks_on, stated, with_sizes_stated
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


def _subject(statement: Statement) -> str:
    return "the training run" if statement.ledger is None else statement.run.title


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
    """How the number came about, and how good it is."""
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
        return (
            f"For single {_many(statement.run)} the customary Renyi accounting gives epsilon = {old} at the same delta."
        )
    noiseless = any(phase.noise_multiplier == 0.0 and phase.steps > 0 for phase in statement.run.training)
    reason = "without noise Renyi divergences are infinite" if noiseless else "an intermediate delta underflows"
    infinite = f"epsilon = infinity, because {reason}"
    old = f"epsilon = {rounded(statement.old_tool)}" if finite else infinite
    return (
        f"For single {_many(statement.run)} the epsilon is {rounded(statement.one_example.upper)} at the same delta. "
        "Before, a group's guarantee was derived from that by Vadhan's lemma: with exact arithmetic and the "
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


def batches(run: RunFile, index: int) -> str:
    """How a phase chooses its batches, by the sizes that it was given by; or what else it releases."""
    phase = run.phases[index]
    if not isinstance(phase, DPSGD):
        return phase.describe()
    micro = f", microbatches of {phase.microbatch_size}" if phase.in_microbatches else ""
    return with_sizes_stated(f"{phase.sampling.describe()}{micro}", phase, stated(run, index))


def noise_of(phase: Mechanism) -> str:
    """The noise multiplier of a phase of DP-SGD; another mechanism's description says its own."""
    return given(phase.noise_multiplier) if isinstance(phase, DPSGD) else "-"


def rounded(value: float) -> str:
    """An epsilon, rounded up."""
    return upper_text(value, DIGITS)


#: Columns of a statement as plain text.
TEXT_WIDTH = 80


def as_json(statement: Statement) -> dict[str, Any]:
    """Everything in full precision, for machines."""
    run = statement.run
    claim = statement.poisson_claim
    return {
        "title": run.title,
        "epsilon": _pair(statement.epsilon),
        "tight": statement.epsilon.tight,
        **{name: _pair(bounds) for name, bounds in statement.changes.items()},
        "delta": run.stated_delta,
        **run.keywords,
        "phases": [phase.values() for phase in run.phases],
        "old_analysis": {
            "one_example": None if statement.one_example is None else _pair(statement.one_example),
            "vadhan_lower": None if statement.vadhan is None else statement.vadhan.lower,
            "vadhan_upper": None if statement.vadhan is None else statement.vadhan.upper,
            "old_tool": statement.old_tool,
        },
        **({} if claim is None else {"poisson_claim_not_a_guarantee": claim.upper}),
        **(
            {}
            if statement.filtered is None or statement.ledger is None
            else {"filter": statement.filtered.upper, "figure": "filter" if run.looked else "composed"}
        ),
        **(
            {}
            if statement.filtered is None
            else {"filter": statement.filtered.upper, "figure": "filter" if run.looked else "composed"}
        ),
        **({} if statement.certificate is None else {"verified_certificate": statement.certificate}),
        **({} if run.data is None else {"data": json.loads(run.data.text())}),
        "explanation": None if statement.explanation is None else statement.explanation.as_json(),
        "assumptions": assumptions(run),
    }


def _sections(statement: Statement) -> list[tuple[str, list[str], bool]]:
    """After the guarantee and the run: each heading, its sentences, and whether they are a list."""
    explained = statement.explanation
    data = statement.run.data
    return [
        *([] if data is None else [("The data", data.sentences(), True)]),
        *([] if explained is None else [("What it means for one person", explained.sentences(), True)]),
        ("What it assumes", assumptions(statement.run), True),
        ("How it was computed", [method(statement)], False),
        ("With the old analysis", [old_analysis(statement)], False),
    ]


def as_markdown(statement: Statement) -> str:
    """The statement as Markdown."""
    run = statement.run
    lines = [f"# Privacy statement: {_escaped(run.title)}", "", f"**{_markdown(guarantee(statement))}**", ""]
    lines += [_markdown(_meaning_of(statement)), ""]
    lines += ["## The run", "", "| phase | batches | noise multiplier | rounds |", "|---|---|---|---|"]
    lines += [
        f"| {index + 1} | {_markdown(batches(run, index))} | {noise_of(phase)} | {counted(phase.releases)} |"
        for index, phase in enumerate(run.phases)
    ]
    for heading, sentences, listed in _sections(statement):
        lines += ["", f"## {heading}", "", *(f"{'- ' if listed else ''}{_markdown(one)}" for one in sentences)]
    return "\n".join([*lines, ""])


#: What Markdown would take for more than itself: anywhere, or where an underscore does not join two words, a bracket
#: begins a link's address, an angle a tag, an ampersand an entity.
_MARKUP = re.compile(r"[\\`*|~$]|(?<![^\W_])_|_(?![^\W_])|\](?=[(\[])|<(?=[A-Za-z/!?])|&(?=#?\w+;)")


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", text)


def _markdown(sentence: str) -> str:
    return _escaped(grouped(sentence))


def as_text(statement: Statement, *, width: int = TEXT_WIDTH) -> str:
    """The statement as plain text in lines of `width`."""
    run = statement.run

    def filled(text: str, first: str = "", then: str = "") -> str:
        return textwrap.fill(
            text,
            width=width,
            initial_indent=first,
            subsequent_indent=then,
            break_long_words=False,
            break_on_hyphens=False,
        ).replace("\u00a0", " ")

    def paragraph(text: str, first: str = "", then: str = "") -> str:
        return filled(grouped(text, space="\u00a0"), first, then)

    blocks = [filled(f"PRIVACY STATEMENT: {run.title}"), paragraph(guarantee(statement))]
    blocks.append(paragraph(_meaning_of(statement)))
    phases = [
        paragraph(
            f"phase {index + 1}: {batches(run, index)}; noise multiplier {noise_of(phase)}; {phase.releases} rounds",
            "  ",
            "    ",
        )
        for index, phase in enumerate(run.phases)
    ]
    blocks.append("\n".join(["THE RUN", *phases]))
    for heading, sentences, listed in _sections(statement):
        texts = [paragraph(one, *(("  - ", "    ") if listed else ("  ", "  "))) for one in sentences]
        blocks.append("\n".join([heading.upper(), *texts]))
    return "\n\n".join(blocks) + "\n"


def as_latex(statement: Statement) -> str:
    """The statement as a LaTeX fragment: a subsection that needs no package."""
    run = statement.run
    lines = [rf"\subsection*{{Privacy statement: {_latex(run.title)}}}", ""]
    lines += [
        rf"\textbf{{{_with_mathematics(guarantee(statement))}}}",
        "",
        _with_mathematics(_meaning_of(statement)),
        "",
    ]
    lines += [r"\begin{center}", r"\begin{tabular}{llrr}", r"phase & batches & noise multiplier & rounds \\ \hline"]
    lines += [
        rf"{index + 1} & {_latex(batches(run, index))} & {noise_of(phase)} & {_thin(phase.releases)} \\"
        for index, phase in enumerate(run.phases)
    ]
    lines += [r"\end{tabular}", r"\end{center}", ""]
    for heading, sentences, listed in _sections(statement):
        texts = [_with_mathematics(one) for one in sentences]
        if listed:
            lines += [rf"\paragraph{{{heading}.}}", r"\begin{itemize}", *(rf"\item {one}" for one in texts)]
            lines += [r"\end{itemize}", ""]
        else:
            lines += [rf"\paragraph{{{heading}.}} {' '.join(texts)}", ""]
    return "\n".join(lines)


_ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
}


#: What is set as a formula in LaTeX: the definition, an equation, a power, a bare symbol, a number like 1e-06.
_FORMULA = re.compile(
    r"P\(E on the first\) <= e\^epsilon P\(E on the second\) \+ delta"
    r"|\(epsilon, delta\)"
    r"|\b(?:epsilon|delta) = (?:\d[\d.]*(?:e[+-]?\d+)?\b|infinity\b)"
    r"|\be\^[\d.]*\d"
    r"|\b(?:epsilon|delta)\b"
    r"|\b\d[\d.]*e[+-]?\d+\b"
    r"|(?<=noise multiplier )x(?= clipping norm)"
)


def _with_mathematics(sentence: str) -> str:
    """A sentence of ours in LaTeX, its formulas set as such."""
    parts, end = [], 0
    for found in _FORMULA.finditer(sentence):
        parts += [_latex(sentence[end : found.start()]), f"${_formula(found[0])}$"]
        end = found.end()
    return grouped("".join([*parts, _latex(sentence[end:])]), space=r"\,")


def _formula(text: str) -> str:
    if text == "x":
        return r"\times"
    for ours, theirs in ((" on the first", r" \mbox{ on the first}"), (" on the second", r" \mbox{ on the second}")):
        text = text.replace(ours, theirs)
    text = re.sub(r"e\^(epsilon|[\d.]+)", r"e^{\1}", text)
    text = re.sub(r"\b(\d[\d.]*)e([+-]?\d+)\b", _power_of_ten, text)
    text = re.sub(r"\bepsilon\b", r"\\varepsilon", text)
    text = re.sub(r"\bdelta\b", r"\\delta", text)
    return text.replace("<=", r"\le").replace("infinity", r"\infty")


def _thin(number: int) -> str:
    return counted(number).replace(" ", r"\,")


def _power_of_ten(found: re.Match[str]) -> str:
    power = f"10^{{{int(found[2])}}}"
    return power if found[1] in ("1", "1.0") else rf"{found[1]} \times {power}"


def _latex(text: str) -> str:
    return "".join(_ESCAPES.get(one, one) for one in text).replace(r"$<$=", r"$\le$")


#: How a statement is written, by the name of the format; JSON is not a text.
FORMATS = {"markdown": as_markdown, "text": as_text, "latex": as_latex}
#: The format of what it means for one person alone.
SHORT = "short"


def _meaning_of(statement: Statement) -> str:
    return " ".join([meaning(statement), *remarks_on(statement.run)])


def _pair(bounds: Bounds) -> dict[str, float]:
    return {"lower": bounds.lower, "upper": bounds.upper}
