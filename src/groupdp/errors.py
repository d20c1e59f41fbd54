"""Every error groupdp raises on purpose.

    GroupDPError
    ├── InvalidArgument (also a ValueError)    the input is not a run, a group or a target
    └── LimitExceeded   (also a RuntimeError)  a valid question that would need more than the stated budget

An invalid argument is one sentence: the argument's name, its value and what would be right.
"""

from __future__ import annotations


class GroupDPError(Exception):
    """The root: catch this to catch whatever groupdp refuses."""


class InvalidArgument(GroupDPError, ValueError):
    """The input does not describe a run, a group or a target."""


class LimitExceeded(GroupDPError, RuntimeError):
    """The question is valid, but answering it would exceed a stated limit of time or memory."""
