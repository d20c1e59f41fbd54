"""Certificates: a claim about a run's privacy, and a small independent program that proves it.

`checker` imports nothing else of groupdp; `prover` writes claims and hints. Both need python-flint, the extra `verify`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groupdp.certificate.checker import Verdict as Verdict
    from groupdp.certificate.checker import verify as verify
    from groupdp.certificate.checker.reading import NotACertificate as NotACertificate
    from groupdp.certificate.prover import Certificate as Certificate
    from groupdp.certificate.prover import certify as certify

__all__ = ["Certificate", "NotACertificate", "Verdict", "certify", "verify"]

_HOMES = {
    "Certificate": "prover",
    "NotACertificate": "checker.reading",
    "Verdict": "checker",
    "certify": "prover",
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
