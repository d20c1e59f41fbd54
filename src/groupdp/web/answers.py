"""One function per question of the API: a JSON document in, a JSON document out, by the library's own functions.

Formal guarantee. Every number called `upper` is an upper side of the library's bounds, every `lower` a lower side; the
texts beside them are rounded outward. Nothing is cached and nothing is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import groupdp
from groupdp._validation import require_choice, require_integer, require_number, shown
from groupdp.bounds import Bounds, round_down, round_up
from groupdp.compositions import question_of
from groupdp.errors import InvalidArgument, LimitExceeded
from groupdp.web.description import InvalidField, Question, plain, read_question
from groupdp.web.fields import CLASSIC_ADJACENCIES, CLASSIC_SAMPLINGS, MOST_GROUP_SIZES

Progress = Callable[[float], None]
Answer = dict[str, Any]

#: Significant digits of the texts.
DIGITS = 6
#: Memory that a lattice may take in one answer, in bytes.
MEMORY = 400_000_000
#: False positive rates of the drawn trade-off curve.
RATES = (
    *(10.0**exponent for exponent in (-9, -8, -7, -6, -5, -4, -3, -2)),
    *(0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9),
)
#: False positive rates that are put into words.
SPOKEN_RATES = (1e-3, 1e-6)
BASELINES = ("vadhan", "renyi", "old-tool", "fdp")
PARAMETERS = ("noise_multiplier", "steps", "sampling_rate", "batch_size", "group_size")


def epsilon(document: Mapping[str, Any], progress: Progress) -> Answer:
    """Bounds on epsilon for a delta, what they assume, and one example's epsilon beside them."""
    question = read_question(document)
    bounds = _epsilon(question, progress)
    one = _epsilon_of_one(question, progress)
    return {
        "epsilon": sides(bounds),
        "interval": str(bounds),
        "decided_by": bounds.provenance.adjacency,
        "directions": {
            name: {"lower": lower, "upper": upper} for name, (lower, upper) in bounds.provenance.directions.items()
        },
        "engine": bounds.provenance.engine,
        "one_example": None if one is None else sides(one),
        "poisson_claim": _poisson_claim(question, progress),
        "steps": [phase.steps for phase in question.phases],
        "sentence": _sentence(question, bounds),
        "assumptions": _assumptions(question),
        **_echo(question),
    }


def delta(document: Mapping[str, Any], progress: Progress) -> Answer:
    """Bounds on delta for an epsilon, and on its logarithm."""
    question = read_question(document, also=("epsilon",))
    target = question.number("epsilon", at_least=0.0)
    arguments = {**question.neighbour, "epsilon": target, "memory_budget": MEMORY, "progress": progress}
    logarithm = groupdp.log_delta(question.run, **arguments)
    return {
        "delta": sides(groupdp.delta(question.run, **arguments)),
        "log_delta": sides(logarithm),
        "epsilon": target,
        **_echo(question, "delta"),
    }


def curve(document: Mapping[str, Any], progress: Progress) -> Answer:
    """Bounds on epsilon for many group sizes, and the linear reference."""
    question = read_question(document, also=("group_sizes",))
    delta = question.delta
    adjacency = question.adjacency
    sizes = _group_sizes(document)
    points = []
    one: Bounds | None = None
    for done, size in enumerate(sizes):
        found = _one_of_many(question, size, delta, adjacency, progress)
        if size == 1:
            one = found if isinstance(found, Bounds) else None
        point: Answer = {"group_size": size}
        if isinstance(found, Bounds):
            point["epsilon"] = sides(found)
            if one is not None:
                point["linear"] = size * one.upper
        else:
            point["declined"] = str(found)
        points.append(point)
        progress((done + 1) / len(sizes))
    return {"points": points, **_echo(question, "group_size", "group_sizes")}


def baseline(document: Mapping[str, Any], progress: Progress) -> Answer:
    """What one had before, for many group sizes: upper bounds by the method named."""
    question = read_question(document, also=("group_sizes", "name"))
    name = require_choice("name", document.get("name"), BASELINES)
    sizes = _group_sizes(document)
    uppers = _baseline(name, question, sizes, progress)
    return {
        "name": name,
        "points": [
            {"group_size": size, "upper": upper, "upper_text": upper_text(upper)}
            for size, upper in zip(sizes, uppers, strict=True)
        ],
    }


