"""One function per question of the API: a JSON document in, a JSON document out, by the library's own functions.

Formal guarantee. Every number called `upper` is an upper side of the library's bounds, every `lower` a lower side; the
texts beside them are rounded outward. Nothing is cached and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import groupdp
from groupdp._validation import require_choice, require_integer, require_number
from groupdp.bounds import Bounds, upper_or_both
from groupdp.errors import InvalidArgument, LimitExceeded
from groupdp.neighbours import ADJACENCIES
from groupdp.printing import round_down, round_up
from groupdp.web.form import (
    FEW_RATES,
    RATES,
    Question,
    group_sizes_of,
    plain,
    rates_of,
    read_question,
    require_group_size,
    tally_of,
)
from groupdp.web.group_sizes import MEMORY, baseline_of, epsilon_of, points_of
from groupdp.web.texts import (
    DIGITS,
    Answer,
    as_command,
    as_python,
    assumptions_of,
    attack_in_words,
    echo,
    linear,
    pair,
    run_file_of,
    sentence,
    sides,
)

#: Of the proofs of a certificate: some 20 seconds.
_CERTIFICATE_STEPS = 100_000

Progress = Callable[[float], None]

#: False positive rates that are put into words.
SPOKEN_RATES = (1e-3, 1e-6)
#: Relative width of the bounds on a curve that is drawn.
PICTURE_TOLERANCE = 2e-3
BASELINES = ("vadhan", "renyi", "old-tool", "fdp", "spread")
_CALIBRATIONS: dict[str, Callable[..., Any]] = {
    "noise_multiplier": groupdp.calibrate_noise,
    "steps": groupdp.calibrate_steps,
    "sampling_rate": groupdp.calibrate_rate,
    "batch_size": groupdp.calibrate_batch_size,
    "group_size": groupdp.calibrate_group_size,
}
PARAMETERS = tuple(_CALIBRATIONS)


def epsilon(document: Mapping[str, Any], progress: Progress) -> Answer:
    """Bounds on epsilon for a delta, what they assume, and one example's epsilon beside them."""
    question = read_question(document)
    bounds = epsilon_of(question, progress)
    one = _epsilon_of_one(question, progress)
    size = question.group.get("group_size")
    return {
        "epsilon": sides(bounds),
        "interval": str(bounds),
        "decided_by": bounds.provenance.adjacency,
        "directions": {name: pair(*found) for name, found in bounds.provenance.directions.items()},
        "engine": bounds.provenance.engine,
        "one_example": None if one is None else sides(one),
        "linear_text": None if one is None or size is None else linear(size, one)[1],
        "poisson_claim": _poisson_claim(question, progress),
        "steps": [phase.releases for phase in question.phases],
        "sentence": sentence(question, bounds),
        "assumptions": assumptions_of(question),
        **echo(question),
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
        **echo(question, "delta"),
    }


def curve(document: Mapping[str, Any], progress: Progress) -> Answer:
    """Bounds on epsilon for many group sizes, and the linear reference."""
    question = read_question(document, also=("group_sizes",))
    points = []
    one: Bounds | None = None
    for size, found in points_of(question, group_sizes_of(document), progress):
        if size == 1:
            one = found if isinstance(found, Bounds) else None
        point: Answer = {"group_size": size}
        if isinstance(found, Bounds):
            point["epsilon"] = sides(found)
            if one is not None:
                point["linear"], point["linear_text"] = linear(size, one)
        else:
            point["declined"] = str(found)
        points.append(point)
    return {"points": points, **echo(question, "group_size", "group_sizes")}


def baseline(document: Mapping[str, Any], progress: Progress) -> Answer:
    """Earlier methods, for many group sizes: bounds on what each gives; of the old tool a model's number.

    With the name spread, of a shuffled run: spread allocation in its place.
    """
    question = read_question(document, also=("group_sizes", "name"))
    name = require_choice("name", document.get("name"), BASELINES)
    sizes = group_sizes_of(document)
    found = baseline_of(name, question, sizes, progress)
    return {
        "name": name,
        # Renyi divergences and the old tool know no order: theirs holds for removed and for added examples.
        "adjacency": question.adjacency if name in ("vadhan", "fdp", "spread") else ADJACENCIES[0],
        "points": [
            {"group_size": size, "lower": bounds.lower, "upper": bounds.upper, "text": upper_or_both(bounds, DIGITS)}
            for size, bounds in zip(sizes, found, strict=True)
        ],
    }


