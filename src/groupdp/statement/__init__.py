"""A run's privacy statement for reviewers: its numbers, each of them certified, and the formats it is written in.

What it says in sentences is in text.py.
"""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from groupdp._version import VERSION
from groupdp.baselines import old_tool_epsilon, poisson_claim, vadhan_epsilons
from groupdp.bounds import Bounds
from groupdp.engines import Progress
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords
from groupdp.guarantees import epsilon
from groupdp.ledger import Ledger
from groupdp.neighbours import ONE_SIDED
from groupdp.printing import grouped, sides
from groupdp.run_file import RunFile
from groupdp.statement import text
from groupdp.tradeoff import trade_off


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What a statement says, before it is put into words."""

    run: RunFile
    epsilon: Bounds
    one_example: Bounds | None = None
    vadhan: Bounds | None = None
    """Vadhan's lemma; None if it does not cover the run."""
    old_tool: float | None = None
    poisson_claim: Bounds | None = None
    """What Poisson accounting would claim for a run without Poisson samples: not a guarantee."""
    explanation: text.Explanation | None = None
    """What epsilon means for one person; None if the curve takes long (`statement --short` computes it)."""
    ledger: Ledger | None = None
    """The ledger whose releases the statement covers."""
    filtered: Bounds | None = None
    """The smallest budget with which a filter admits all entries of the ledger."""
    certificate: str | None = None
    """The digest of a certificate of this very claim that the independent checker has verified."""
    proved: tuple[str, str] | None = None
    """The interval of epsilon that the certificate claims, which may be wider."""
    version: str = VERSION

    @property
    def changes(self) -> Mapping[str, Bounds]:
        """The ordered changes of the adjacency one by one, where there are several."""
        changes = self.epsilon.provenance.directions
        several = len(changes) > 1 and not self.run.looked
        return {name: Bounds(*changes[name]) for name in sorted(changes)} if several else {}


def make_statement(
    run: RunFile,
    *,
    certificate: str | bytes | None = None,
    ledger: Ledger | None = None,
    progress: Progress | None = None,
) -> Statement:
    """Compute what the statement says; `certificate` is the text of one, which must be of this claim and verify.

    `ledger` is the ledger that `run` was read from.
    """
    if run.looked:
        return _by_filter(run, ledger, certificate)
    report = progress if progress is not None else (lambda _: None)
    if run.group_size is None and run.removed is None and run.added is None:
        needed = "be given for a statement: the most examples that one person has"
        raise InvalidArgument("group_size", NOT_SHOWN, needed)
    run.require_covered()
    phases = list(run.phases)
    bounds = epsilon(phases, delta=run.stated_delta, every_change=True, **run.keywords)
    report(0.3)
    single = claim = None
    about: dict[str, Any] = {"delta": run.stated_delta, "adjacency": run.adjacency}
    if isinstance(run.group_size, int):
        claim = poisson_claim(phases, group_size=run.group_size, **about)
        claim = claim if claim is None or claim.upper < bounds.upper else None
        single = None if run.neighbours.words else epsilon(phases, group_size=1, **about)
    report(0.4)
    vadhan, old_tool = _old_analysis(run)
    report(0.5)
    explanation = None
    if not trade_off(phases, **run.keywords).is_costly:
        explanation = text.explain(
            phases,
            delta=run.stated_delta,
            certified=bounds,
            progress=lambda fraction: report(0.5 + 0.4 * fraction),
            **run.keywords,
        )
    report(0.9)
    verified, proved = (None, None) if certificate is None else _verified(run, certificate)
    return Statement(
        run=run,
        epsilon=bounds,
        one_example=single,
        vadhan=vadhan,
        old_tool=old_tool,
        poisson_claim=claim,
        explanation=explanation,
        ledger=ledger,
        filtered=None if ledger is None else ledger.filtered(),
        certificate=verified,
        proved=proved,
    )


