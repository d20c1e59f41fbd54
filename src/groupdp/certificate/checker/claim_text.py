"""The claim of a certificate in sentences, to be printed beside every verdict.

Every number is printed as the certificate spells it. Texts of unknown origin are quoted, so that they cannot imitate
lines of the report.
"""

from __future__ import annotations

import json
import re
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

from flint import fmpq

from groupdp.certificate.checker.reading import number

_PLAIN = re.compile(r"[\w.+-]{1,90}", re.ASCII)


def headline(outcome: str, claim: dict[str, Any]) -> str:
    """The outcome, the interval with both widths unless it is a point, and delta, in one line."""
    sides = claim["epsilon"]
    if sides["lower"] == "infinity":
        return f"{outcome}: no finite epsilon at delta = {claim['delta']}"
    apart, relative = widths(claim).values()
    if apart != "0":
        outcome += f" (width {apart})" if apart == "infinity" else f" (width {apart}, relative width {relative})"
    return f"{outcome}: epsilon in [{sides['lower']}, {sides['upper']}] at delta = {claim['delta']}"


def in_plain_words(outcome: str, claim: dict[str, Any]) -> str:
    """The outcome for a reader who has to decide."""
    if outcome == "refuted":
        return "In plain words: the claim is false. Do not rely on it."
    if outcome != "verified":
        return "In plain words: the claim could be neither proved nor refuted. Do not rely on it before it is proved."
    upper, person = claim["epsilon"]["upper"], _protected(claim)
    if upper == "infinity":
        return f"In plain words: it is proved that nothing is promised to {person}."
    most = Context(prec=4, rounding=ROUND_CEILING).create_decimal(upper)
    return (
        "In plain words: a second program, which shares nothing with the one that made the claim, has proved that "
        f"the privacy loss (epsilon) of {person} is at most {most:f}."
    )


def _protected(claim: dict[str, Any]) -> str:
    """Whom the claim is about, for a reader who has to decide."""
    unit, own = _unit(claim), any("group_size" in phase for phase in claim["run"])
    if claim["adjacency"] == "removed-and-added":
        return f"a change that removes {_text(claim['removed'])} {unit} and adds {_text(claim['added'])}"
    most = "the stated number of" if own else _text(claim["group_size"])
    where = " in each phase" if own else ""
    if unit == "people":
        return "one person" if most == "1" else f"a group of at most {most} people{where}"
    return "a person with one example" if most == "1" else f"a person with at most {most} examples{where}"


def _unit(claim: dict[str, Any]) -> str:
    """What the group size counts."""
    return "people" if all(str(phase.get("sampling")).endswith("-people") for phase in claim["run"]) else "examples"


def widths(claim: dict[str, Any]) -> dict[str, str]:
    """`width`, epsilon.upper - epsilon.lower, and `relative_width`, that over epsilon.upper.

    Both are rounded up to two digits; both are "infinity" where there is no upper side.
    """
    lower, upper = (claim["epsilon"][side] for side in ("lower", "upper"))
    if lower == upper or upper == "infinity":
        return dict.fromkeys(("width", "relative_width"), "0" if lower == upper else "infinity")
    low, high = (number(side, "epsilon", 0, fmpq(10) ** 400) for side in (lower, upper))
    return {"width": _rounded_up(high - low), "relative_width": _rounded_up((high - low) / high if high else high)}


def _rounded_up(value: fmpq) -> str:
    rounded = Context(prec=2, rounding=ROUND_CEILING).divide(Decimal(int(value.p)), Decimal(int(value.q)))
    return f"{rounded:f}" if -5 < rounded.adjusted() < 16 else f"{rounded:e}"


def sentences(claim: dict[str, Any], *, verified: bool) -> list[str]:
    """For whom, under which adjacency, about which run, and whether tight or only valid."""
    what = _unit(claim)
    if claim["adjacency"] == "removed-and-added":
        whom = f"for {_text(claim['removed'])} {what} removed and {_text(claim['added'])} added, in either order"
    else:
        own = any("group_size" in phase for phase in claim["run"])
        size = f"groups of up to {_text(claim['group_size'])} {what}"
        if claim["group_size"] == 1:
            size = f"one {'person' if what == 'people' else 'example'} (group size 1)"
        size += ", or the group_size of a phase that has one" if own else ""
        whom = f"for {size}, adjacency {claim['adjacency']}"
    lines = [whom]
    for index, phase in enumerate(claim["run"], 1):
        parts = (f"{name} = {_text(value)}" for name, value in phase.items())
        lines.append(f"phase {index}: {', '.join(parts)}")
    if not claim["tight"]:
        lines.append("valid, not claimed to be tight: a lower side is about this analysis only")
    elif verified:
        lines.append("tight: some loss and datasets attain the analysis (C-1)")
    else:
        lines.append("said to be tight")
    return lines


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(str(name))}: {_text(part)}" for name, part in value.items()) + "}"
    return value if isinstance(value, str) and _PLAIN.fullmatch(value) else json.dumps(value)
