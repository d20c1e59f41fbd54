"""Declares commands: their names, examples and options, and how a refusal ends them."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NoReturn

import typer

from groupdp._files import NewFiles
from groupdp._validation import shown
from groupdp.cli.asked import Asked
from groupdp.cli.options import COMPUTATION, OUTPUT, SHARED, Option, about_run
from groupdp.cli.output import name_written
from groupdp.cli.run_options import asked_of
from groupdp.errors import NOT_SHOWN, GroupDPError, InvalidArgument, InWords

#: What a command asks about a run, unless it says otherwise.
QUESTION = ("delta", "group_size", "adjacency", "removed", "added")

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class _Declared:
    """A command before it is added to an application."""

    function: Function
    name: str
    example: str
    hidden: bool
    question: tuple[str, ...]
    assumed: Mapping[str, str]
    run_as_option: bool
    options: Mapping[str, Option]

    @property
    def own(self) -> dict[str, Option]:
        """The options that become arguments of the function: those declared, then those that commands share."""
        parameters = inspect.signature(self.function).parameters.values()
        names = [
            parameter.name
            for parameter in parameters
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD and parameter.name != "asked"
        ]
        return {**self.options, **{name: SHARED[name] for name in names if name not in self.options}}

    def callable(self) -> Function:
        """The function that typer calls with the texts of all options."""
        own = self.own
        is_about_run = "asked" in inspect.signature(self.function).parameters
        shared = about_run(self.question, run_as_option=self.run_as_option) if is_about_run else {}
        shared = {name: option for name, option in shared.items() if name not in own}  # a command's own option is first

        @functools.wraps(self.function)
        def run(**given: Any) -> None:
            try:
                asked = self._asked({name: given[name] for name in shared}, given) if is_about_run else None
                values = {name: option.value(name, given[name]) for name, option in own.items()}
                self._answer(values, asked)
            except GroupDPError as error:
                fail(str(error))

        arguments = [name for name, option in own.items() if option.kind == "argument"]
        options = {**{name: own[name] for name in arguments}, **shared, **own}
        last = {OUTPUT: 1, COMPUTATION: 2}  # the last panels of the help
        in_order = sorted(options.items(), key=lambda pair: last.get(pair[1].panel, 0))
        parameters = [option.parameter(name) for name, option in in_order]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    def _asked(self, texts: dict[str, Any], given: Mapping[str, Any]) -> Asked:
        """The run and the question; a table that `groupdp bound` wrote is their data."""
        if self.run_as_option:
            files = given.get("files") or [given["file"]]
            require_run_option(files, texts["run_option"])
            texts["data"] = texts["data"] or _bounded(files)
        return asked_of(texts, assumed=self.assumed)

    def _answer(self, values: dict[str, Any], asked: Asked | None) -> None:
        """Answer, then write what --save names: the run that was asked about, or the one that the command returns."""
        if asked is None or asked.save_as is None:
            self.function(**values, **({} if asked is None else {"asked": asked}))
            return
        leaving = None
        with NewFiles("save") as files:
            files.temporary(asked.save_as)  # a file that cannot be written is refused before any work
            try:
                answer = self.function(asked=asked, **values)
            except typer.Exit as left:
                if left.exit_code == 2:
                    raise
                answer, leaving = None, left
            files.write_text(asked.save_as, (answer or asked).run_text())
        name_written(asked.save_as)
        if leaving is not None:
            raise leaving


def command(
    name: str,
    example: str,
    *,
    hidden: bool = False,
    question: tuple[str, ...] = QUESTION,
    assumed: Mapping[str, str] = MappingProxyType({}),
    run_as_option: bool = False,
    **options: Option,
) -> Callable[[Function], Function]:
    """Declares a command of this name, "group command" in a group; the help ends with "groupdp NAME EXAMPLE".

    The function's parameters are the command's `options` and those that commands share (options.py). One called `asked`
    is the run with its `question`: then the command has all options that describe a run. `assumed` are values of those
    that it does not need (a calibration of the noise needs no noise). `run_as_option`: the run file is the option
    --run, because the command's arguments are other files.
    """

    def decorate(function: Function) -> Function:
        about = (name, example, hidden, question, assumed, run_as_option, options)
        function.declared = _Declared(function, *about)  # type: ignore[attr-defined]
        return function

    return decorate


def add_commands(app: typer.Typer, module: Any) -> None:
    """Adds the commands that a module declares, and its GROUPS: for each name, its help and its example."""
    groups = {
        name: typer.Typer(
            help=text,
            epilog=example_text(line),
            no_args_is_help=False,
            context_settings={"help_option_names": ["-h", "--help"]},
        )
        for name, (text, line) in getattr(module, "GROUPS", {}).items()
    }
    for function in vars(module).values():
        declared = getattr(function, "declared", None)
        if declared is not None and function.__module__ == module.__name__:
            group, _, own = declared.name.rpartition(" ")
            epilog = example_text(f"groupdp {declared.name} {declared.example}")
            place = groups[group] if group else app
            place.command(name=own, epilog=epilog, hidden=declared.hidden)(declared.callable())
    for name, group in groups.items():
        app.add_typer(group, name=name)


def example_text(line: str) -> str:
    """The end of a command's help: an example that can be pasted, in lines that fit 60 columns."""
    lines: list[str] = []
    for part in re.split(r" (?=--?[a-z])", line):  # an option stays with its value
        if lines and len(lines[-1]) + 1 + len(part) <= 50:
            lines[-1] += f" {part}"
        else:
            lines.append(part)
    return "\nExample:\n\n    " + " \\\n        ".join(lines) + "\n"


def fail(sentence: str) -> NoReturn:
    """Print one sentence on stderr and leave with exit status 2; a bug keeps its traceback."""
    typer.echo(sentence, err=True)
    raise typer.Exit(2)


def _bounded(tables: Sequence[str]) -> str | None:
    """The table that a command reads, if it is one that `groupdp bound` wrote."""
    if len(tables) != 1 or tables[0] == "-":
        return None
    from groupdp.data.manifest import find_manifest

    known = find_manifest(tables[0])
    return None if known is None or known.made_by != "bound" else tables[0]


def require_run_option(files: Sequence[str], run: str | None) -> None:
    """Refuses a run file among a command's data, and two standard inputs."""
    if run == "-" and "-" in files:
        raise InvalidArgument(
            "run", NOT_SHOWN, "be a file where the data are the standard input: only one of them can be -"
        )
    for file in files:
        if run is None and file.lower().endswith(".toml"):
            raise InvalidArgument(
                "run", InWords(f"{shown(file)} among the data"), f"be given as the option --run {file}"
            )
