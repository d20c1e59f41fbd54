"""The standard streams of a command: closed from the start, or closed by whoever has read enough."""

from __future__ import annotations

import os
import sys

_CLOSED = "The standard output is closed: there is nowhere to write the answer to."


def check_streams() -> None:
    """End in one sentence where there is no standard output; a missing standard error says nothing.

    Its number must be taken: the next file that is opened would get it, and whatever a library complains of.
    """
    if sys.stderr is None:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        if descriptor != 2:  # the input or the output is closed as well
            os.dup2(descriptor, 2)
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        print(_CLOSED, file=sys.stderr)
        sys.exit(2)


def printed(text: str) -> int:
    """Print an answer; the exit status. A reader who has gone had enough of it."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        write_no_more()
    except OSError as error:
        return not_written(error)
    return 0


def not_written(error: OSError) -> int:
    """Say why the answer is not there; the exit status."""
    write_no_more()
    print(f"The answer could not be written to the standard output: {error.strerror}.", file=sys.stderr)
    return 2


def write_no_more() -> None:
    """What is left of an output that cannot be written goes nowhere, instead of failing once more at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