def calibrate(document: Mapping[str, Any], progress: Progress) -> Answer:
    """The least noise, the most steps, the largest rate, batch or group that meets a target epsilon."""
    question = read_question(document, also=("epsilon", "parameter", "phase"))
    require_group_size(question)
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
    found = _CALIBRATIONS[parameter](question.run, **target)
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
    rates = rates_of(document)
    prior = require_number("prior", plain(document.get("prior", 0.5)), above=0.0, below=1.0)
    function = groupdp.trade_off(question.run, **question.neighbour)
    tolerance = None
    if rates is None:
        rates, tolerance = list(FEW_RATES if function.is_costly else RATES), PICTURE_TOLERANCE
    found = function.curve(rates, tolerance=tolerance, progress=lambda fraction: progress(0.7 * fraction))
    risk = groupdp.risk(
        question.run,
        **question.neighbour,
        false_positive_rates=SPOKEN_RATES,
        prior=prior,
        function=function,
        progress=lambda fraction: progress(0.7 + 0.3 * fraction),
    )
    points = [
        {
            "false_positive_rate": float(rate),
            "false_negative_rate": pair(found.false_negative_rate_lower[i], found.false_negative_rate_upper[i]),
            "true_positive_rate": pair(found.true_positive_rate_lower[i], found.true_positive_rate_upper[i]),
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
        "words": attack_in_words(risk, question),
        **echo(question, "delta"),
    }


def people(document: Mapping[str, Any], progress: Progress) -> Answer:
    """Each person's epsilon, from a CSV file of counts or from a tally [[examples, people], ...]."""
    question = read_question(document, also=("csv", "column", "tally"))
    adjacency, delta = question.adjacency, question.delta
    counts, numbers = tally_of(document)
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
    """The privacy statement, in the format asked for; short is what it means for one person, in five sentences."""
    from groupdp.statement.formats import FORMATS, SHORT
    from groupdp.statement.numbers import explain, make_statement

    question = read_question(document, also=("title", "format"))
    form = require_choice("format", document.get("format", "markdown"), (*FORMATS, SHORT))
    file = run_file_of(question)
    if form == SHORT:
        found = explain(list(file.phases), delta=file.stated_delta, progress=progress, **file.keywords)
        return {"format": form, "text": "\n".join(f"- {sentence}" for sentence in found.sentences())}
    made = make_statement(file, progress=progress)
    return {"format": form, "text": FORMATS[form](made)}


def certificate(document: Mapping[str, Any], progress: Progress) -> Answer:
    """A certificate of the answer, with what the independent checker says of it."""
    try:
        from groupdp.certificate import certify
    except ImportError:
        raise LimitExceeded("certificates need the extra verify: pip install 'groupdp[verify]'.") from None
    question = read_question(document)
    file = run_file_of(question)
    made = certify(
        list(file.phases), delta=file.stated_delta, steps=_CERTIFICATE_STEPS, progress=progress, **file.keywords
    )
    return {"text": made.text, "digest": made.digest, "outcome": made.verdict.outcome, "reason": made.verdict.reason}


def handover(document: Mapping[str, Any], progress: Progress) -> Answer:
    """The same question as a command line, as Python and as a run file."""
    from groupdp.run_file.write import run_file_text
    from groupdp.statement.formats import FORMATS

    question = read_question(document, also=("title",))
    return {
        "command": as_command(question),
        "python": as_python(question),
        "toml": run_file_text(run_file_of(question)),
        "statement_formats": list(FORMATS),
    }


QUESTIONS: dict[str, Callable[[Mapping[str, Any], Progress], Answer]] = {
    function.__name__: function
    for function in (
        *(epsilon, delta, curve, baseline, calibrate),
        *(tradeoff, people, statement, certificate, handover),
    )
}


def _epsilon_of_one(question: Question, progress: Progress) -> Bounds | None:
    """One example's epsilon; None where the library declines, or where one example has no meaning."""
    if not question.has_one_size:
        return None
    try:
        return epsilon_of(question, progress, group_size=1)
    except (LimitExceeded, InvalidArgument):
        return None


def _poisson_claim(question: Question, progress: Progress) -> Answer | None:
    """What Poisson accounting would have claimed of a run whose batches are not sampled anew: not a guarantee."""
    from groupdp.baselines.comparison import poisson_claim

    try:
        claim = poisson_claim(question.run, delta=question.delta, progress=progress, **question.neighbour)
    except (LimitExceeded, InvalidArgument):
        return None
    return None if claim is None else sides(claim)
