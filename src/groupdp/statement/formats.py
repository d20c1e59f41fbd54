"""A statement as JSON, Markdown, plain text and LaTeX."""

from __future__ import annotations

import json
import re
import textwrap
from typing import Any

from groupdp.printing import grouped, sides
from groupdp.statement.numbers import Statement
from groupdp.statement.text import assumptions, batches, guarantee, meaning_of, noise_of, phase_rows, sections

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
        "assumptions": assumptions(run),
    }


def as_markdown(statement: Statement) -> str:
    """The statement as Markdown."""
    run = statement.run
    lines = [f"# Privacy statement: {_escaped(run.title)}", "", f"**{_markdown(guarantee(statement))}**", ""]
    lines += [_markdown(meaning_of(statement)), ""]
    lines += ["## The run", "", "| phase | batches | noise multiplier | rounds |", "|---|---|---|---|"]
    lines += [
        f"| {number} | {_markdown(what)} | {noise} | {rounds} |" for number, what, noise, rounds in phase_rows(run)
    ]
    for heading, sentences, listed in sections(statement):
        lines += [
            "",
            f"## {heading}",
            "",
            *(f"{'- ' if listed else ''}{_markdown(sentence)}" for sentence in sentences),
        ]
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

    def apart(text: str) -> str:
        return grouped(text, space="\u00a0")

    blocks = [f"PRIVACY STATEMENT: {run.title}", apart(guarantee(statement)), apart(meaning_of(statement))]
    blocks = [filled(block) for block in blocks]
    phases = []
    for i, phase in enumerate(run.phases):
        noise = f"; noise multiplier {noise_of(run, i)}" if noise_of(run, i) else ""
        rounds = f"{phase.releases} round{'' if phase.releases == 1 else 's'}"
        phases.append(filled(apart(f"phase {i + 1}: {batches(run, i)}{noise}; {rounds}"), "  ", "    "))
    blocks.append("\n".join(["THE RUN", *phases]))
    for heading, sentences, listed in sections(statement):
        texts = [filled(apart(sentence), *(("  - ", "    ") if listed else ("  ", "  "))) for sentence in sentences]
        blocks.append("\n".join([heading.upper(), *texts]))
    return "\n\n".join(blocks) + "\n"


def as_latex(statement: Statement) -> str:
    """The statement as a LaTeX fragment: a subsection that needs no package."""
    run = statement.run
    lines = [rf"\subsection*{{Privacy statement: {_latex(run.title)}}}", ""]
    lines += [
        rf"\textbf{{{_with_mathematics(guarantee(statement))}}}",
        "",
        _with_mathematics(meaning_of(statement)),
        "",
    ]
    lines += [r"\begin{center}", r"\begin{tabular}{llrr}", r"phase & batches & noise multiplier & rounds \\ \hline"]
    for number, what, noise, rounds in phase_rows(run):
        lines.append(" & ".join((number, _latex(what), noise, rounds.replace(" ", r"\,"))) + r" \\")
    lines += [r"\end{tabular}", r"\end{center}", ""]
    for heading, sentences, listed in sections(statement):
        texts = [_with_mathematics(sentence) for sentence in sentences]
        if listed:
            lines += [rf"\paragraph{{{heading}.}}", r"\begin{itemize}", *(rf"\item {text}" for text in texts)]
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
