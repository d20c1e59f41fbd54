"""The application: which module has which command, and how a command ends."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer
import typer.core

from groupdp.cli.command import add_commands
from groupdp.cli.process import FIRST_SCREEN, not_written, printed, version_line, write_no_more

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
    "The data": {"count": "data", "people": "people", "cap": "plan", "plan": "plan", "bound": "data"},
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


class _Text:
    """Takes a value as it is; newer versions of typer would import pydantic to convert it."""

    def coerce(self, value: Any, **_: Any) -> Any:
        return value


def _take_as_text(parameters: Iterable[Any]) -> None:
    """Save a sixth of a second of start-up with newer versions of typer."""
    for parameter in parameters:
        if hasattr(parameter, "_runtime_param"):
            parameter._runtime_param = _Text()


def _name_no_type(parameters: Iterable[Any]) -> None:
    """The help shows no type for a flag, which takes no value, nor for an argument, whose name says it."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
        if parameter.param_type_name == "argument" and hasattr(parameter, "display_type_rich"):
            parameter.display_type_rich = lambda ctx: None


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


def _unknown_option(error: Any) -> str | None:
    """The sentence about an option that does not exist, with those that may be meant."""
    import difflib

    name = getattr(error, "option_name", None)
    context = getattr(error, "ctx", None)
    if type(error).__name__ != "NoSuchOption" or name is None or context is None:
        return None
    bare = name.lstrip("-").replace("_", "-")
    known = [opt for parameter in context.command.get_params(context) for opt in parameter.opts if opt[:2] == "--"]
    meant = [option for option in known if option[2:].startswith(bare) or option == _KNOWN_AS.get(bare.lower())]
    meant = list(dict.fromkeys(meant)) or difflib.get_close_matches(f"--{bare}", known, n=2, cutoff=0.7)
    return f"No such option: {name}." + (f" Did you mean {' or '.join(meant[:3])}?" if meant else "")


def _stray_run(error: Any, sentence: str) -> str | None:
    """The sentence about an argument too many, where it may be a run file and the command has an option for that."""
    context = getattr(error, "ctx", None)
    if context is None or not sentence.startswith("Got unexpected extra argument"):
        return None
    options = [opt for parameter in context.command.get_params(context) for opt in parameter.opts]
    return f"{sentence.rstrip('.')}: a run file is given as --run RUN.TOML." if "--run" in options else None


def _missing(error: Any, sentence: str) -> str | None:
    """The sentence about a missing option or argument, with what the command's example has for it."""
    import shlex

    context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
    if context is None or parameter is None or not sentence.startswith("Missing "):
        return None
    example = " ".join((context.command.epilog or "").replace("\\\n", " ").split()).partition("Example: ")[2]
    given = shlex.split(example)
    if not example or parameter.param_type_name == "argument":
        return f"{sentence.rstrip('.')}, as in {example}" if example else None
    name = parameter.opts[0]
    return f"{sentence.rstrip('.')}, like {shlex.join(given[given.index(name) :][:2])}." if name in given else None


def _lay_out(command: Any) -> None:
    """Help in panels; plainly where the panels would cut the names of options off."""
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
                _take_as_text(part.get_params(ctx))
                _name_no_type(part.get_params(ctx))
                _lay_out(part)
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
        _take_as_text(self.get_params(ctx))
        _name_no_type(self.get_params(ctx))
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
        given = sys.argv[1:] if args is None else list(args)
        if given[:1] == ["help"]:  # groupdp help epsilon is groupdp epsilon --help
            args = [*given[1:], "--help"]
        if given == [] and "_GROUPDP_COMPLETE" not in os.environ:
            return _left(printed(FIRST_SCREEN), standalone_mode)
        try:
            status = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
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
            sentence = " ".join(error.format_message().split())
            sentence = _unknown_option(error) or _stray_run(error, sentence) or _missing(error, sentence) or sentence
            if sentence == "Missing command.":
                context: Any = getattr(error, "ctx")  # noqa: B009
                sentence = f"A command must be given: {', '.join(context.command.list_commands(context))}."
            typer.echo(sentence, err=True)
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
