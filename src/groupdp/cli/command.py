"""Declares commands: their names and examples, the options that describe a run, and how a refusal ends them."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn, get_type_hints

import typer

from groupdp._validation import shown
from groupdp.cli.asked import asked_of
from groupdp.cli.options import parameters_of, run_parameters
from groupdp.errors import NOT_SHOWN, GroupDPError, InvalidArgument, InWords

#: What a command asks about a run, unless it says otherwise.
QUESTION = ("delta", "group_size", "adjacency", "removed", "added")


def command(name: str, example: str, *, hidden: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declares a command of this name, "group command" in a group; the help ends with "groupdp NAME EXAMPLE"."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        function.declared = (name, example, hidden)  # type: ignore[attr-defined]
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
        if hasattr(function, "declared") and function.__module__ == module.__name__:
            name, line, hidden = function.declared
            group, _, own = name.rpartition(" ")
            place = groups[group] if group else app
            place.command(name=own, epilog=example_text(f"groupdp {name} {line}"), hidden=hidden)(
                handle_errors(function)
            )
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


def handle_errors(function: Callable[..., None]) -> Callable[..., None]:
    """Prints what groupdp refuses as one sentence on stderr, with exit status 2; a bug keeps its traceback.

    A command about a run gets its options here, when it is added to an application.
    """
    getattr(function, "offer", lambda: None)()

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            function(*args, **kwargs)
        except GroupDPError as error:
            fail(str(error))

    return guarded


def fail(sentence: str) -> NoReturn:
    """Print one sentence on stderr and leave with exit status 2."""
    typer.echo(sentence, err=True)
    raise typer.Exit(2)


def with_run(
    *,
    question: tuple[str, ...] = QUESTION,
    assumed: Mapping[str, str] = MappingProxyType({}),
    run_as_option: bool = False,
    saves_itself: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options that describe a run and its question, as its argument `asked`.

    `assumed` are values of options that the command does not need (a calibration of the noise needs no noise).
    `saves_itself`: what --save is to write is not the run that was given but one that the command finds.
    `run_as_option`: the run file is the option --run, because the command's arguments are other files.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        own = [
            one.replace(annotation=hints[one.name])
            for one in inspect.signature(command).parameters.values()
            if one.name != "asked"
        ]
        own_names = {one.name for one in own}

        @functools.wraps(command)
        def wrapped(**given: Any) -> None:
            about_run = {name: given.pop(name) for name in tuple(given) if name not in own_names}
            if run_as_option:
                names = [given[one.name] for one in own if one.name in ("file", "files")]
                tables = names[0] if isinstance(names[0], list) else names
                require_run_option(tables, about_run["run_option"])
                about_run["data"] = about_run["data"] or _bounded(tables)
            asked = asked_of(about_run, assumed=assumed)
            if asked.save_as is not None and not saves_itself:
                asked.save()
            command(asked=asked, **given)

        def offer() -> None:
            """Give the command an option for every field of the samplings and mechanisms registered by now."""
            taken = own_names | ({"run_file"} if run_as_option else set())  # a command's own option comes first
            names = [name for name in run_parameters() if name not in taken]
            shared = parameters_of((*(["run_option"] if run_as_option else []), *names, *question))
            positional = [one for one in own if one.kind is not inspect.Parameter.KEYWORD_ONLY]
            others = [one for one in own if one.kind is inspect.Parameter.KEYWORD_ONLY]
            wrapped.__signature__ = inspect.Signature([*positional, *shared, *others])  # type: ignore[attr-defined]
            wrapped.__annotations__ = {one.name: one.annotation for one in (*shared, *own)}

        wrapped.offer = offer  # type: ignore[attr-defined]
        return wrapped

    return decorate


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
