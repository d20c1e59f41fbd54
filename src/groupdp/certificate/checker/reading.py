"""A certificate of unknown origin: every value is checked and bounded before it is used, and the claim in sentences.

Sentences print every number as the certificate spells it. Texts of unknown origin are quoted, so that they cannot
imitate lines of a report.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

from flint import fmpq

#: Largest file in bytes, and largest group, number of steps, dataset, number of phases.
LARGEST_FILE, LARGEST_GROUP, LARGEST_STEPS, LARGEST_DATASET, MOST_PHASES = 1_000_000, 1_000, 10**9, 10**15, 16
_DECIMAL = re.compile(r"\d{1,30}(\.\d{1,40})?(e[+-]?\d{1,3})?", re.ASCII)
_PLAIN = re.compile(r"[\w.+-]{1,90}", re.ASCII)
_HEXADECIMAL = re.compile(r"0x([01])\.([0-9a-f]{1,13})p([+-]\d{1,4})", re.ASCII)


class NotACertificate(ValueError):
    """The file is not a certificate, or claims something that has no meaning here."""


class Undecided(Exception):
    """Neither the claim nor its opposite could be proved; says what was missing."""


class Clock:
    """Counts the steps of a proof, none of which takes long; raises Undecided beyond a number of them, or of seconds.

    Steps end a proof at the same place on every machine, however busy it is; seconds do not.
    """

    def __init__(self, seconds: float = math.inf, steps: float = math.inf) -> None:
        self.seconds, self.steps, self.done = seconds, steps, 0
        self.end = time.monotonic() + seconds

    def check(self) -> None:
        """Count a step; raise if it is one too many, or if the time is over."""
        self.done += 1
        if self.done > self.steps:
            raise Undecided(f"a proof was not found within {self.steps:.0f} steps")
        if self.seconds < math.inf and time.monotonic() > self.end:
            self.is_over()

    def is_over(self) -> None:
        """The time is over."""
        raise Undecided(f"a proof was not found within {self.seconds:g} seconds")


def read(text: str | bytes) -> dict[str, Any]:
    """The JSON object in `text`; no repeated names, no NaN, at most LARGEST_FILE bytes."""
    if len(text) > LARGEST_FILE:
        raise NotACertificate(f"a certificate has at most {LARGEST_FILE} bytes, this one has {len(text)}.")

    def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise NotACertificate("a certificate must not say the same thing twice: a name is repeated.")
        return dict(pairs)

    try:
        certificate = json.loads(text, object_pairs_hook=table, parse_constant=lambda name: table([(name, 0)] * 2))
    except NotACertificate:
        raise
    except (ValueError, RecursionError) as error:
        raise NotACertificate(
            f"a certificate is a JSON object, and this is not JSON ({type(error).__name__})."
        ) from None
    if not isinstance(certificate, dict) or (certificate.get("format"), repr(certificate.get("version"))) != (
        "groupdp certificate",
        "1",
    ):
        raise NotACertificate('a certificate says "format": "groupdp certificate" and "version": 1.')
    return certificate


def digest(certificate: dict[str, Any]) -> str:
    """SHA-256 of the canonical JSON: sorted names, no spaces."""
    return hashlib.sha256(json.dumps(certificate, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def fields(value: Any, where: str, required: set[str], optional: set[str]) -> dict[str, Any]:
    """`value` as a table with exactly these names."""
    if not isinstance(value, dict) or not required <= value.keys() <= required | optional:
        raise NotACertificate(f"{where} must be a table of {', '.join(sorted(required))} (and nothing unknown).")
    return value


def number(value: Any, where: str, low: Any, high: Any) -> fmpq:
    """The exact rational that a string spells, as a decimal or a hexadecimal float, within [low, high]."""
    spelled = value if isinstance(value, str) and len(value) < 90 else ""
    if match := _HEXADECIMAL.fullmatch(spelled):
        whole, part, exponent = match.groups()
        exact = fmpq(int(whole + part, 16)) * fmpq(2) ** (int(exponent) - 4 * len(part))
    elif _DECIMAL.fullmatch(spelled):
        digits, _, exponent = spelled.partition("e")
        whole, _, part = digits.partition(".")
        exact = fmpq(int(whole + part), 1) * fmpq(10) ** (int(exponent or 0) - len(part))
    else:
        raise NotACertificate(f"{where} must be a string that spells a number, such as '0.01' or '0x1.8p-3'.")
    if not low <= exact <= high:
        raise NotACertificate(f"{where} must be from {_decimal(low)} to {_decimal(high)}, got {spelled}.")
    return exact


def _decimal(value: Any) -> str:
    """A rational in six digits; an integer in full."""
    exact = fmpq(value) if not isinstance(value, fmpq) else value
    return str(exact.p) if exact.q == 1 else f"{Decimal(int(exact.p)) / Decimal(int(exact.q)):.6g}"


def integer(value: Any, where: str, low: int, high: int) -> int:
    """`value` if it is an integer in [low, high]."""
    if type(value) is not int or not low <= value <= high:
        raise NotACertificate(f"{where} must be an integer from {low} to {high}.")
    return value


def hint(table: Any, name: str, low: float, high: float) -> float:
    """A hint: a finite number in [low, high]. Hints decide whether a proof succeeds, never what it proves."""
    value = table.get(name) if isinstance(table, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise Undecided(f"the hint {name} must be a number from {low:g} to {high:g}")
    return float(value)


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
