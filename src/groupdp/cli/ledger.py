"""`groupdp ledger new|add|show|afford`: everything released so far, and whether the next run fits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from groupdp._files import read_file
from groupdp.cli.asked import Asked
from groupdp.cli.command import command
from groupdp.cli.options import PLOT, choice, number, words
from groupdp.cli.output import Answer, Table, drawn, values_of
from groupdp.engines import Progress
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
_LEDGER = "The ledger"
_FILE: dict[str, Any] = {"ledger": words("FILE", "The ledger.", _LEDGER, default="ledger.jsonl")}
_BUDGET = number("The budget: an epsilon.")
_CHOSEN = words(
    "beforehand|after-looking",
    "Whether the parameters were fixed before any outcome was seen, or chosen after looking at outcomes.",
    _LEDGER,
)
_ENTRY: dict[str, Any] = {
    "covers": words("TEXT", "Whose data the ledger is about, in words.", _LEDGER),
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
def new(*, ledger: str, **fixed: Any) -> Answer:
    """Make a ledger; this fixes delta, the budget and the orders of its filter."""
    from groupdp.ledger import make_ledger

    made = make_ledger(ledger, **{name: value for name, value in fixed.items() if value is not None})
    text = [f"{ledger}: a ledger for {made.covers} at delta = {given(made.delta)}, {made.adjacency}."]
    if made.epsilon is None:
        text.append("No budget is fixed: the parameters of every run must be fixed before looking at any outcome.")
    return Answer(json={"ledger": ledger, **_header(made)}, text=text)


@command(
    "ledger add",
    "run.toml:8 --ledger ledger.jsonl --chosen beforehand",
    question=("group_size", "adjacency"),
    **_FILE,
    chosen=_CHOSEN,
    **_ENTRY,
)
def add(asked: Asked, *, ledger: str, as_json: bool, progress: Progress, **said: Any) -> Answer:
    """Append a run that was, or is about to be, released."""
    from groupdp.ledger import LARGEST_FILE, add_release, spent

    about = asked.about()  # refuses a group that was not given, in the words of options
    if len(asked.names) > 1:
        raise InvalidArgument("run files", InWords(f"{len(asked.names)} of them"), "be added one at a time")
    from_file = asked.names[:1] not in ((), ("-",))
    content = read_file("run file", asked.names[0], most=LARGEST_FILE) if from_file else b""
    made = add_release(ledger, asked.file, run_file=content, progress=progress, **said)
    entry = made.entries[-1]
    text = [
        f"Entry {len(made.entries)} of {ledger}: epsilon = {_upper(entry.bound['epsilon']['upper'])} alone at delta = "
        f"{given(made.delta)}. Its digest is {entry.digest}."
    ]
    if (made.looked or made.epsilon is not None) and not as_json:  # the guarantee may be lost, the budget exceeded
        text.append(_guarantee(made, spent(made, progress=progress)))
    return Answer(
        json={"ledger": ledger, "entry": len(made.entries), "digest": entry.digest, "bound": dict(entry.bound)},
        about=about,
        text=text,
    )


@command(
    "ledger show",
    "--ledger ledger.jsonl --plot spent.png",
    **_FILE,
    has=words("DIGEST", "Refuse a ledger without this digest, which you noted earlier.", _LEDGER),
    plot=PLOT,
)
def show(*, ledger: str, has: str | None, progress: Progress) -> Answer:
    """Epsilon so far, entry by entry and composed, computed again from the file."""
    from groupdp.ledger import read_ledger, spent

    book = read_ledger(ledger)
    if has is not None and has not in {book.made, *(entry.digest for entry in book.entries)}:
        raise InvalidArgument("ledger", InWords(f"{ledger} without {has}"), "have the entry with this digest")
    states = spent(book, progress=progress)
    rows, entries, wrong = [], [], []
    for place, (entry, state) in enumerate(zip(book.entries, states, strict=True), 1):
        sizes = ", ".join(dict.fromkeys(str(phase.group_size) for phase in entry.phases))
        uppers = (_upper(bounds.upper) for bounds in (state.alone, state.composed, state.filtered))
        rows.append((f"{place}: {entry.title} ({entry.date})", sizes, entry.chosen, *uppers))
        entries.append(
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
        )
        if not state.agrees:
            computed = "the figure here is computed from the run"
            wrong.append(f"Entry {place} states an epsilon that its run does not have; {computed}.")
    table = Table(
        f"{ledger}, since {book.date}: epsilon at delta = {given(book.delta)} for {book.covers}, {book.adjacency}",
        ("entry", "examples", "chosen", "alone", "composed", "filter"),
        rows,
        [*wrong, _guarantee(book, states), f"Last digest: {book.head}"],
    )
    title = f"Released so far: {book.covers}, δ = {given(book.delta)}, {book.adjacency}"
    return Answer(
        json={
            "ledger": ledger,
            **_header(book),
            "entries": entries,
            "figure": "filter" if book.looked else "composed",
            "guaranteed": _guaranteed(book, states),
            "digest": book.head,
        },
        text=[table],
        files={"plot": drawn("draw_ledger", book, states, title=[title])},
    )


def _guarantee(book: Ledger, states: Any) -> str:
    """Which figure applies, and what it guarantees."""
    guaranteed: Any = _guaranteed(book, states)
    if not states:
        return "Nothing has been released so far."
    if not book.looked:
        applies = "All parameters were fixed beforehand, so the composed figure applies: "
        budget = book.epsilon
        above = "" if budget is None or guaranteed <= budget else f" This is above the budget of {given(budget)}."
        return f"{applies}epsilon = {_upper(guaranteed)}.{above}"
    if book.epsilon is None:
        return (
            "Some parameters were chosen after looking, and no budget was fixed when the ledger was made: nothing is "
            "guaranteed. The last figure is the budget that a filter would have needed."
        )
    if guaranteed is None:
        return (
            f"Some parameters were chosen after looking, and what was released exceeds the budget of "
            f"{given(book.epsilon)} that was fixed when the ledger was made: nothing is guaranteed."
        )
    return (
        f"Some parameters were chosen after looking: the filter's figure applies, epsilon = {given(book.epsilon)}, "
        f"the budget fixed when the ledger was made. {_upper(states[-1].filtered.upper)} of it is used."
    )


def _guaranteed(book: Ledger, states: Any) -> float | None:
    """The epsilon that everything released so far has; None where nothing is guaranteed."""
    if not states:
        return 0.0
    if not book.looked:
        return float(states[-1].composed.upper)
    return book.epsilon if book.epsilon is not None and states[-1].filtered.upper <= book.epsilon else None


@command(
    "ledger afford",
    "run.toml:8 --ledger ledger.jsonl --epsilon 8 --chosen beforehand",
    question=("group_size", "adjacency"),
    **_FILE,
    epsilon=_BUDGET,
    chosen=_CHOSEN,
)
def afford(asked: Asked, *, ledger: str, epsilon: float | None, chosen: str | None, progress: Progress) -> Answer:
    """Whether a run fits the budget, and the least noise and the most steps of its last phase that fit."""
    from groupdp.ledger import afford as afforded
    from groupdp.ledger import read_ledger, spent

    book = read_ledger(ledger)
    about = asked.about()  # refuses a group that was not given, in the words of options
    fit = afforded(book, asked.file, epsilon=epsilon, chosen=chosen, progress=progress)

    rows = []
    for name, label, bounds in (
        ("composed", "composed: all parameters fixed beforehand", fit.composed),
        ("filter", "filter: parameters chosen after looking", fit.filtered),
    ):
        applies = " (applies)" if fit.figure == name else ""
        fits = "fits" if bounds.upper <= fit.budget else "does not fit"
        rows.append((f"{label}{applies}", _upper(bounds.upper), fits))
    notes = []
    if fit.least_noise is not None:
        notes.append(f"The least noise multiplier of its last phase that fits: {upper_text(fit.least_noise, 5)}.")
    if fit.most_steps is not None:
        notes.append(f"The most steps of its last phase that fit: {fit.most_steps}.")
    if not fit.fits and not notes:
        notes.append("No noise multiplier and no number of steps of its last phase fits.")
        so_far = [state.composed if fit.figure == "composed" else state.filtered for state in spent(book)][-1:]
        notes += [
            f"The budget is exceeded without this run: epsilon = {_upper(bounds.upper)} is spent."
            for bounds in so_far
            if bounds.upper > fit.budget
        ]
    table = Table(
        f"After {ledger}: does the run fit epsilon = {given(fit.budget)} at delta = {given(book.delta)}?",
        ("with the run", "epsilon", "budget"),
        rows,
        notes,
    )
    return Answer(
        json={
            "ledger": ledger,
            **values_of(fit, ("fits", "budget")),
            "delta": book.delta,
            "figure": fit.figure,
            "composed": sides(fit.composed),
            "filter": fit.filtered.upper,
            **values_of(fit, ("least_noise", "most_steps")),
            **asked.as_json_fields(),
        },
        about=about,
        text=[table],
    )


def _header(book: Ledger) -> dict[str, Any]:
    return values_of(book, ("date", "covers", "delta", "adjacency", "epsilon", "filter_orders"))


def _upper(value: Any) -> str:
    """An epsilon, rounded up."""
    return upper_text(math.inf if value in ("Infinity", None) else value, 6)