def calibrate(document: Mapping[str, Any], progress: Progress) -> Answer:
    """The least noise, the most steps, the largest rate, batch or group that meets a target epsilon."""
    question = read_question(document, also=("epsilon", "parameter", "phase"))
    _require_group_size(question)
    parameter = require_choice("parameter", document.get("parameter", "noise_multiplier"), PARAMETERS)
    target = {
        "epsilon": question.number("epsilon", above=0.0),
        "delta": question.delta,
        "adjacency": question.adjacency,
        "progress": progress,
    }
    if parameter != "group_size":
        target.update(question.group)
    if parameter not in ("group_size", "noise_multiplier"):
        phase = plain(document.get("phase", 0))
        target["phase"] = require_integer("phase", phase, at_least=0, at_most=len(question.phases) - 1)
    functions: dict[str, Callable[..., Any]] = {
        "noise_multiplier": groupdp.calibrate_noise,
        "steps": groupdp.calibrate_steps,
        "sampling_rate": groupdp.calibrate_rate,
        "batch_size": groupdp.calibrate_batch_size,
        "group_size": groupdp.calibrate_group_size,
    }
    found = functions[parameter](question.run, **target)
    safe_up = parameter == "noise_multiplier"
    return {
        "parameter": found.parameter,
        "value": found.value,
        "value_text": (round_up if safe_up else round_down)(float(found.value), 8),
        "epsilon": sides(found.epsilon),
        "failing_value": found.failing_value,
        "proved_optimal": found.proved_optimal,
        "evaluations": found.evaluations,
        "target_epsilon": found.target_epsilon,
    }


def tradeoff(document: Mapping[str, Any], progress: Progress) -> Answer:
    """The trade-off curve, certified, and what an attacker could do in words."""
    question = read_question(document, also=("false_positive_rates", "prior"))
    rates = _rates(document)
    prior = require_number("prior", plain(document.get("prior", 0.5)), above=0.0, below=1.0)
    function = groupdp.trade_off(question.run, **question.neighbour)
    found = function.curve(rates, progress=lambda fraction: progress(0.7 * fraction))
    risk = groupdp.risk(
        question.run,
        **question.neighbour,
        false_positive_rates=SPOKEN_RATES,
        prior=prior,
        progress=lambda fraction: progress(0.7 + 0.3 * fraction),
    )
    points = [
        {
            "false_positive_rate": float(rate),
            "false_negative_rate": _pair(found.false_negative_rate_lower[i], found.false_negative_rate_upper[i]),
            "true_positive_rate": _pair(found.true_positive_rate_lower[i], found.true_positive_rate_upper[i]),
        }
        for i, rate in enumerate(found.false_positive_rate)
    ]
    return {
        "points": points,
        "advantage": sides(risk.advantage),
        "gaussian_mu": risk.gaussian.mu,
        "gaussian_mu_error": risk.gaussian.error,
        "prior": prior,
        "success": sides(risk.success),
        "words": _words(risk),
        **_echo(question, "delta"),
    }


def people(document: Mapping[str, Any], progress: Progress) -> Answer:
    """Each person's epsilon, from a CSV file of counts or from a tally [[examples, people], ...]."""
    question = read_question(document, also=("csv", "column", "tally"))
    adjacency, delta = question.adjacency, question.delta
    counts, numbers = _tally(document)
    view = groupdp.people_view(question.run, counts, delta=delta, adjacency=adjacency, progress=progress)
    rows: list[Answer] = [
        {"count": count, "people": number, "epsilon": sides(bounds)}
        for count, number, bounds in zip(view.counts, numbers, view.epsilon, strict=True)
    ]
    return {
        "people": sum(numbers),
        "examples": sum(count * number for count, number in zip(counts, numbers, strict=True)),
        "counts": rows,
        "protected": [
            {
                "threshold": threshold,
                "people": sum(row["people"] for row in rows if row["epsilon"]["upper"] <= threshold),
            }
            for threshold in (1.0, 2.0, 4.0, 8.0, 16.0)
        ],
    }


