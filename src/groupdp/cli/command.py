"""Declares commands: their names, examples and options, and how a refusal or a signal ends them."""

from __future__ import annotations

import functools
import inspect
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NoReturn

import typer

from groupdp.cli.asked import Asked, asked_of
from groupdp.cli.options import AS_JSON, FORCE, LAST_PANELS, Option, about_run
from groupdp.cli.output import Answer, dump_json, name_written, new_files, progress_bar, require_new
from groupdp.errors import NOT_SHOWN, GroupDPError, InvalidArgument, InWords, shown

#: What a command asks about a run, unless it says otherwise.
QUESTION = ("delta", "group_size", "adjacency", "removed", "added")

Function = Callable[..., Any]
#: Values of a run that a command does not need to be given, or a function of its options that returns them.
Assumed = Mapping[str, str] | Callable[[Mapping[str, Any]], Mapping[str, str]]


#: The files that commands write, in the order in which they are named.
_FILES = ("certificate", "out", "plot", "csv", "save")


@dataclass(frozen=True, slots=True)
class _Declared:
    """A command before it is added to an application."""

    function: Function
    name: str
    example: str
    hidden: bool
    question: tuple[str, ...]
    assumed: Assumed
    run_as_option: bool
    has_json: bool
    options: Mapping[str, Option]

    def callable(self) -> Function:
        """The function that typer calls with the texts of all options; of a name declared twice the command's own."""
        about: dict[str, Option] = {}
        if "asked" in inspect.signature(self.function).parameters:
            about = about_run(self.question, run_as_option=self.run_as_option)
            about = {name: option for name, option in about.items() if name not in self.options}
        own = dict(self.options)
        if not about and any(option.writes != "nothing" for option in own.values()):
            own["force"] = FORCE
        if self.has_json:
            own["as_json"] = AS_JSON

        @functools.wraps(self.function)
        def run(**given: Any) -> None:
            try:
                described = {name: option.value(name, given[name]) for name, option in about.items()}
                asked = self._asked(described, given) if about else None
                values = {name: option.value(name, given[name]) for name, option in own.items()}
                status = self._answer({"force": given.get("force", False), **values}, asked)
            except GroupDPError as error:
                fail(str(error))
            if status:
                raise typer.Exit(status)

        arguments = [name for name, option in own.items() if option.kind == "argument"]
        options = {**{name: own[name] for name in arguments}, **about, **own}
        last = {panel: place for place, panel in enumerate(LAST_PANELS, 1)}
        in_order = sorted(options.items(), key=lambda pair: last.get(pair[1].panel, 0))
        parameters = [option.parameter(name) for name, option in in_order]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    def _asked(self, described: dict[str, Any], given: Mapping[str, Any]) -> Asked:
        """The run and the question; a table that `groupdp bound` wrote is their data."""
        if self.run_as_option:
            files = given.get("files") or [given["file"]]
            require_run_option(files, described["run_option"])
            described["data"] = described["data"] or _bounded(files)
        return asked_of(described, assumed=self.assumed(given) if callable(self.assumed) else self.assumed)

    def _answer(self, values: dict[str, Any], asked: Asked | None) -> int:
        """Answer, write the files that the options name, all or none, and print; the exit status."""
        force, as_json = values["force"], values.get("as_json", False)
        paths = {name: values[name] for name, option in self.options.items() if option.writes == "whole"}
        if asked is not None:
            paths["save"] = asked.save_as
        itself = {name: values[name] for name, option in self.options.items() if option.writes == "itself"}
        for name, path in itself.items():
            require_new(path, name, force=force)
        with new_files(paths, force=force) as files, progress_bar(self.name.split()[0]) as progress:
            answer: Answer | None = self.function(**self._arguments({**values, "asked": asked, "progress": progress}))
            if answer is None:
                return 0
            contents = answer.files if asked is None else {"save": asked.run_text(), **answer.files}
            for name, content in contents.items():
                path = paths.get(name)
                if path is None:
                    continue
                if isinstance(content, str):
                    files.write_text(path, content)
                else:
                    content(files.temporary(path))
        if as_json and answer.json is not None:
            typer.echo(dump_json(answer.json))
            name_written(None if asked is None else asked.save_as)
        else:
            answer.emit()
            name_written(*({**paths, **itself}.get(name) for name in _FILES))
        return answer.status

    def _arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What the function takes: its parameters; and if it has `**rest`, the other options but those of files."""
        parameters = inspect.signature(self.function).parameters
        names = set(parameters)
        if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
            names |= {name for name, option in self.options.items() if option.writes == "nothing"}
        return {name: value for name, value in values.items() if name in names}


def command(
    name: str,
    example: str,
    *,
    hidden: bool = False,
    question: tuple[str, ...] = QUESTION,
    assumed: Assumed = MappingProxyType({}),
    run_as_option: bool = False,
    has_json: bool = True,
    **options: Option,
) -> Callable[[Function], Function]:
    """Declares a command of this name, "group command" in a group; the help ends with "groupdp NAME EXAMPLE".

    The function takes the values of the `options` that are its parameters (`**rest`: of all but those of files), and
    returns an `Answer`. A parameter `asked` is the run with its `question`: then the command has all options that
    describe a run. `progress` is a progress bar, `as_json` whether --json is given. `assumed` are values of the run
    that it does not need (a calibration of the noise needs no noise). `run_as_option`: the run file is the option
    --run, because the command's arguments are other files.
    """

    def decorate(function: Function) -> Function:
        about = (name, example, hidden, question, assumed, run_as_option, has_json, options)
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
    """Refuse a run file among a command's data, and two standard inputs."""
    if run == "-" and "-" in files:
        needed = "be a file where the data are the standard input: only one of them can be -"
        raise InvalidArgument("run", NOT_SHOWN, needed)
    for file in files:
        if run is None and file.lower().endswith(".toml"):
            needed = f"be given as the option --run {file}"
            raise InvalidArgument("run", InWords(f"{shown(file)} among the data"), needed)


@contextmanager
def _handled(handler: Callable[[int, Any], None], *signals: int) -> Iterator[None]:
    """The handler of these signals inside the block, in the main thread; the others get none."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, usual in before.items():
            signal.signal(number, usual)


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt inside the block."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with _handled(interrupt, signal.SIGTERM):
        yield


@contextmanager
def interrupted_after(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM call `stop` inside the block, and have their usual effect after it.

    For a block that ends by itself after `stop`, and must not be interrupted in the middle of a line.
    """
    noted: list[int] = []

    def note(number: int, _: Any) -> None:
        noted.append(number)
        stop()

    with _handled(note, signal.SIGINT, signal.SIGTERM):
        yield
    if noted:
        signal.raise_signal(noted[0])