def _by_filter(run: RunFile, ledger: Ledger | None, certificate: str | bytes | None) -> Statement:
    """For parameters chosen after looking: epsilon is the budget, or infinity if it is exceeded or was not fixed."""
    if ledger is None:
        raise InvalidArgument("run", InWords("parameters chosen after looking"), "come with its ledger")
    if certificate is not None:
        raise InvalidArgument("certificate", NOT_SHOWN, "be left out: a filter's figure has none")
    filtered = ledger.filtered()
    passes = ledger.epsilon is not None and filtered.upper <= ledger.epsilon
    upper = ledger.epsilon if passes and ledger.epsilon is not None else math.inf
    stated = Bounds(0.0, upper, filtered.provenance, tight=False)
    return Statement(run=run, epsilon=stated, ledger=ledger, filtered=filtered)


def _verified(run: RunFile, proof: str | bytes) -> tuple[str, tuple[str, str]]:
    """The digest of a certificate and its epsilons, once it is known to be about this run and to verify."""
    from groupdp.certificate import NotACertificate, verify
    from groupdp.certificate.checker.reading import read
    from groupdp.certificate.prover import claim_of

    question = {"group_size": None, "adjacency": run.adjacency, **run.keywords}
    try:
        claim = read(proof)["claim"]
        expected = claim_of(list(run.phases), delta=run.stated_delta, **question)
        if {key: claim.get(key) for key in expected} != expected:
            needed = "be about the run, group and delta of the statement"
            raise InvalidArgument("certificate", InWords("one of another claim"), needed)
        verdict = verify(proof)
    except (NotACertificate, KeyError, TypeError, AttributeError) as error:
        raise InvalidArgument("certificate", InWords(f"something else ({error})"), "be a groupdp certificate") from None
    if verdict.outcome != "verified":
        raise InvalidArgument("certificate", InWords(verdict.outcome), "verify", verdict.reason or "")
    return verdict.digest, (claim["epsilon"]["lower"], claim["epsilon"]["upper"])


def _old_analysis(run: RunFile) -> tuple[Bounds | None, float | None]:
    """Vadhan's lemma on the exact curve and in TensorFlow Privacy's arithmetic; None for runs that neither covers."""
    if not isinstance(run.group_size, int) or run.adjacency not in ONE_SIDED or run.neighbours.words:
        return None, None
    phases = list(run.phases)
    try:
        vadhan = vadhan_epsilons(
            phases, delta=run.stated_delta, group_sizes=(run.group_size,), form="geometric", adjacency=run.adjacency
        )[0]
        return vadhan, old_tool_epsilon(phases, delta=run.stated_delta, group_size=run.group_size)
    except InvalidArgument:
        return None, None


#: Columns of a statement as plain text.
TEXT_WIDTH = 80


def as_json(statement: Statement) -> dict[str, Any]:
    """Everything in full precision, for machines."""
    run = statement.run
    claim = statement.poisson_claim
    return {
        "title": run.title,
        "epsilon": sides(statement.epsilon),
        "tight": statement.epsilon.tight,
        **{name: sides(bounds) for name, bounds in statement.changes.items()},
        "delta": run.stated_delta,
        **run.keywords,
        "phases": [phase.values() for phase in run.phases],
        "old_analysis": {
            "one_example": None if statement.one_example is None else sides(statement.one_example),
            "vadhan_lower": None if statement.vadhan is None else statement.vadhan.lower,
            "vadhan_upper": None if statement.vadhan is None else statement.vadhan.upper,
            "old_tool": statement.old_tool,
        },
        **({} if claim is None else {"poisson_claim_not_a_guarantee": claim.upper}),
        **(
            {}
            if statement.filtered is None
            else {"filter": statement.filtered.upper, "figure": "filter" if run.looked else "composed"}
        ),
        **({} if statement.certificate is None else {"verified_certificate": statement.certificate}),
        **({} if run.data is None else {"data": json.loads(run.data.text())}),
        "explanation": None if statement.explanation is None else statement.explanation.as_json(),
        "assumptions": text.assumptions(run),
    }


