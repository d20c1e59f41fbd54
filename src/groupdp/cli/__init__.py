"""The command line: which module has which command is in `application.py`.

`command` declares commands, `options` their options; `asked` reads those about a run and is the run and the question
that a command gets; `output` prints, `process` has the streams and signals.

Nothing is imported before the entry point runs, so that Ctrl-C is clean from its first line on.
"""

__all__ = ["main"]


def main() -> None:
    """The entry point of the `groupdp` script."""
    import os
    import signal
    import sys

    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual:  # while modules are loaded there is nothing to clean up
        signal.signal(signal.SIGINT, _leave)
    from groupdp.cli.process import FIRST_SCREEN, check_streams, printed, version_line

    check_streams()
    arguments = sys.argv[1:]
    if (
        arguments in ([], ["--version"]) and "_GROUPDP_COMPLETE" not in os.environ
    ):  # a shell asks for completions without arguments
        sys.exit(printed(version_line() if arguments else FIRST_SCREEN))
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


def _leave(*_: object) -> None:
    import os

    os._exit(130)
