"""What `groupdp` alone shows: three commands to begin with."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from groupdp._version import VERSION

FIRST_SCREEN = """\
groupdp: what privacy does a person with k examples have?

To begin with, epsilon, and the run in a file:
  groupdp epsilon --sampling poisson --batch-size 256 \\
      --dataset-size 60000 --epochs 15 \\
      --noise-multiplier 1 --delta 1e-6 --group-size 9 \\
      --save run.toml
What that epsilon means, and the noise for epsilon = 8:
  groupdp statement run.toml --short
  groupdp calibrate noise run.toml --epsilon 8

groupdp --help lists all commands,
groupdp COMMAND --help explains one."""


def version_line() -> str:
    """The answer to --version; it says where the compiled engine is missing."""
    note = "" if has_compiled_engine() else " (without the compiled engine: the lattice engine answers, more slowly)"
    return f"groupdp {VERSION}{note}"


def has_compiled_engine() -> bool:
    """Whether the extension was built, without loading it."""
    folder = Path(__file__).resolve().parents[1] / "engines" / "spectral"
    return any((folder / f"_kernel{suffix}").exists() for suffix in EXTENSION_SUFFIXES)