def as_markdown(statement: Statement) -> str:
    """The statement as Markdown."""
    lines = [f"# Privacy statement: {_escaped(statement.run.title)}", "", f"**{_markdown(text.guarantee(statement))}**"]
    lines += ["", _markdown(text.meaning(statement)), "", "## The run", ""]
    lines += ["| phase | batches | noise multiplier | rounds |", "|---|---|---|---|"]
    for number, what, noise, rounds in text.phase_rows(statement.run):
        lines.append(f"| {number} | {_markdown(what)} | {noise or '-'} | {rounds} |")
    for heading, sentences, listed in text.sections(statement):
        mark = "- " if listed else ""
        lines += ["", f"## {heading}", "", *(f"{mark}{_markdown(sentence)}" for sentence in sentences)]
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

    def filled(sentence: str, first: str = "", then: str = "") -> str:
        lines = textwrap.TextWrapper(width, initial_indent=first, subsequent_indent=then)
        lines.break_long_words = lines.break_on_hyphens = False
        return lines.fill(grouped(sentence, space="\u00a0")).replace("\u00a0", " ")

    phases = []
    for number, what, noise, rounds in text.phase_rows(statement.run):
        noise = f"; noise multiplier {noise}" if noise else ""
        rounds = f"{rounds.replace(' ', '')} round{'' if rounds == '1' else 's'}"
        phases.append(filled(f"phase {number}: {what}{noise}; {rounds}", "  ", "    "))
    title = f"PRIVACY STATEMENT: {statement.run.title}"
    blocks = [textwrap.fill(title, width, break_long_words=False, break_on_hyphens=False)]
    blocks += [filled(text.guarantee(statement)), filled(text.meaning(statement)), "\n".join(["THE RUN", *phases])]
    for heading, sentences, listed in text.sections(statement):
        indents = ("  - ", "    ") if listed else ("  ", "  ")
        blocks.append("\n".join([heading.upper(), *(filled(sentence, *indents) for sentence in sentences)]))
    return "\n\n".join(blocks) + "\n"


def as_latex(statement: Statement) -> str:
    """The statement as a LaTeX fragment: a subsection that needs no package."""
    lines = [rf"\subsection*{{Privacy statement: {_latex(statement.run.title)}}}", ""]
    lines += [rf"\textbf{{{_with_mathematics(text.guarantee(statement))}}}", ""]
    lines += [_with_mathematics(text.meaning(statement)), "", r"\begin{center}", r"\begin{tabular}{llrr}"]
    lines.append(r"phase & batches & noise multiplier & rounds \\ \hline")
    for number, what, noise, rounds in text.phase_rows(statement.run):
        lines.append(" & ".join((number, _latex(what), noise or "-", rounds.replace(" ", r"\,"))) + r" \\")
    lines += [r"\end{tabular}", r"\end{center}", ""]
    for heading, sentences, listed in text.sections(statement):
        texts = [_with_mathematics(sentence) for sentence in sentences]
        if listed:
            lines += [rf"\paragraph{{{heading}.}}", r"\begin{itemize}", *(rf"\item {sentence}" for sentence in texts)]
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
    for formula in _FORMULA.finditer(sentence):
        parts += [_latex(sentence[end : formula.start()]), f"${_formula(formula[0])}$"]
        end = formula.end()
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


def _power_of_ten(number: re.Match[str]) -> str:
    power = f"10^{{{int(number[2])}}}"
    return power if number[1] in ("1", "1.0") else rf"{number[1]} \times {power}"


def _latex(text: str) -> str:
    return "".join(_ESCAPES.get(character, character) for character in text).replace(r"$<$=", r"$\le$")


#: How a statement is written, by the name of the format; JSON is not a text.
FORMATS = {"markdown": as_markdown, "text": as_text, "latex": as_latex}
#: The format of what it means for one person alone.
SHORT = "short"
