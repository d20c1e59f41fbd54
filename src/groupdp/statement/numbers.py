"""The numbers of a statement, and what an epsilon means for one person; every number is certified.

The attacker has a stated prior and a stated rate of false alarms, sees everything the run releases, and knows all but
which of two cases it was (neighbours.py). The numbers bound the best attack (tradeoff/risk.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from groupdp._version import VERSION
from groupdp.baselines import old_tool_epsilon, vadhan_epsilons
from groupdp.baselines.comparison import poisson_claim
from groupdp.bounds import Bounds
from groupdp.engines.interface import Progress
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords
from groupdp.guarantees import epsilon
from groupdp.ledger import Ledger
from groupdp.neighbours import ONE_SIDED, TwoCases
from groupdp.printing import complement, given, given_percent, round_up, sides, upper_percent
from groupdp.question import neighbours_of
from groupdp.run_file.run import RunFile
from groupdp.tradeoff import trade_off
from groupdp.tradeoff.risk import Risk, risk

#: Significant digits of an epsilon in a sentence.
DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The numbers behind the sentences."""

    epsilon: Bounds
    delta: float
    prior: float
    false_alarm_rate: float
    risk: Risk
    cases: TwoCases
    """What is compared; an alarm claims the first."""

    def sentences(self) -> list[str]:
        """What it means, a sentence each; upper bounds rounded up."""
        caught = self.risk.true_positive_rate[self.false_alarm_rate].upper
        belief = self.risk.posterior[self.false_alarm_rate].upper
        rate, known = given_percent(self.false_alarm_rate), max(self.prior, 1.0 - self.prior)
        if self.epsilon.upper < math.inf:
            first = f"{self.cases.likely(_factor(self.epsilon.upper), given(self.delta))}."
        else:
            first = f"The release may give away {self.cases.revealed}, with a probability above {given(self.delta)}."
        return [
            first,
            self.cases.detected(rate, _share(caught, guessed=self.false_alarm_rate)),
            f"An attacker who is {given_percent(self.prior)} sure at first that {self.cases.first}, and raises "
            f"false alarms in {rate} of the other cases, is at most {_share(belief, guessed=self.prior)} sure after an "
            "alarm; rarer false alarms may leave an attacker surer.",
            f"The best guess between the two cases is right in {_known(self.prior)} of the cases without the release, "
            f"and with it in at most {_share(self.risk.success.upper, guessed=known, text=_known(self.prior))}.",
            self.cases.order(),
        ]

    def as_json(self) -> dict[str, Any]:
        """The numbers, in full precision."""
        rate = self.false_alarm_rate
        return {
            "epsilon": sides(self.epsilon),
            "tight": self.epsilon.tight,
            "delta": self.delta,
            "prior": self.prior,
            "false_alarm_rate": rate,
            "detected": sides(self.risk.true_positive_rate[rate]),
            "posterior": sides(self.risk.posterior[rate]),
            "right_guess": sides(self.risk.success),
            "advantage": sides(self.risk.advantage),
            "sentences": self.sentences(),
        }


def explain(
    run: Any,
    *,
    delta: float,
    prior: float = 0.5,
    false_alarm_rate: float = 0.01,
    certified: Bounds | None = None,
    progress: Progress | None = None,
    **neighbours: Any,
) -> Explanation:
    """What the run's epsilon at `delta`, which `certified` is if it is known, means for one person.

    `neighbours` as for `epsilon`.
    """
    rate = float(false_alarm_rate)
    return Explanation(
        epsilon=epsilon(run, delta=delta, **neighbours) if certified is None else certified,
        delta=delta,
        prior=prior,
        false_alarm_rate=rate,
        risk=risk(run, prior=prior, false_positive_rates=(rate,), progress=progress, **neighbours),
        cases=neighbours_of(run, **neighbours).cases,
    )


def _factor(epsilon: float) -> str:
    """e^epsilon, rounded up: in digits where these say something, else as a power of ten."""
    if epsilon > 60.0:
        return f"10^{math.floor(epsilon / 2.302585) + 1}"  # the divisor is below log(10)
    if epsilon <= 0.0:
        return "1"
    return round_up(math.nextafter(math.exp(epsilon) * (1.0 + 1e-15), math.inf), 3)


def _share(value: float, *, guessed: float, text: str = "") -> str:
    """A probability as a percentage, rounded up; `guessed`, as it was given, where it is not above that."""
    return (text or given_percent(guessed)) if value <= guessed else upper_percent(min(value, 1.0))


