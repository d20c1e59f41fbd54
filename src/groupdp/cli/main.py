"""The command line: each module listed here adds its commands with `register(app)`."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer
import typer.core

from groupdp._version import VERSION

#: Modules with a function `register(app: typer.Typer) -> None`, in the order of the help.
COMMANDS = (
    "groupdp.cli.guarantees",
    "groupdp.cli.curve",
    "groupdp.cli.calibrate",
    "groupdp.cli.sweep",
    "groupdp.cli.tradeoff",
    "groupdp.cli.count",
    "groupdp.cli.explain",
    "groupdp.cli.people",
    "groupdp.cli.bound",
    "groupdp.cli.audit",
    "groupdp.cli.statement",
    "groupdp.cli.certificate",
    "groupdp.cli.import_run",
    "groupdp.cli.figures",
    "groupdp.cli.serve",
)


class _Text:
    """Takes a value as it is. Newer typers would import pydantic to find out that text is text."""

    def coerce(self, value: Any, **_: Any) -> Any:
        return value


def _take_as_text(parameters: Iterable[Any]) -> None:
    """Spare the start-up a sixth of a second, on the versions of typer where it would cost that."""
    for parameter in parameters:
        if hasattr(parameter, "_runtime_param"):
            parameter._runtime_param = _Text()


class OneSentenceErrors(typer.core.TyperGroup):
    """Prints a wrong use of the command line as one sentence on stderr (exit status 2), without a panel."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _take_as_text(command.get_params(ctx))
        return command

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _take_as_text(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        try:
            status = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
            sys.stdout.flush()
        except (typer.Abort, KeyboardInterrupt):
            status = 130
        except BrokenPipeError:
            _write_no_more()
            status = 141  # as if the signal had ended us: whoever reads the answer has had enough of it
        except OSError as error:
            if error.filename is not None:
                raise  # about a file, which the commands themselves look after: a bug keeps its traceback
            _write_no_more()
            typer.echo(f"The answer could not be written to the standard output: {error.strerror}.", err=True)
            status = 2
        except Exception as error:
            if not hasattr(error, "format_message"):
                raise  # a bug keeps its traceback
            sentence = " ".join(error.format_message().split())
            typer.echo(sentence or "Give a command: groupdp --help lists them.", err=True)
            status = 2
        status = status if isinstance(status, int) else 0
        if standalone_mode:
            sys.exit(status)
        return status


def _write_no_more() -> None:
    """What is left of an output that cannot be written goes nowhere, instead of failing once more at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _version(value: bool) -> None:
    if value:
        typer.echo(f"groupdp {VERSION}")
        raise typer.Exit


def build_app() -> typer.Typer:
    """The application, with every command."""
    app = typer.Typer(
        name="groupdp",
        cls=OneSentenceErrors,
        help="Certified group-level differential privacy for DP-SGD: what privacy does a person with k examples have?",
        no_args_is_help=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def common(
        version: Annotated[
            bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
        ] = False,
    ) -> None:
        pass

    for name in COMMANDS:
        importlib.import_module(name).register(app)
    return app


def main() -> None:
    """The entry point of the `groupdp` script."""
    build_app()()


if __name__ == "__main__":
    main()
