"""What `groupdp` alone shows: three commands to begin with."""

from __future__ import annotations

from groupdp._version import VERSION

FIRST_SCREEN = """\
groupdp: what privacy does a person with k examples have?  To begin with:

  groupdp epsilon --sampling poisson --batch-size 256 --dataset-size 60000 \\
      --epochs 15 --noise-multiplier 1 --delta 1e-6 --group-size 9 \\
      --save run.toml                      epsilon, and the run in a file
  groupdp explain run.toml                 what that epsilon means
  groupdp calibrate noise run.toml --epsilon 8    the noise for epsilon = 8

groupdp --help lists all commands, groupdp COMMAND --help explains one."""


def version_line() -> str:
    """The answer to --version."""
    return f"groupdp {VERSION}"
