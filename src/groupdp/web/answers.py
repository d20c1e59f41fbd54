"""One function per question of the API: a JSON document in, a JSON document out, by the library's own functions.

Formal guarantee. Every number called `upper` is an upper side of the library's bounds, every `lower` a lower side; the
texts beside them are rounded outward. Nothing is cached and nothing is written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import groupdp
from groupdp.bounds import Bounds, upper_or_both
from groupdp.engines import Progress
from groupdp.errors import InvalidArgument, LimitExceeded, require_choice, require_integer, require_number
from groupdp.guarantees import quick_epsilons
from groupdp.neighbours import ADJACENCIES
from groupdp.printing import round_down, round_up
from groupdp.run_file.run import RunFile
from groupdp.web import (
    FEW_RATES,
    RATES,
    counts_of,
    delta_in,
    group_sizes_of,
    neighbours_in,
    number_of,
    plain,
    rates_of,
    read_question,
    require_answered,
    require_classic,
    require_group_size,
)
from groupdp.web.texts import (
    DIGITS,
    Answer,
    as_command,
    as_python,
    attack_in_words,
    echo,
    linear,
    pair,
    sentence,
    sides,
)

#: Of the proofs of a certificate: some 20 seconds.
_CERTIFICATE_STEPS = 100_000

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
    from groupdp.baselines import poisson_claim
    from groupdp.statement.text import assumptions

    question = read_question(document)
    bounds = epsilon_of(question, progress)
    single = None
    if question.sources is None and question.removed is question.added is None:
        single = _unless_declined(lambda: epsilon_of(question, progress, group_size=1))
    about: dict[str, Any] = {"delta": delta_in(question), "progress": progress, **neighbours_in(question)}
    claim = _unless_declined(lambda: poisson_claim(question.run, **about))
    require_answered(question)
    size = question.group_size
    return {
        "epsilon": sides(bounds),
        "interval": str(bounds),
        "decided_by": bounds.provenance.adjacency,
        "directions": {name: pair(*both) for name, both in bounds.provenance.directions.items()},
        "engine": bounds.provenance.engine,
        "one_example": None if single is None else sides(single),
        "linear_text": None if single is None else linear(size, single)[1],
        "poisson_claim": sides(claim) if claim is not None and claim.upper < bounds.upper else None,
        "steps": [phase.releases for phase in question.phases],
        "sentence": sentence(question, bounds),
        "assumptions": assumptions(question),
        **echo(question),
    }


def delta(document: Mapping[str, Any], progress: Progress) -> Answer:
    """Bounds on delta for an epsilon, and on its logarithm."""
    question = read_question(document, also=("epsilon",))
    target = number_of(document, "epsilon", at_least=0.0)
    arguments = {**neighbours_in(question), "epsilon": target, "memory_budget": MEMORY, "progress": progress}
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
    points: list[Answer] = []
    single: Bounds | None = None
    for size, answer in points_of(question, group_sizes_of(document), progress):
        if isinstance(answer, Bounds):
            single = answer if size == 1 else single
            points.append({"group_size": size, "epsilon": sides(answer)})
            if single is not None:
                points[-1]["linear"], points[-1]["linear_text"] = linear(size, single)
        else:
            points.append({"group_size": size, "declined": str(answer)})
    return {"points": points, **echo(question, "group_size", "group_sizes")}


def baseline(document: Mapping[str, Any], progress: Progress) -> Answer:
    """Earlier methods, for many group sizes: bounds on what each gives; of TensorFlow Privacy a model's number.

    With the name spread, of a shuffled run: spread allocation in its place.
    """
    question = read_question(document, also=("group_sizes", "name"))
    name = require_choice("name", document.get("name"), BASELINES)
    sizes = group_sizes_of(document)
    answers = baseline_of(name, question, sizes, progress)
    return {
        "name": name,
        # Renyi divergences and TensorFlow Privacy know no order: theirs holds for removed and for added examples.
        "adjacency": question.adjacency if name in ("vadhan", "fdp", "spread") else ADJACENCIES[0],
        "points": [
            {"group_size": size, "lower": bounds.lower, "upper": bounds.upper, "text": upper_or_both(bounds, DIGITS)}
            for size, bounds in zip(sizes, answers, strict=True)
        ],
    }


def calibrate(document: Mapping[str, Any], progress: Progress) -> Answer:
    """The least noise, the most steps, the largest rate, batch or group that meets a target epsilon."""
    question = read_question(document, also=("epsilon", "parameter", "phase"))
    require_group_size(question)
    parameter = require_choice("parameter", document.get("parameter", "noise_multiplier"), PARAMETERS)
    target = {
        "epsilon": number_of(document, "epsilon", above=0.0),
        "delta": delta_in(question),
        "adjacency": question.adjacency,
        "progress": progress,
    }
    if parameter != "group_size":
        target["group_size"] = neighbours_in(question)["group_size"]
    if parameter not in ("group_size", "noise_multiplier"):
        phase = plain(document.get("phase", 0))
        target["phase"] = require_integer("phase", phase, at_least=0, at_most=len(question.phases) - 1)
    result = _CALIBRATIONS[parameter](question.run, **target)
    safe = round_up if parameter == "noise_multiplier" else round_down
    names = ("parameter", "value", "failing_value", "proved_optimal", "evaluations", "target_epsilon")
    return {
        **{name: getattr(result, name) for name in names},
        "value_text": safe(float(result.value), 8),
        "epsilon": sides(result.epsilon),
    }


def tradeoff(document: Mapping[str, Any], progress: Progress) -> Answer:
    """The trade-off curve, certified, and what an attacker could do in words."""
    question = read_question(document, also=("false_positive_rates", "prior"))
    rates = rates_of(document)
    prior = require_number("prior", plain(document.get("prior", 0.5)), above=0.0, below=1.0)
    function = groupdp.trade_off(question.run, **neighbours_in(question))
    tolerance = None
    if rates is None:
        rates, tolerance = list(FEW_RATES if function.is_costly else RATES), PICTURE_TOLERANCE
    drawn = function.curve(rates, tolerance=tolerance, progress=lambda fraction: progress(0.7 * fraction))
    risk = groupdp.risk(
        question.run,
        **neighbours_in(question),
        false_positive_rates=SPOKEN_RATES,
        prior=prior,
        function=function,
        progress=lambda fraction: progress(0.7 + 0.3 * fraction),
    )
    points = [
        {
            "false_positive_rate": float(rate),
            "false_negative_rate": pair(drawn.false_negative_rate_lower[i], drawn.false_negative_rate_upper[i]),
            "true_positive_rate": pair(drawn.true_positive_rate_lower[i], drawn.true_positive_rate_upper[i]),
        }
        for i, rate in enumerate(drawn.false_positive_rate)
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
    adjacency, delta = question.adjacency, delta_in(question)
    view = groupdp.people_view(question.run, counts_of(document), delta=delta, adjacency=adjacency, progress=progress)
    return {
        "people": view.total,
        "examples": sum(count * number for count, number in zip(view.counts, view.people, strict=True)),
        "counts": [
            {"count": count, "people": number, "epsilon": sides(bounds)}
            for count, number, bounds in zip(view.counts, view.people, view.epsilon, strict=True)
        ],
        "protected": [
            {"threshold": threshold, "people": view.protected(threshold)} for threshold in (1.0, 2.0, 4.0, 8.0, 16.0)
        ],
    }


def statement(document: Mapping[str, Any], progress: Progress) -> Answer:
    """The privacy statement, in the format asked for; short is what it means for one person, in five sentences."""
    from groupdp.statement import FORMATS, SHORT, make_statement
    from groupdp.statement.text import explain

    question = read_question(document, also=("title", "format"))
    form = require_choice("format", document.get("format", "markdown"), (*FORMATS, SHORT))
    require_answered(question)
    if form == SHORT:
        meaning = explain(question.run, delta=delta_in(question), progress=progress, **neighbours_in(question))
        return {"format": form, "text": "\n".join(f"- {sentence}" for sentence in meaning.sentences())}
    return {"format": form, "text": FORMATS[form](make_statement(question, progress=progress))}


def certificate(document: Mapping[str, Any], progress: Progress) -> Answer:
    """A certificate of the answer, with what the independent checker says of it."""
    try:
        from groupdp.certificate import certify
    except ImportError:
        raise LimitExceeded("certificates need the extra verify: pip install 'groupdp[verify]'.") from None
    question = read_question(document)
    require_answered(question)
    limits: dict[str, Any] = {"steps": _CERTIFICATE_STEPS, "progress": progress}
    made = certify(question.run, delta=delta_in(question), **limits, **neighbours_in(question))
    return {"text": made.text, "digest": made.digest, "outcome": made.verdict.outcome, "reason": made.verdict.reason}


def handover(document: Mapping[str, Any], progress: Progress) -> Answer:
    """The same question as a command line, as Python and as a run file."""
    from groupdp.run_file.run import run_file_text
    from groupdp.statement import FORMATS

    question = read_question(document, also=("title",))
    require_answered(question)
    return {
        "command": as_command(question),
        "python": as_python(question),
        "toml": run_file_text(question),
        "statement_formats": list(FORMATS),
    }


QUESTIONS: dict[str, Callable[[Mapping[str, Any], Progress], Answer]] = {
    function.__name__: function
    for function in (
        *(epsilon, delta, curve, baseline, calibrate),
        *(tradeoff, people, statement, certificate, handover),
    )
}


def _unless_declined(ask: Callable[[], Bounds | None]) -> Bounds | None:
    """The answer to a second question; None where the library declines it, or where it has no meaning."""
    try:
        return ask()
    except (LimitExceeded, InvalidArgument):
        return None


#: Memory that a lattice may take in one answer, in bytes.
MEMORY = 400_000_000
#: Twice as many sizes are asked at once as long as it takes less than this, in seconds, and one by one where not:
#: a user who moves on must not wait for a whole curve.
_QUICK = 0.02
_MOST_AT_ONCE = 32


def points_of(
    question: RunFile, sizes: Sequence[int], progress: Progress
) -> Iterator[tuple[int, Bounds | LimitExceeded]]:
    """Bounds on epsilon for every group size; a point that the engines decline does not take the others with it."""
    done, many = 0, 1
    about = {"delta": delta_in(question), "adjacency": question.adjacency}
    while done < len(sizes):
        begun, part = time.perf_counter(), sizes[done : done + many]
        quick = quick_epsilons([(question.run, {**about, "group_size": size}) for size in part], threads=1)
        for size, answer in zip(part, quick, strict=True):
            try:
                yield size, answer or epsilon_of(question, progress, group_size=size)
            except LimitExceeded as error:
                yield size, error
        done += len(part)
        progress(done / len(sizes))
        many = min(2 * many, _MOST_AT_ONCE) if time.perf_counter() - begun < _QUICK else 1


def epsilon_of(question: RunFile, progress: Progress, *, group_size: int | None = None) -> Bounds:
    """Bounds on epsilon, for another group than the question's if one is given."""
    other = {"group_size": group_size, "adjacency": question.adjacency}
    neighbours = neighbours_in(question) if group_size is None else other
    about: dict[str, Any] = {"memory_budget": MEMORY, "progress": progress, **neighbours}
    return groupdp.epsilon(question.run, delta=delta_in(question), **about)


