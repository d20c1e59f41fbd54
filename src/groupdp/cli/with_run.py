"""Gives a command all the options that describe a run, and hands it an `Asked`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, get_type_hints

from groupdp._validation import shown
from groupdp.cli.options import parameters_of, run_parameters
from groupdp.cli.read_options import asked_of
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords

#: What a command asks about a run, unless it says otherwise.
QUESTION = ("delta", "group_size", "adjacency", "removed", "added")


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
                require_run_option(names[0] if isinstance(names[0], list) else names, about_run["run_option"])
            asked = asked_of(about_run, assumed=assumed)
            if asked.save_as is not None and not saves_itself:
                asked.save()
            command(asked=asked, **given)

        def offer() -> None:
            """Give the command an option for every field of the samplings and mechanisms registered by now."""
            names = [name for name in run_parameters() if not (run_as_option and name == "run_file")]
            shared = parameters_of((*(["run_option"] if run_as_option else []), *names, *question))
            positional = [one for one in own if one.kind is not inspect.Parameter.KEYWORD_ONLY]
            others = [one for one in own if one.kind is inspect.Parameter.KEYWORD_ONLY]
            wrapped.__signature__ = inspect.Signature([*positional, *shared, *others])  # type: ignore[attr-defined]
            wrapped.__annotations__ = {one.name: one.annotation for one in (*shared, *own)}

        wrapped.offer = offer  # type: ignore[attr-defined]
        return wrapped

    return decorate


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
