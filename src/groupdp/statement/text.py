"""A statement as Markdown, plain text, LaTeX or JSON."""

from __future__ import annotations

import re
import textwrap
from typing import Any

from groupdp.bounds import Bounds
from groupdp.run_file.remarks import remarks_on
from groupdp.statement.numbers import Statement, make_statement
from groupdp.statement.words import assumptions, batches, guarantee, meaning, method, noise_of, old_analysis

__all__ = ["FORMATS", "as_json", "as_latex", "as_markdown", "as_text", "assumptions", "guarantee", "make_statement"]

FORMATS = ("markdown", "text", "latex", "json")
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
        **({} if statement.certificate is None else {"verified_certificate": statement.certificate}),
        "explanation": None if statement.explanation is None else statement.explanation.as_json(),
        "assumptions": assumptions(run),
    }


def as_markdown(statement: Statement) -> str:
    """The statement as Markdown."""
    run = statement.run
    lines = [f"# Privacy statement: {_markdown(run.title)}", "", f"**{_markdown(guarantee(statement))}**", ""]
    lines += [_markdown(_meaning_of(statement)), ""]
    lines += ["## The run", "", "| phase | batches | noise multiplier | rounds |", "|---|---|---|---|"]
    lines += [
        f"| {number} | {_markdown(batches(phase))} | {noise_of(phase)} | {phase.releases} |"
        for number, phase in enumerate(run.phases, 1)
    ]
    if statement.explanation is not None:
        lines += ["", "## What it means for one person", ""]
        lines += [f"- {_markdown(sentence)}" for sentence in statement.explanation.sentences()]
    lines += ["", "## What it assumes", ""]
    lines += [f"- {_markdown(sentence)}" for sentence in assumptions(run)]
    lines += ["", "## How it was computed", "", _markdown(method(statement)), "", "## With the old analysis", ""]
    lines += [_markdown(old_analysis(statement)), ""]
    return "\n".join(lines)


#: What Markdown would take for more than itself: anywhere, or where an underscore does not join two words, a bracket
#: begins a link's address, an angle a tag, an ampersand an entity.
_MARKUP = re.compile(r"[\\`*|~$]|(?<![^\W_])_|_(?![^\W_])|\](?=[(\[])|<(?=[A-Za-z/!?])|&(?=#?\w+;)")


def _markdown(text: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", text)


def as_text(statement: Statement, *, width: int = TEXT_WIDTH) -> str:
    """The statement as plain text in lines of `width`."""
    run = statement.run

    def paragraph(text: str, first: str = "", then: str = "") -> str:
        return textwrap.fill(
            text,
            width=width,
            initial_indent=first,
            subsequent_indent=then,
            break_long_words=False,
            break_on_hyphens=False,
        )

    blocks = [paragraph(f"PRIVACY STATEMENT: {run.title}"), paragraph(guarantee(statement))]
    blocks.append(paragraph(_meaning_of(statement)))
    phases = [
        paragraph(
            f"phase {number}: {batches(phase)}; noise multiplier {noise_of(phase)}; {phase.releases} rounds",
            "  ",
            "    ",
        )
        for number, phase in enumerate(run.phases, 1)
    ]
    blocks.append("\n".join(["THE RUN", *phases]))
    if statement.explanation is not None:
        meant = [paragraph(sentence, "  - ", "    ") for sentence in statement.explanation.sentences()]
        blocks.append("\n".join(["WHAT IT MEANS FOR ONE PERSON", *meant]))
    assumed = [paragraph(sentence, "  - ", "    ") for sentence in assumptions(run)]
    blocks.append("\n".join(["WHAT IT ASSUMES", *assumed]))
    blocks.append("HOW IT WAS COMPUTED\n" + paragraph(method(statement), "  ", "  "))
    blocks.append("WITH THE OLD ANALYSIS\n" + paragraph(old_analysis(statement), "  ", "  "))
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
        rf"{number} & {_latex(batches(phase))} & {noise_of(phase)} & {phase.releases} \\"
        for number, phase in enumerate(run.phases, 1)
    ]
    lines += [r"\end{tabular}", r"\end{center}", ""]
    if statement.explanation is not None:
        lines += [r"\paragraph{What it means for one person.}", r"\begin{itemize}"]
        lines += [rf"\item {_with_mathematics(sentence)}" for sentence in statement.explanation.sentences()]
        lines += [r"\end{itemize}", ""]
    lines += [r"\paragraph{What it assumes.}", r"\begin{itemize}"]
    lines += [rf"\item {_with_mathematics(sentence)}" for sentence in assumptions(run)]
    lines += [r"\end{itemize}", "", rf"\paragraph{{How it was computed.}} {_with_mathematics(method(statement))}", ""]
    lines += [rf"\paragraph{{With the old analysis.}} {_with_mathematics(old_analysis(statement))}", ""]
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
    return "".join([*parts, _latex(sentence[end:])])


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


def _power_of_ten(found: re.Match[str]) -> str:
    power = f"10^{{{int(found[2])}}}"
    return power if found[1] in ("1", "1.0") else rf"{found[1]} \times {power}"


def _latex(text: str) -> str:
    return "".join(_ESCAPES.get(one, one) for one in text).replace(r"$<$=", r"$\le$")


def _meaning_of(statement: Statement) -> str:
    return " ".join([meaning(statement), *remarks_on(statement.run)])


def _pair(bounds: Bounds) -> dict[str, float]:
    return {"lower": bounds.lower, "upper": bounds.upper}
