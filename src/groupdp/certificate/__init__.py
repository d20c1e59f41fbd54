"""Certificates: a claim about a run's privacy, and a small independent program that proves it.

    reading        a file of unknown origin: bounded before it is used
    laws           the laws a claim is about, rebuilt as exact rationals
    allocations    a group dealt to batches: the law of the sum of squares
    correlated     correlated noise with a banded Toeplitz strategy
    runs           the phases of a run: read, and composed
    one_round      one round in closed form
    noiseless      rounds without noise
    lines          what a contour needs of a round, and how fast a characteristic function falls
    envelope       the same for fixed batches with examples replaced
    tails          how likely large losses of one round are
    lattice        few rounds and rare large losses, by measures on a lattice
    claim_text     what is claimed, in sentences
    checker        proves or refutes a claim, in ball arithmetic; the contour for many rounds
    hints          where the contour should lie, in plain floats
    lattice_hints  how fine and how far a lattice should be
    float_rounds   a round's law in plain floats, for both
    proving        which method is to prove a claim, and what it can prove
    writer         the claim, from a run

The first thirteen import nothing else of groupdp. All need python-flint, the extra `verify`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groupdp.certificate.checker import Verdict as Verdict
    from groupdp.certificate.checker import verify as verify
    from groupdp.certificate.reading import NotACertificate as NotACertificate
    from groupdp.certificate.writer import Certificate as Certificate
    from groupdp.certificate.writer import certify as certify

__all__ = ["Certificate", "NotACertificate", "Verdict", "certify", "verify"]

_HOMES = {
    "Certificate": "writer",
    "NotACertificate": "reading",
    "Verdict": "checker",
    "certify": "writer",
    "verify": "checker",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    try:
        importlib.import_module("flint")
    except ImportError as error:
        raise ImportError("certificates need python-flint: pip install 'groupdp[verify]'") from error
    return getattr(importlib.import_module(f"groupdp.certificate.{_HOMES[name]}"), name)
