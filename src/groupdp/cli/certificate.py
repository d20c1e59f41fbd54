"""`groupdp certify` and `groupdp verify`: write a claim that others can check, and check it."""

from __future__ import annotations

import math

import typer

from groupdp._files import read_file
from groupdp.cli.asked import Asked
from groupdp.cli.command import command
from groupdp.cli.options import COMPUTATION, argument, number, out
from groupdp.cli.output import emit_json, emit_text, name_written, new_files, output_width, waiting, wrapped
from groupdp.errors import InvalidArgument

#: Exit status of each outcome.
STATUS = {"verified": 0, "refuted": 1, "undecided": 3}


@command(
    "certify",
    "--sampling-rate 0.01 --noise-multiplier 1 --steps 2000 --delta 1e-6 --group-size 9 -o claim.json",
    out=out("FILE", "Write it to a file instead of the terminal."),
    seconds=number("Fail after this long; no limit if not given.", COMPUTATION, above=0.0),
)
def certify(asked: Asked, *, out: str | None, seconds: float | None, as_json: bool) -> None:
    """A certificate of the run's epsilon that others can check without trusting this program."""
    target = asked.delta
    asked.file.require_covered()
    need_flint()
    from groupdp import certificate
    from groupdp.certificate.checker import claim_text

    with new_files(force=asked.force, out=out) as files:
        with waiting("certify", seconds or math.inf):
            made = certificate.certify(asked.run, delta=target, seconds=seconds, **asked.neighbours)
        if out is not None:
            files.write_text(out, made.text)
        elif not as_json:
            typer.echo(made.text, nl=False)
    found = made.verdict
    if as_json:
        emit_json(
            {
                "outcome": found.outcome,
                "reason": found.reason,
                "width": float(claim_text.width(made.document["claim"])),
                "relative_width": made.width if math.isfinite(made.width) else None,
                "sha256": made.digest,
                "certificate": made.text,
            }
        )
    else:
        typer.echo(wrapped(f"{found.outcome}: {found.reason}", width=output_width(), indent="  "), err=True)
        claim = made.document["claim"]
        lower, upper = (claim["epsilon"][side] for side in ("lower", "upper"))
        width = claim_text.width(claim)
        apart = "" if width in ("0", "infinity") else f" (width {width})"
        claimed = f"claimed{apart}: epsilon in [{lower}, {upper}]"
        typer.echo(wrapped(f"  {claimed}", width=output_width(), indent="    "), err=True)
        typer.echo(f"  sha256 {made.digest}", err=True)
        name_written(out)
    raise typer.Exit(STATUS[found.outcome])


@command(
    "verify",
    "claim.json",
    claim=argument("CLAIM.JSON", "The certificate (- for standard input): docs/certificate.md."),
    seconds=number("Give up, undecided, after this long.", COMPUTATION, default="300", above=0.0),
)
def verify(claim: str, *, seconds: float, as_json: bool) -> None:
    """Prove or refute a certificate. Exit status: 0 verified, 1 refuted, 3 undecided, 2 not a certificate."""
    need_flint()
    from groupdp import certificate
    from groupdp.certificate.checker import claim_text
    from groupdp.certificate.checker.reading import LARGEST_FILE

    text = read_file("claim", claim, most=LARGEST_FILE)
    try:
        with waiting("verify", seconds):
            found = certificate.verify(text, seconds=seconds)
    except certificate.NotACertificate as error:
        raise InvalidArgument("claim", claim, "be a certificate", f"{error}") from None
    if as_json:
        emit_json(
            {
                "outcome": found.outcome,
                "reason": found.reason,
                "claim": found.claim,
                "width": float(claim_text.width(found.claim)),
                "sha256": found.digest,
                "details": list(found.details),
            }
        )
    else:
        emit_text(claim_text.headline(found.outcome, found.claim), indent="  ")
        emit_text(f"  {claim_text.in_plain_words(found.outcome, found.claim)}", indent="    ")
        about = claim_text.sentences(found.claim, verified=found.outcome == "verified")
        for line in (*about, found.reason, *found.details):
            emit_text(f"  {line}", indent="    ")
        typer.echo(f"  sha256 {found.digest}")
    raise typer.Exit(STATUS[found.outcome])


def need_flint() -> None:
    """Complain in one sentence where the extra is not installed."""
    try:
        import flint  # noqa: F401
    except ImportError:
        sentence = "certificates need python-flint: install groupdp with its extra 'verify'."
        raise InvalidArgument.saying("certificate", sentence) from None