def _known(prior: float) -> str:
    """How often the better of two guesses is right before the release, for the decimal that was given."""
    return given_percent(prior if prior >= 0.5 else float(complement(prior)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What a statement says, before it is put into words."""

    run: RunFile
    epsilon: Bounds
    changes: Mapping[str, Bounds] = field(default_factory=dict)
    """The ordered changes of the adjacency one by one, where there are several."""
    one_example: Bounds | None = None
    vadhan: Bounds | None = None
    """None where the old analysis does not cover the run."""
    old_tool: float | None = None
    poisson_claim: Bounds | None = None
    """What Poisson accounting would claim for a run that does not sample like that: not a guarantee."""
    explanation: Explanation | None = None
    """What it means for one person; None where the trade-off curve takes long (`statement --short` computes it)."""
    ledger: Ledger | None = None
    """The ledger whose releases it is about."""
    filtered: Bounds | None = None
    """The smallest budget of a filter that lets all entries of the ledger pass."""
    certificate: str | None = None
    """The digest of a certificate of this very claim that the independent checker has verified."""
    proved: tuple[str, str] | None = None
    """The interval of epsilon that the certificate claims, which may be wider."""
    version: str = VERSION


def make_statement(
    run: RunFile,
    *,
    certificate: str | bytes | None = None,
    ledger: Ledger | None = None,
    progress: Progress | None = None,
) -> Statement:
    """Compute what the statement says; `certificate` is the text of one, which must be of this claim and verify.

    `ledger` is the one that `run` holds all releases of.
    """
    if run.looked:
        return _by_filter(run, ledger, certificate)
    report = progress if progress is not None else (lambda _: None)
    if run.group_size is None and run.removed is None and run.added is None:
        raise InvalidArgument(
            "group_size", NOT_SHOWN, "be given for a statement: the most examples that one person has"
        )
    run.require_covered()
    phases = list(run.phases)
    bounds = epsilon(phases, delta=run.stated_delta, every_change=True, **run.keywords)
    report(0.3)
    changes = bounds.provenance.directions
    single = claim = None
    about: dict[str, Any] = {"delta": run.stated_delta, "adjacency": run.adjacency}
    if isinstance(run.group_size, int):
        claim = poisson_claim(phases, group_size=run.group_size, **about)
        single = None if run.neighbours.words else epsilon(phases, group_size=1, **about)
    report(0.4)
    vadhan, old_tool = _old_analysis(run)
    report(0.5)
    explanation = None
    if not trade_off(phases, **run.keywords).is_costly:
        explanation = explain(
            phases,
            delta=run.stated_delta,
            certified=bounds,
            progress=lambda fraction: report(0.5 + 0.4 * fraction),
            **run.keywords,
        )
    report(0.9)
    verified, proved = (None, None) if certificate is None else _verified(run, certificate)
    return Statement(
        run=run,
        epsilon=bounds,
        changes={name: Bounds(*changes[name]) for name in sorted(changes)} if len(changes) > 1 else {},
        one_example=single,
        vadhan=vadhan,
        old_tool=old_tool,
        poisson_claim=claim,
        explanation=explanation,
        ledger=ledger,
        filtered=None if ledger is None else ledger.filtered(),
        certificate=verified,
        proved=proved,
    )


def _by_filter(run: RunFile, ledger: Ledger | None, certificate: str | bytes | None) -> Statement:
    """Of parameters that were chosen after looking: the budget, or infinity where it is exceeded or was not fixed."""
    if ledger is None:
        raise InvalidArgument("run", InWords("parameters chosen after looking"), "come with its ledger")
    if certificate is not None:
        raise InvalidArgument("certificate", NOT_SHOWN, "be left out: a filter's figure has none")
    filtered = ledger.filtered()
    passes = ledger.epsilon is not None and filtered.upper <= ledger.epsilon
    upper = ledger.epsilon if passes and ledger.epsilon is not None else math.inf
    stated = Bounds(0.0, upper, filtered.provenance, tight=False)
    return Statement(run=run, epsilon=stated, ledger=ledger, filtered=filtered)


def _verified(run: RunFile, text: str | bytes) -> tuple[str, tuple[str, str]]:
    """The digest of a certificate and its epsilons, once it is known to be about this run and to verify."""
    from groupdp.certificate import NotACertificate, verify
    from groupdp.certificate.checker.reading import read
    from groupdp.certificate.prover.writer import claim_of

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
    """Vadhan's lemma on the exact curve and in TensorFlow Privacy's arithmetic; None for runs that neither covers."""
    if not isinstance(run.group_size, int) or run.adjacency not in ONE_SIDED or run.neighbours.words:
        return None, None
    phases = list(run.phases)
    try:
        vadhan = vadhan_epsilons(
            phases, delta=run.stated_delta, group_sizes=(run.group_size,), form="geometric", adjacency=run.adjacency
        )[0]
        return vadhan, old_tool_epsilon(phases, delta=run.stated_delta, group_size=run.group_size)
    except InvalidArgument:
        return None, None