def baseline_of(name: str, question: RunFile, sizes: Sequence[int], progress: Progress) -> list[Bounds]:
    """Bounds on the epsilon of a named method for every group size; TensorFlow Privacy's number on both sides."""
    from groupdp.baselines import old_tool_epsilon, renyi_vadhan_epsilon, spread_instead, vadhan_epsilons

    run: Any = question.run
    about: dict[str, Any] = {"delta": delta_in(question), "adjacency": question.adjacency, "progress": progress}
    if name != "spread":
        require_classic(question)
    if name == "vadhan":
        return vadhan_epsilons(run, group_sizes=sizes, form="geometric", **about)

    answers = []
    for done, size in enumerate(sizes, 1):
        if name == "fdp":
            answer: Bounds | None = groupdp.fdp_epsilon(run, group_size=size, **about)
        elif name == "renyi":
            answer = renyi_vadhan_epsilon(run, delta=delta_in(question), group_size=size)
        elif name == "old-tool":
            number = old_tool_epsilon(run, delta=delta_in(question), group_size=size)
            answer = Bounds(number, number)
        else:
            answer = spread_instead(run, group_size=size, memory_budget=MEMORY, **about)
        if answer is None:
            raise InvalidArgument("name", name, "be another one unless the run is shuffled")
        answers.append(answer)
        progress(done / len(sizes))
    return answers
