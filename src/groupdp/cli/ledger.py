"""`groupdp ledger new|add|show|afford`: everything released so far, and whether the next run fits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from groupdp._files import read_file
from groupdp.bounds import Bounds
from groupdp.cli.asked import Asked
from groupdp.cli.command import command
from groupdp.cli.options import choice, number, words
from groupdp.cli.output import (
    emit_json,
    emit_run,
    emit_table,
    emit_text,
    name_written,
    new_files,
    progress_bar,
    save_picture,
    values_of,
)
from groupdp.errors import InvalidArgument, InWords
from groupdp.neighbours import ADJACENCIES
from groupdp.printing import given, sides, upper_text

if TYPE_CHECKING:
    from groupdp.ledger import Ledger

GROUPS = {
    "ledger": (
        "Everything released about people in one file: what it adds up to, and what still fits a budget.",
        "groupdp ledger show --ledger ledger.jsonl",
    )
}
_DIGITS = 6
_LEDGER = "The ledger"
_FILE: dict[str, Any] = {"ledger": words("FILE", "The ledger.", _LEDGER, default="ledger.jsonl")}
_BUDGET = number("The budget: an epsilon.")
_CHOSEN = words(
    "beforehand|after-looking",
    "Whether the parameters were fixed before any outcome was seen, or chosen after looking at earlier ones.",
    _LEDGER,
)
_ENTRY: dict[str, Any] = {
    "covers": words("TEXT", "Whose data it is about, in words.", _LEDGER),
    "date": words("YYYY-MM-DD", "The date of the entry (default today, UTC).", _LEDGER),
}


@command(
    "ledger new",
    "--ledger ledger.jsonl --delta 1e-6 --epsilon 8",
    **_FILE,
    delta=number("The delta of (epsilon, delta)-DP.", required=True),
    epsilon=_BUDGET,
    adjacency=choice(ADJACENCIES, "Which datasets are neighbours.", default=ADJACENCIES[0]),
    **_ENTRY,
)
def new(*, ledger: str, covers: str | None, as_json: bool, **fixed: Any) -> None:
    """Make a ledger: delta, the budget and the orders of its filter are fixed from now on."""
    from groupdp.ledger import make_ledger

    made = make_ledger(ledger, covers="everybody" if covers is None else covers, **fixed)
    if as_json:
        emit_json({"ledger": ledger, **_header(made)})
        return
    emit_text(f"{ledger}: a ledger for {made.covers} at delta = {given(made.delta)}, {made.adjacency}.")
    if made.epsilon is None:
        emit_text("No budget is fixed: the parameters of every run must be fixed before looking at any outcome.")


@command(
    "ledger add",
    "run.toml:8 --ledger ledger.jsonl --chosen beforehand",
    question=("group_size", "adjacency"),
    **_FILE,
    chosen=_CHOSEN,
    **_ENTRY,
)
def add(asked: Asked, *, ledger: str, as_json: bool, **said: Any) -> None:
    """Append a run that was, or is about to be, released."""
    from groupdp.ledger import add_release, spent

    asked.neighbours  # noqa: B018 - refuses a group that was not given, in the words of options
    if len(asked.names) > 1:
        raise InvalidArgument("run files", InWords(f"{len(asked.names)} of them"), "be added one at a time")
    with progress_bar("ledger") as progress:
        made = add_release(ledger, asked.file, run_file=_content(asked), progress=progress, **said)
        states = spent(made, progress=progress) if made.looked and not as_json else None
    entry = made.entries[-1]
    if as_json:
        emit_json({"ledger": ledger, "entry": len(made.entries), "digest": entry.digest, "bound": dict(entry.bound)})
        return
    emit_run(asked)
    emit_text(
        f"Entry {len(made.entries)} of {ledger}: epsilon = {_upper(entry.bound['epsilon']['upper'])} alone at delta = "
        f"{given(made.delta)}. Its digest is {entry.digest}."
    )
    if states is not None:  # where something was chosen after looking, the guarantee may be lost
        emit_text(_sentences(made, states)[-2])


def _content(asked: Asked) -> bytes:
    """The bytes of the run file, where there is one."""
    if not asked.names or asked.names[0] == "-":
        return b""
    from groupdp.ledger.chain import LARGEST_FILE

    return read_file("run file", asked.names[0], most=LARGEST_FILE)


@command(
    "ledger show",
    "--ledger ledger.jsonl --plot spent.png",
    **_FILE,
    has=words("DIGEST", "Refuse a ledger without this digest, noted earlier.", _LEDGER),
)
def show(*, ledger: str, has: str | None, plot: str | None, force: bool, as_json: bool) -> None:
    """Epsilon so far, entry by entry and composed, computed again from the file."""
    from groupdp.ledger import read_ledger, spent

    book = read_ledger(ledger)
    if has is not None and has not in {book.made, *(entry.digest for entry in book.entries)}:
        raise InvalidArgument("ledger", InWords(f"{ledger} without {has}"), "have the entry with this digest")
    with new_files(force=force, plot=plot) as files:
        with progress_bar("ledger") as progress:
            states = spent(book, progress=progress)
        title = f"Released so far: {book.covers}, δ = {given(book.delta)}, {book.adjacency}"
        save_picture(files, plot, "curves.draw_ledger", book, states, title=[title])
    if as_json:
        emit_json(
            {
                "ledger": ledger,
                **_header(book),
                "entries": [
                    {
                        **values_of(entry, ("title", "date", "covers", "chosen")),
                        "run": [phase.values() for phase in entry.phases],
                        "run_file_sha256": entry.run_file_sha256,
                        "alone": sides(state.alone),
                        "composed_so_far": sides(state.composed),
                        "filter_so_far": state.filtered.upper,
                        "stated": dict(entry.bound),
                        "agrees": state.agrees,
                        "digest": entry.digest,
                    }
                    for entry, state in zip(book.entries, states, strict=True)
                ],
                "figure": "filter" if book.looked else "composed",
                "guaranteed": _guaranteed(book, states),
                "digest": book.head,
            }
        )
        return
    emit_table(
        f"{ledger}, since {book.date}: epsilon at delta = {given(book.delta)} for {book.covers}, {book.adjacency}",
        ("entry", "examples", "chosen", "alone", "composed", "filter"),
        [
            (
                f"{number}: {entry.title} ({entry.date})",
                ", ".join(dict.fromkeys(str(phase.group_size) for phase in entry.phases)),
                entry.chosen,
                *(_upper(bounds.upper) for bounds in (state.alone, state.composed, state.filtered)),
            )
            for number, (entry, state) in enumerate(zip(book.entries, states, strict=True), 1)
        ],
        note="\n".join(_sentences(book, states)),
    )
    name_written(plot)


def _sentences(book: Ledger, states: Any) -> list[str]:
    """Which figure applies, and what it guarantees."""
    lines = []
    for place, state in enumerate(states, 1):
        if not state.agrees:
            lines.append(
                f"Entry {place} states an epsilon that its run does not have; the figure here is computed from the run."
            )
    guaranteed = _guaranteed(book, states)
    if not states:
        lines.append("Nothing has been released so far.")
    elif not book.looked:
        lines.append(
            f"All parameters were fixed beforehand, so the composed figure applies: epsilon = {_upper(guaranteed)}."
        )
    elif book.epsilon is None:
        lines.append(
            "Some parameters were chosen after looking, and no budget was fixed when the ledger was made: nothing is "
            "guaranteed. A filter would need the last figure as its budget."
        )
    elif guaranteed is None:
        lines.append(
            f"Some parameters were chosen after looking, and what was released exceeds the budget of "
            f"{given(book.epsilon)} that was fixed when the ledger was made: nothing is guaranteed."
        )
    else:
        lines.append(
            f"Some parameters were chosen after looking: the filter's figure applies, epsilon = {given(book.epsilon)}, "
            f"the budget fixed when the ledger was made. {_upper(states[-1].filtered.upper)} of it is used."
        )
    lines.append(f"Last digest: {book.head}")
    return lines


def _guaranteed(book: Ledger, states: Any) -> float | None:
    """The epsilon that everything released so far has; None where nothing is guaranteed."""
    if not states:
        return 0.0
    if not book.looked:
        upper: float = states[-1].composed.upper
        return upper
    return book.epsilon if book.epsilon is not None and states[-1].filtered.upper <= book.epsilon else None


@command(
    "ledger afford",
    "run.toml:8 --ledger ledger.jsonl --epsilon 8 --chosen beforehand",
    question=("group_size", "adjacency"),
    **_FILE,
    epsilon=_BUDGET,
    chosen=_CHOSEN,
)
def afford(asked: Asked, *, ledger: str, epsilon: float | None, chosen: str | None, as_json: bool) -> None:
    """Whether a run fits the budget, and the least noise or the most steps of its last phase that do."""
    from groupdp.ledger import afford as afforded
    from groupdp.ledger import read_ledger

    book = read_ledger(ledger)
    asked.neighbours  # noqa: B018 - as above
    with progress_bar("ledger") as progress:
        fit = afforded(book, asked.file, epsilon=epsilon, chosen=chosen, progress=progress)
    if as_json:
        emit_json(
            {
                "ledger": ledger,
                **values_of(fit, ("fits", "budget")),
                "delta": book.delta,
                "figure": fit.figure,
                "composed": sides(fit.composed),
                "filter": fit.filtered.upper,
                **values_of(fit, ("least_noise", "most_steps")),
                **asked.as_json_fields(),
            }
        )
        return
    emit_run(asked)

    def row(name: str, label: str, bounds: Bounds) -> tuple[str, str, str]:
        applies = " (applies)" if fit.figure == name else ""
        return f"{label}{applies}", _upper(bounds.upper), "fits" if bounds.upper <= fit.budget else "does not fit"

    notes = []
    if fit.least_noise is not None:
        notes.append(f"The least noise multiplier of its last phase that fits: {upper_text(fit.least_noise, 5)}.")
    if fit.most_steps is not None:
        notes.append(f"The most steps of its last phase that fit: {fit.most_steps}.")
    if not fit.fits and not notes:
        notes.append("No noise and no number of steps of its last phase fits.")
    emit_table(
        f"After {ledger}: does the run fit epsilon = {given(fit.budget)} at delta = {given(book.delta)}?",
        ("with the run", "epsilon at most", "budget"),
        [
            row("composed", "composed: all parameters fixed beforehand", fit.composed),
            row("filter", "filter: parameters chosen after looking", fit.filtered),
        ],
        note="\n".join(notes),
    )


def _header(book: Ledger) -> dict[str, Any]:
    names = ("date", "covers", "delta", "adjacency", "epsilon")
    return {**values_of(book, names), "filter_orders": list(book.filter_orders)}


def _upper(value: Any) -> str:
    """An epsilon, rounded up."""
    return upper_text(math.inf if value in ("Infinity", None) else value, _DIGITS)
