"""`groupdp statement`, `tradeoff`, `certify` and `verify`: what reviewers read, and how they check it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import typer

from groupdp._files import read_file
from groupdp.cli.asked import Asked
from groupdp.cli.command import command
from groupdp.cli.options import COMPUTATION, OUTPUT, PLOT, argument, choice, flag, number, numbers, out, words
from groupdp.cli.output import (
    Answer,
    Content,
    Table,
    Verbatim,
    drawn,
    dump_json,
    emit_text,
    output_width,
    progress_bar,
    values_of,
)
from groupdp.engines import Progress
from groupdp.errors import InvalidArgument
from groupdp.printing import given, lower_text, sides, upper_text

#: Bytes of a certificate, at most (certificate/checker/reading.py refuses more).
_LARGEST_CERTIFICATE = 1_000_000
#: Every format, with the suffix of its files.
_FORMATS = {"markdown": ".md", "text": ".txt", "latex": ".tex", "json": ".json"}

_ATTACK: dict[str, Any] = {
    "prior": number(
        "With --short: how sure the attacker is beforehand, a probability (default 0.5).", above=0.0, below=1.0
    ),
    "false_alarms": number("With --short: the attacker's rate of false alarms (default 0.01).", above=0.0, below=1.0),
}


@command(
    "statement",
    "run.toml --out statement.md",
    form=choice(
        _FORMATS,
        "Format; if not given, by the suffix of --out, or markdown.",
        OUTPUT,
        metavar="|".join(_FORMATS),
        names=("--format",),
    ),
    out=out("FILE", "Write it to a file instead of the terminal."),
    certificate=words("CLAIM.JSON", "A certificate of this claim, for the statement to cite.", OUTPUT),
    short=flag("Only what the epsilon means for one person."),
    **_ATTACK,
)
def statement(
    asked: Asked,
    *,
    form: str | None,
    out: str | None,
    certificate: str | None,
    short: bool,
    prior: float | None,
    false_alarms: float | None,
    as_json: bool,
    progress: Progress,
) -> Answer:
    """A privacy statement for reviewers: the guarantee, whom it protects, and what it assumes."""
    if short:
        for name, value in (("format", form), ("out", out), ("certificate", certificate)):
            if value is not None:
                raise InvalidArgument(name, value, "be left out with --short")
        return _in_short(asked, prior, false_alarms, progress)
    for name, rate in (("prior", prior), ("false_alarms", false_alarms)):
        if rate is not None:
            raise InvalidArgument(name, rate, "be given together with --short")
    chosen = _format(form, out, as_json=as_json)
    from groupdp import statement as statements

    proof = None if certificate is None else read_file("certificate", certificate, most=_LARGEST_CERTIFICATE)
    ledger = None
    if len(asked.names) == 1 and asked.names[0].endswith(".jsonl"):
        from groupdp.ledger import read_ledger

        ledger = read_ledger(asked.names[0])
    made = statements.make_statement(asked.file, certificate=proof, ledger=ledger, progress=progress)
    if chosen == "json":
        text = dump_json(statements.as_json(made)) + "\n"
    else:
        width = {} if out is not None or chosen != "text" else {"width": min(statements.TEXT_WIDTH, output_width())}
        text = statements.FORMATS[chosen](made, **width)
    return Answer(text=[Verbatim(text)] if out is None else [], files={"out": text})


@command("explain", "run.toml --prior 0.1 --false-alarms 0.01", hidden=True, **_ATTACK)
def explain(asked: Asked, *, prior: float | None, false_alarms: float | None, progress: Progress) -> Answer:
    """The old spelling of `groupdp statement --short`."""
    typer.echo("groupdp explain is now groupdp statement --short; the old spelling works in this release.", err=True)
    return _in_short(asked, prior, false_alarms, progress)


def _in_short(asked: Asked, prior: float | None, false_alarms: float | None, progress: Progress) -> Answer:
    """What the epsilon means for one person, with certified numbers."""
    asked_for = {"prior": prior, "false_alarm_rate": false_alarms}
    attack: dict[str, Any] = {name: value for name, value in asked_for.items() if value is not None}
    from groupdp.statement.text import explain

    meaning = explain(asked.run, delta=asked.delta, progress=progress, **attack, **asked.neighbours)
    return Answer(
        json={**meaning.as_json(), **asked.as_json_fields()},
        about=asked.about(),
        text=["", *(f"- {sentence}" for sentence in meaning.sentences())],
    )


def _format(form: str | None, out: str | None, *, as_json: bool) -> str:
    """The format that the options name, or else the suffix of the file."""
    if as_json and form not in (None, "json"):
        raise InvalidArgument("format", form, "be json together with --json")
    asked = "json" if as_json else form
    named = {suffix: name for name, suffix in _FORMATS.items()}.get(Path(out or "").suffix.lower())
    if asked is not None and named is not None and asked != named:
        raise InvalidArgument("out", out, f"end in {_FORMATS[asked]} for the format {asked}")
    return asked or named or "markdown"


@command(
    "tradeoff",
    "--sampling-rate 0.01 --noise-multiplier 1 --steps 2000 --group-size 4 --plot tradeoff.png",
    question=("group_size", "adjacency", "removed", "added"),
    prior=number("How sure the attacker is beforehand, a probability.", default="0.5", above=0.0, below=1.0),
    rates=numbers("False positive rates.", "1e-6,1e-3,0.01,0.1,0.5", at_least=0.0, at_most=1.0),
    plot=PLOT,
)
def tradeoff(asked: Asked, *, prior: float, rates: list[float], plot: str | None, progress: Progress) -> Answer:
    """How well could an attacker detect that a person took part?"""
    from groupdp.question import neighbours_of
    from groupdp.tradeoff import trade_off
    from groupdp.tradeoff.risk import risk

    function = trade_off(asked.run, **asked.neighbours)
    points = function.curve(rates, progress=progress)
    asked_of = {"false_positive_rates": rates, "prior": prior, "function": function, **asked.neighbours}
    attack = risk(asked.run, progress=progress, **asked_of)
    files: dict[str, Content] = {}
    if plot is not None:
        from groupdp.figures import rates_to_draw

        curve = function.curve(rates_to_draw(), tolerance=2e-3, progress=progress)
        files["plot"] = drawn("draw_trade_off", curve, title=asked.title(delta=False), width=110)
    rows, described = [], []
    for i, rate in enumerate(map(float, points.false_positive_rate)):
        missed, detected = (
            {side: float(getattr(points, f"{name}_rate_{side}")[i]) for side in ("lower", "upper")}
            for name in ("false_negative", "true_positive")
        )
        posterior = attack.posterior[rate]
        # An alarm that never sounds accuses nobody.
        belief = upper_text(posterior.upper) if detected["upper"] > 0.0 else "-"
        rows.append((given(rate), upper_text(detected["upper"]), lower_text(missed["lower"]), belief))
        both = {"false_negative_rate": missed, "true_positive_rate": detected}
        described.append({"false_positive_rate": rate, **both, "posterior": sides(posterior)})
    table = Table(
        f"The best attack on {asked.group_text()}",
        ("false alarms", "detected, at most", "missed, at least", "posterior, at most"),
        rows,
        [
            neighbours_of(asked.run, **asked.neighbours).cases.alarm(),
            f"Advantage (largest TPR - FPR): at most {upper_text(attack.advantage.upper, 8)}. "
            f"Probability of a right guess with prior {given(attack.prior)}: at most "
            f"{upper_text(attack.success.upper, 8)}.",
            f"Closest Gaussian mechanism: mu = {given(attack.gaussian.mu)}, within "
            f"{upper_text(attack.gaussian.error, 2)} in both error rates.",
            "" if function.tight else "Valid, not tight: a better analysis may prove that an attacker detects less.",
        ],
    )
    payload = {
        "advantage": sides(attack.advantage),
        "gaussian_mu": attack.gaussian.mu,
        "gaussian_mu_error": attack.gaussian.error,
        "prior": attack.prior,
        "success": sides(attack.success),
        "points": described,
        "tight": function.tight,
    }
    return Answer(json={**payload, **asked.as_json_fields()}, about=asked.about(), text=[table], files=files)


#: Exit status of each outcome.
STATUS = {"verified": 0, "refuted": 1, "undecided": 3}


@command(
    "certify",
    "--sampling-rate 0.01 --noise-multiplier 1 --steps 2000 --delta 1e-6 --group-size 9 -o claim.json",
    out=out("FILE", "Write it to a file instead of the terminal."),
    seconds=number("Fail after this many seconds (default: no limit).", COMPUTATION, above=0.0),
)
def certify(asked: Asked, *, out: str | None, seconds: float | None, as_json: bool) -> Answer:
    """A certificate of the run's epsilon that others can check without trusting this program."""
    target = asked.delta
    asked.file.require_covered()
    need_flint()
    from groupdp import certificate
    from groupdp.certificate.checker import reading

    with progress_bar("certify", seconds or math.inf):
        made = certificate.certify(asked.run, delta=target, seconds=seconds, **asked.neighbours)
    verdict = made.verdict
    if not as_json:
        emit_text(f"{verdict.outcome}: {verdict.reason}", indent="  ", err=True)
        emit_text(reading.headline("  claimed", verdict.claim), err=True)
        typer.echo(f"  sha256 {made.digest}", err=True)
    outcome = values_of(verdict, ("outcome", "reason"))
    return Answer(
        json={**outcome, **_widths(verdict.claim), "sha256": made.digest, "certificate": made.text},
        text=[Verbatim(made.text)] if out is None else [],
        files={"out": made.text},
        status=STATUS[verdict.outcome],
    )