def statement(document: Mapping[str, Any], progress: Progress) -> Answer:
    """The privacy statement, in the format asked for."""
    from groupdp.statement import text as statements

    question = read_question(document, also=("title", "format"))
    formats = statement_formats()
    form = require_choice("format", document.get("format", "markdown"), tuple(formats))
    made = statements.make_statement(run_file_of(question), progress=progress)
    return {"format": form, "text": formats[form](made)}


def certificate(document: Mapping[str, Any], progress: Progress) -> Answer:
    """A certificate of the answer, with what the independent checker says of it."""
    try:
        from groupdp.certificate import certify
    except ImportError:
        raise LimitExceeded("certificates need the extra verify: pip install 'groupdp[verify]'.") from None
    question = read_question(document)
    file = run_file_of(question)
    from groupdp.statement.numbers import neighbours_of

    made = certify(list(file.phases), delta=file.stated_delta, seconds=20.0, progress=progress, **neighbours_of(file))
    return {
        "text": made.text,
        "digest": made.digest,
        "outcome": made.verdict.outcome,
        "reason": made.verdict.reason,
    }


def handover(document: Mapping[str, Any], progress: Progress) -> Answer:
    """The same question as a command line, as Python and as a run file."""
    from groupdp.run_file.write import run_file_text
    from groupdp.web.handover import as_command, as_python

    question = read_question(document, also=("title",))
    described = run_file_of(question)
    return {
        "command": as_command(question),
        "python": as_python(question),
        "toml": run_file_text(described),
        "statement_formats": list(statement_formats()),
    }


QUESTIONS: dict[str, Callable[[Mapping[str, Any], Progress], Answer]] = {
    "epsilon": epsilon,
    "delta": delta,
    "curve": curve,
    "baseline": baseline,
    "calibrate": calibrate,
    "tradeoff": tradeoff,
    "people": people,
    "statement": statement,
    "certificate": certificate,
    "handover": handover,
}


def sides(bounds: Bounds) -> Answer:
    """Bounds with both sides, in full and for people."""
    return {
        "lower": bounds.lower,
        "upper": bounds.upper,
        "lower_text": lower_text(bounds.lower),
        "upper_text": upper_text(bounds.upper),
        "tight": bounds.tight,
    }


def upper_text(value: float, digits: int = DIGITS) -> str:
    """An upper bound for people: rounded up."""
    return round_up(value, digits) if math.isfinite(value) else "infinity"


def lower_text(value: float, digits: int = DIGITS) -> str:
    """A lower bound for people: rounded down."""
    return round_down(value, digits) if math.isfinite(value) else ("infinity" if value > 0 else "-infinity")


def run_file_of(question: Question) -> Any:
    """The question as the run file that would ask it."""
    from groupdp.run_file import RunFile

    title = question.document.get("title", "DP-SGD run")
    question_of(question.phases, **question.neighbour)  # refuses a group that the run has no answer for
    if not isinstance(title, str) or not title.strip() or len(title) > 200 or not title.isprintable():
        raise InvalidField(f"title must be one line of at most 200 characters, got {shown(title)}.", "title")
    return RunFile(title=title.strip(), phases=question.phases, delta=question.delta, **question.neighbour)


def statement_formats() -> dict[str, Callable[[Any], str]]:
    """The formats of a statement in this version of the library."""
    from groupdp.statement import text as statements

    names = {"markdown": "as_markdown", "text": "as_text", "latex": "as_latex"}
    return {name: getattr(statements, function) for name, function in names.items() if hasattr(statements, function)}


def _epsilon(question: Question, progress: Progress) -> Bounds:
    return groupdp.epsilon(
        question.run, delta=question.delta, **question.neighbour, memory_budget=MEMORY, progress=progress
    )


def _epsilon_of_one(question: Question, progress: Progress) -> Bounds | None:
    """One example's epsilon; None where the library declines, or where one example has no meaning."""
    if not question.has_one_size:
        return None
    try:
        return groupdp.epsilon(
            question.run,
            delta=question.delta,
            group_size=1,
            adjacency=question.adjacency,
            memory_budget=MEMORY,
            progress=progress,
        )
    except (LimitExceeded, InvalidArgument):
        return None


