"""The application: which module has which command, and how a command ends."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
import typer.core

from groupdp.cli import FIRST_SCREEN, not_written, printed, version_line, write_no_more
from groupdp.cli.command import add_commands

#: The commands of every panel of the help, each with the module that declares it.
PANELS = {
    "The number": {
        "epsilon": "guarantees",
        "delta": "guarantees",
        "curve": "curves",
        "calibrate": "guarantees",
        "sweep": "curves",
        "spend": "curves",
        "tradeoff": "statement",
        "bands": "guarantees",
        "ledger": "ledger",
    },
    "The data": {"count": "data", "people": "people", "cap": "people", "plan": "people", "bound": "data"},
    "For readers and reviewers": {
        "explain": "statement",
        "statement": "statement",
        "certify": "statement",
        "verify": "statement",
        "audit": "audit",
        "figures": "tools",
    },
    "The tool": {"doctor": "tools", "import-run": "tools", "serve": "tools"},
}
#: The module of every command, in the order of the help.
COMMANDS = {name: f"groupdp.cli.{module}" for panel in PANELS.values() for name, module in panel.items()}
_PANEL_OF = {name: panel for panel, commands in PANELS.items() for name in commands}


#: Columns that the panels of the help need.
_PANELS = 76
#: Other names that people know an option by.
_KNOWN_AS = {
    "sigma": "--noise-multiplier",
    "noise": "--noise-multiplier",
    "q": "--sampling-rate",
    "rate": "--sampling-rate",
    "k": "--group-size",
    "group": "--group-size",
    "eps": "--epsilon",
    "n": "--dataset-size",
    "output": "--out",
}


def _sentence(error: Any) -> str:
    """What is wrong with a command line, with what may be meant: other options, or what the command's example has."""
    sentence = " ".join(error.format_message().split())
    context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
    if context is None:
        return sentence
    if sentence == "Missing command.":
        return f"A command must be given: {', '.join(context.command.list_commands(context))}."
    options = [option for known in context.command.get_params(context) for option in known.opts]
    if type(error).__name__ == "NoSuchOption":
        import difflib

        bare = error.option_name.lstrip("-").replace("_", "-")
        known = [option for option in options if option[:2] == "--"]
        meant = [option for option in known if option[2:].startswith(bare) or option == _KNOWN_AS.get(bare.lower())]
        meant = list(dict.fromkeys(meant)) or difflib.get_close_matches(f"--{bare}", known, n=2, cutoff=0.7)
        return f"No such option: {error.option_name}." + (f" Did you mean {' or '.join(meant[:3])}?" if meant else "")
    bare = sentence.rstrip(".")
    if sentence.startswith("Got unexpected extra argument") and "--run" in options:
        return f"{bare}: a run file is given as --run RUN.TOML."
    if sentence.startswith("Missing ") and parameter is not None:
        import shlex

        example = " ".join((context.command.epilog or "").replace("\\\n", " ").split()).partition("Example: ")[2]
        if example and parameter.param_type_name == "argument":
            return f"{bare}, as in {example}"
        given, name = shlex.split(example), parameter.opts[0]
        if name in given:
            return f"{bare}, like {shlex.join(given[given.index(name) :][:2])}."
    return sentence


class _Text:
    """Takes a value as it is."""

    def coerce(self, value: Any, **_: Any) -> Any:
        return value


def _prepare(command: Any, context: Any) -> None:
    """Values are texts; the help names no type of flags and arguments; it has panels unless they cut off options."""
    for parameter in command.get_params(context):
        if hasattr(parameter, "_runtime_param"):  # newer versions of typer would take a sixth of a second to convert it
            parameter._runtime_param = _Text()
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
        if parameter.param_type_name == "argument" and hasattr(parameter, "display_type_rich"):
            parameter.display_type_rich = lambda ctx: None
    if shutil.get_terminal_size().columns < _PANELS and not hasattr(command, "commands"):
        command.rich_markup_mode = None
        if command.epilog:  # a backspace before a paragraph keeps its lines as they are
            command.epilog = "\b\n" + command.epilog.strip("\n").replace("\n\n", "\n\n\b\n")


class _PipeClosed(Exception):
    """The reader closed the pipe; an OSError would end with status 1 before it gets here."""


class OneSentenceErrors(typer.core.TyperGroup):
    """Prints a wrong use of the command line as one sentence on stderr (exit status 2), without a panel."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Loads the module of this command alone; all of them where the name is unknown, to suggest one."""
        for name in (cmd_name,) if cmd_name in COMMANDS else COMMANDS:
            self._load(name)
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            for part in (command, *getattr(command, "commands", {}).values()):
                _prepare(part, ctx)
        return command

    def _load(self, name: str) -> None:
        if name not in self.commands:
            part = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
            add_commands(part, importlib.import_module(COMMANDS[name]))
            for loaded, command in typer.main.get_group(part).commands.items():
                command.rich_help_panel = _PANEL_OF[loaded]  # type: ignore[attr-defined]
                self.commands[loaded] = command

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _PipeClosed from None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _prepare(self, ctx)
        return super().parse_args(ctx, args)

    def main(self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        given = sys.argv[1:] if args is None else list(args)
        if given[:1] == ["help"]:  # groupdp help epsilon is groupdp epsilon --help
            args = [*given[1:], "--help"]
        if given == [] and "_GROUPDP_COMPLETE" not in os.environ:
            return _left(printed(FIRST_SCREEN), standalone_mode)
        try:
            status = super().main(args, standalone_mode=False, **extra)
            sys.stdout.flush()
        except (typer.Abort, KeyboardInterrupt):
            status = 130
        except (_PipeClosed, BrokenPipeError):
            write_no_more()
            status = 0
        except SystemExit as leaving:
            if not isinstance(leaving.__context__, BrokenPipeError):
                raise
            write_no_more()  # the help, whose printers leave with status 1 where the pipe is closed
            status = 0
        except OSError as error:
            if error.filename is not None:
                raise  # commands handle errors about files, so this is a bug, which keeps its traceback
            status = not_written(error)
        except Exception as error:
            if not hasattr(error, "format_message"):
                raise  # a bug keeps its traceback
            typer.echo(_sentence(error), err=True)
            status = 2
        return _left(status if isinstance(status, int) else 0, standalone_mode)


def _left(status: int, standalone_mode: bool) -> int:
    if standalone_mode:
        sys.exit(status)
    return status


def _version(value: bool) -> None:
    if value:
        typer.echo(version_line())
        raise typer.Exit


def build_app() -> typer.Typer:
    """The application; a command is loaded when it is asked for."""
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

    return app