@command(
    "verify",
    "claim.json",
    claim=argument("CLAIM.JSON", "The certificate (- for standard input): docs/certificate.md."),
    seconds=number("Stop, undecided, after this many seconds.", COMPUTATION, default="300", above=0.0),
)
def verify(claim: str, *, seconds: float) -> Answer:
    """Prove or refute a certificate. Exit status: 0 verified, 1 refuted, 3 undecided, 2 not a certificate."""
    need_flint()
    from groupdp import certificate
    from groupdp.certificate.checker import reading

    text = read_file("claim", claim, most=reading.LARGEST_FILE)
    try:
        with progress_bar("verify", seconds):
            verdict = certificate.verify(text, seconds=seconds)
    except certificate.NotACertificate as error:
        raise InvalidArgument("claim", claim, "be a certificate", f"{error}") from None
    lines = [
        reading.in_plain_words(verdict.outcome, verdict.claim),
        *reading.sentences(verdict.claim, verified=verdict.outcome == "verified"),
        verdict.reason,
        *verdict.details,
    ]
    return Answer(
        json={
            **values_of(verdict, ("outcome", "reason", "claim")),
            **_widths(verdict.claim),
            "sha256": verdict.digest,
            "details": list(verdict.details),
        },
        about=[reading.headline(verdict.outcome, verdict.claim)],
        text=[*(f"  {line}" for line in lines), Verbatim(f"  sha256 {verdict.digest}\n")],
        status=STATUS[verdict.outcome],
    )


def _widths(claim: dict[str, Any]) -> dict[str, float]:
    """`width` and `relative_width` of the claimed interval."""
    from groupdp.certificate.checker import reading

    return {name: float(value) for name, value in reading.widths(claim).items()}


def need_flint() -> None:
    """Complain in one sentence where the extra is not installed."""
    try:
        import flint  # noqa: F401
    except ImportError:
        sentence = "certificates need python-flint: install groupdp with its extra 'verify'."
        raise InvalidArgument.saying("certificate", sentence) from None