def _poisson_claim(question: Question, progress: Progress) -> Answer | None:
    """What Poisson accounting would have claimed of a run whose batches are not sampled anew: not a guarantee."""
    if not any(phase.sampling.mistaken_for_poisson for phase in question.phases):
        return None
    phases = [
        replace(phase, sampling=groupdp.PoissonSampling(rate=float(phase.sampling.share_of_data())))
        if phase.sampling.mistaken_for_poisson
        else phase
        for phase in question.phases
    ]
    try:
        return sides(groupdp.epsilon(phases, delta=question.delta, **question.neighbour, progress=progress))
    except (LimitExceeded, InvalidArgument):
        return None


def _one_of_many(
    question: Question, size: int, delta: float, adjacency: str, progress: Progress
) -> Bounds | LimitExceeded:
    """One point of a curve; a point that the engines decline does not take the others with it."""
    try:
        return groupdp.epsilon(
            question.run, delta=delta, group_size=size, adjacency=adjacency, memory_budget=MEMORY, progress=progress
        )
    except LimitExceeded as error:
        return error


def _baseline(name: str, question: Question, sizes: Sequence[int], progress: Progress) -> list[float]:
    from groupdp.baselines import old_tool_epsilon, renyi_vadhan_epsilon, vadhan_epsilons

    run, delta, adjacency = question.run, question.delta, question.adjacency
    if name != "vadhan" or adjacency in CLASSIC_ADJACENCIES:
        _require_classic(question)
    if name == "vadhan":
        found = vadhan_epsilons(
            run,
            delta=delta,
            group_sizes=sizes,
            form="geometric",
            adjacency=adjacency,
            intervals=0,  # only the upper bound is shown
            tolerance=1e-4,
            progress=progress,
        )
        return [bounds.upper for bounds in found]
    uppers = []
    for done, size in enumerate(sizes):
        if name == "fdp":
            uppers.append(groupdp.fdp_epsilon(run, delta=delta, group_size=size, progress=progress).upper)
        elif name == "renyi":
            uppers.append(renyi_vadhan_epsilon(run, delta=delta, group_size=size).upper)
        else:
            uppers.append(old_tool_epsilon(run, delta=delta, group_size=size))
        progress((done + 1) / len(sizes))
    return uppers


def _require_group_size(question: Question) -> None:
    """Refuses removed and added where the library's function takes a group size alone."""
    if "removed" in question.document or "added" in question.document:
        raise InvalidField("group_size must be given for this question, instead of removed and added.", "group_size")


def _require_classic(question: Question) -> None:
    """Refuses what a baseline would answer with a number for something else."""
    if question.adjacency not in CLASSIC_ADJACENCIES:
        raise InvalidField(
            f"adjacency must be {' or '.join(CLASSIC_ADJACENCIES)} for this baseline, got {question.adjacency!r}.",
            "adjacency",
        )
    for phase in question.phases:
        if phase.sampling.name not in CLASSIC_SAMPLINGS:
            raise InvalidField(
                f"sampling must be {' or '.join(CLASSIC_SAMPLINGS)} for this baseline, got {phase.sampling.name!r}.",
                "sampling",
            )


def _group_sizes(document: Mapping[str, Any]) -> list[int]:
    sizes = document.get("group_sizes", list(range(1, 33)))
    if not isinstance(sizes, list) or not sizes or len(sizes) > MOST_GROUP_SIZES:
        raise InvalidField(
            f"group_sizes must be a list of 1 to {MOST_GROUP_SIZES} integers, got {shown(sizes)}.", "group_sizes"
        )
    checked = [require_integer("group_sizes", plain(size), at_least=1) for size in sizes]
    return sorted(set(checked))


def _rates(document: Mapping[str, Any]) -> list[float]:
    rates = document.get("false_positive_rates", list(RATES))
    if not isinstance(rates, list) or not rates or len(rates) > 100:
        raise InvalidField(f"false_positive_rates must be a list of 1 to 100 numbers, got {shown(rates)}.")
    return [require_number("false_positive_rates", plain(rate), at_least=0.0, at_most=1.0) for rate in rates]


