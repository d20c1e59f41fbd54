"""The numbers of a statement: computed once, worded in text.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from groupdp._version import VERSION
from groupdp.baselines import old_tool_epsilon, vadhan_epsilons
from groupdp.baselines.poisson_claim import poisson_claim
from groupdp.bounds import Bounds
from groupdp.engines.interface import Progress
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords
from groupdp.guarantees import epsilon
from groupdp.neighbours import ONE_SIDED
from groupdp.run_file.read import RunFile
from groupdp.statement.explain import Explanation, explained_by
from groupdp.tradeoff import trade_off


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What a statement says, before it is put into words."""

    run: RunFile
    epsilon: Bounds
    changes: Mapping[str, Bounds]
    """The ordered changes of the adjacency one by one, where there are several."""
    one_example: Bounds | None
    vadhan: Bounds | None
    """None where the old analysis does not cover the run."""
    old_tool: float | None
    poisson_claim: Bounds | None
    """What Poisson accounting would claim for a run that does not sample like that: not a guarantee."""
    explanation: Explanation | None
    """What it means for one person; None where the trade-off curve takes long (`statement --short` computes it)."""
    certificate: str | None = None
    """The digest of a certificate of this very claim that the independent checker has verified."""
    proved: tuple[str, str] | None = None
    """The interval of epsilon that the certificate claims, which may be wider."""
    version: str = VERSION


def make_statement(
    run: RunFile, *, certificate: str | bytes | None = None, progress: Progress | None = None
) -> Statement:
    """Compute what the statement says; `certificate` is the text of one, which must be of this claim and verify."""
    report = progress if progress is not None else (lambda _: None)
    if run.group_size is None and run.removed is None and run.added is None:
        raise InvalidArgument(
            "group_size", NOT_SHOWN, "be given for a statement: the most examples that one person has"
        )
    phases = list(run.phases)
    found = epsilon(phases, delta=run.stated_delta, every_change=True, **run.keywords)
    report(0.3)
    changes = found.provenance.directions
    single = None
    if isinstance(run.group_size, int):
        single = epsilon(phases, delta=run.stated_delta, group_size=1, adjacency=run.adjacency)
    report(0.4)
    vadhan, old_tool = _old_analysis(run)
    report(0.5)
    explanation = None
    if not trade_off(phases, **run.keywords).is_costly:
        explanation = explained_by(
            found,
            phases,
            delta=run.stated_delta,
            progress=lambda fraction: report(0.5 + 0.4 * fraction),
            **run.keywords,
        )
    report(0.9)
    verified, proved = (None, None) if certificate is None else _verified(run, certificate)
    return Statement(
        run=run,
        epsilon=found,
        changes={name: Bounds(*changes[name]) for name in sorted(changes)} if len(changes) > 1 else {},
        one_example=single,
        vadhan=vadhan,
        old_tool=old_tool,
        poisson_claim=_poisson_claim(run),
        explanation=explanation,
        certificate=verified,
        proved=proved,
    )


def _verified(run: RunFile, text: str | bytes) -> tuple[str, tuple[str, str]]:
    """The digest of a certificate and its epsilons, once it is known to be about this run and to verify."""
    from groupdp.certificate import NotACertificate, verify
    from groupdp.certificate.reading import read
    from groupdp.certificate.writer import claim_of

    question = {"group_size": None, "adjacency": run.adjacency, **run.keywords}
    try:
        claim = read(text)["claim"]
        expected = claim_of(list(run.phases), delta=run.stated_delta, **question)
        if {key: claim.get(key) for key in expected} != expected:
            raise InvalidArgument(
                "certificate", InWords("another"), "be about the run, group and delta of the statement"
            )
        verdict = verify(text)
    except (NotACertificate, KeyError, TypeError, AttributeError) as error:
        raise InvalidArgument("certificate", InWords(f"something else ({error})"), "be a groupdp certificate") from None
    if verdict.outcome != "verified":
        raise InvalidArgument("certificate", InWords(verdict.outcome), "verify", verdict.reason or "")
    return verdict.digest, (claim["epsilon"]["lower"], claim["epsilon"]["upper"])


def _old_analysis(run: RunFile) -> tuple[Bounds | None, float | None]:
    """Vadhan's lemma on the exact curve and in the old tool's arithmetic; None for runs that they do not cover."""
    if not isinstance(run.group_size, int) or run.adjacency not in ONE_SIDED:
        return None, None
    phases = list(run.phases)
    try:
        vadhan = vadhan_epsilons(
            phases,
            delta=run.stated_delta,
            group_sizes=(run.group_size,),
            form="geometric",
            adjacency=run.adjacency,
        )[0]
        return vadhan, old_tool_epsilon(phases, delta=run.stated_delta, group_size=run.group_size)
    except InvalidArgument:
        return None, None


def _poisson_claim(run: RunFile) -> Bounds | None:
    if not isinstance(run.group_size, int):
        return None
    return poisson_claim(list(run.phases), delta=run.stated_delta, group_size=run.group_size, adjacency=run.adjacency)
