"""The command line: its entry point, its first screen, and what it writes to.

`application` has which module has which command; `command` declares commands, `options` their options; `asked` reads
those about a run and is the run and the question that a command gets; `output` prints.

Nothing slow is imported before the entry point runs, so that Ctrl-C is clean from its first line on.
"""

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES

from groupdp._version import VERSION

__all__ = ["main"]

FIRST_SCREEN = """\
groupdp: what privacy does a person with k examples have?

Compute epsilon, and save the run to a file:
  groupdp epsilon --sampling poisson --batch-size 256 \\
      --dataset-size 60000 --epochs 15 \\
      --noise-multiplier 1 --delta 1e-6 --group-size 9 \\
      --save run.toml
Say what it means, and find the noise for epsilon = 8:
  groupdp statement run.toml --short
  groupdp calibrate noise run.toml --epsilon 8

groupdp --help lists all commands,
groupdp COMMAND --help explains one."""


def main() -> None:
    """The entry point of the `groupdp` script."""
    import signal

    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual:  # while modules are loaded there is nothing to clean up
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    check_streams()
    # A shell asks for completions without arguments.
    if sys.argv[1:] in ([], ["--version"]) and "_GROUPDP_COMPLETE" not in os.environ:
        sys.exit(printed(version_line() if sys.argv[1:] else FIRST_SCREEN))
    import gc

    gc.set_threshold(200_000, 20, 20)  # looking for cycles in what modules have made takes a tenth of a command's time
    from groupdp.cli.application import build_app

    application = build_app()
    try:
        if usual:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        application()
    except KeyboardInterrupt:
        sys.exit(130)


def version_line() -> str:
    """The answer to --version; it says where the compiled engine is missing."""
    note = "" if has_compiled_engine() else " (without the compiled engine: the lattice engine answers, more slowly)"
    return f"groupdp {VERSION}{note}"


def has_compiled_engine() -> bool:
    """Whether the extension was built, without loading it."""
    kernel = os.path.join(os.path.dirname(os.path.dirname(__file__)), "engines", "spectral", "_kernel")
    return any(os.path.exists(f"{kernel}{suffix}") for suffix in EXTENSION_SUFFIXES)


def check_streams() -> None:
    """End with one sentence if the standard output is closed; replace a closed standard error by the null device.

    Descriptor 2 must be open: the next file that is opened would get it, and with it what libraries print to stderr.
    """
    if sys.stderr is None:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        if descriptor != 2:  # the input or the output is closed as well
            os.dup2(descriptor, 2)
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        print("The standard output is closed: there is nowhere to write the answer to.", file=sys.stderr)
        sys.exit(2)


def printed(text: str) -> int:
    """Print an answer; the exit status. A closed pipe is not an error."""
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
    """Discard the rest of an output that cannot be written: flushing it at exit would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