def _tally(document: Mapping[str, Any]) -> tuple[list[int], list[int]]:
    """Distinct counts in increasing order, and how many people have each."""
    from groupdp.people.counts_file import parse_counts
    from groupdp.people.view import MOST_PEOPLE, tally

    if ("csv" in document) == ("tally" in document):
        raise InvalidField("csv or tally must be given, and not both.", "counts")
    if "csv" in document:
        text, column = document["csv"], document.get("column")
        if not isinstance(text, str):
            raise InvalidField(f"csv must be the text of a CSV file, got {shown(text)}.", "counts")
        if column is not None and not isinstance(column, str):
            raise InvalidField(f"column must be the name of a column, got {shown(column)}.", "column")
        return tally(parse_counts(text, column))
    rows = document["tally"]
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 2 for row in rows):
        raise InvalidField(f"tally must be a list of [examples, people], got {shown(rows)}.", "counts")
    found: dict[int, int] = {}
    for count, number in rows:
        size = require_integer("counts", plain(count), at_least=1)
        found[size] = found.get(size, 0) + require_integer("people", plain(number), at_least=1, at_most=MOST_PEOPLE)
    counts = tally(list(found))[0]  # refuses what is no list of counts
    return counts, [found[count] for count in counts]


def _sentence(question: Question, bounds: Bounds) -> str:
    """The guarantee, in one sentence."""
    whom = _whom(question)
    if bounds.upper == math.inf:
        return f"No finite ε protects {whom} at δ = {_number(question.delta)} under {_adjacency_text(question)}."
    return (
        f"The run is (ε, δ)-differentially private for {whom} under {_adjacency_text(question)}, "
        f"with ε = {upper_text(bounds.upper)} and δ = {_number(question.delta)}."
    )


def _number(value: float) -> str:
    """A parameter as people write it: 1e-6, not 1e-06."""
    return repr(value).replace("e-0", "e-")


def _whom(question: Question) -> str:
    group = question.group
    if "group_size" not in group:
        return f"{_count(group.get('removed', 0))} removed and {_count(group.get('added', 0))} added"
    size = group["group_size"]
    return "one example" if size == 1 else f"any group of up to {_count(size)} examples"


def _count(size: Any) -> str:
    if isinstance(size, Mapping):
        return " and ".join(f"{count} {name}" for name, count in size.items())
    return str(size)


def _adjacency_text(question: Question) -> str:
    return f"{question.adjacency} adjacency" if "group_size" in question.group else "exchange"


def _assumptions(question: Question) -> list[str]:
    """What must be true of the training for the guarantee to hold."""
    from groupdp.statement.text import assumptions

    return assumptions(run_file_of(question))


def _words(risk: Any) -> list[str]:
    """What the best attacker could do; every probability is an upper bound, rounded up."""
    sentences = [
        "The attacker sees every iterate of the run, knows everybody else's examples, and guesses whether this "
        "person's were used."
    ]
    for rate, bounds in risk.true_positive_rate.items():
        odds = f"1 in {round(1.0 / rate):,}".replace(",", "\u202f").replace(" ", "\u00a0")  # one word for line breaks
        sentences.append(
            f"An attack that wrongly accuses at most {odds} of those whose examples were not used finds at most "
            f"{_percent(bounds.upper)} of those whose were."
        )
    if risk.prior == 0.5:
        sentences.append(
            f"Somebody who would otherwise toss a coin guesses right with probability at most "
            f"{_percent(risk.success.upper)}."
        )
    else:
        sentences.append(
            f"About somebody who took part with probability {risk.prior:g}, a guess is right with probability at most "
            f"{_percent(risk.success.upper)}."
        )
    return sentences


def _percent(share: float) -> str:
    """A share as a percentage, rounded up; below 100 % it has as many nines as it needs."""
    if share >= 1.0:
        return "100 %"
    for digits in (3, 4, 5, 6, 8, 12):
        text = round_up(100.0 * share * (1.0 + 2.0**-50), digits)
        if float(text) < 100.0:
            return f"{text} %"
    return "100 %"


def _pair(lower: Any, upper: Any) -> Answer:
    return {"lower": float(lower), "upper": float(upper)}


def _echo(question: Question, *without: str) -> Answer:
    """The question, beside its answer."""
    echo: Answer = {"adjacency": question.adjacency, "version": groupdp.__version__}
    if "group_size" not in without:
        echo.update(question.group)
    if "delta" not in without:
        echo["delta"] = question.delta
    return echo
