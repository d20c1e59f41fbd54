"""What an epsilon means for one person, in words, every number certified.

Against a stated prior and a stated rate of false alarms: what the best attacker, who sees everything the run releases
and knows everything but which of two cases it was (neighbours.py), can do at most (tradeoff/risk.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from groupdp.bounds import Bounds
from groupdp.engines.interface import Progress
from groupdp.guarantees import epsilon as epsilon_of_run
from groupdp.neighbours import TwoCases
from groupdp.printing import complement, given, given_percent, round_up, upper_percent
from groupdp.question import neighbours_of
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
        guess = given(self.prior) if self.prior >= 0.5 else complement(self.prior)
        if self.epsilon.upper < math.inf:
            likely = self.cases.likely(_factor(self.epsilon.upper), given(self.delta))
            first = f"{likely} (epsilon at most {round_up(self.epsilon.upper, DIGITS)})."
        else:
            revealed = self.cases.revealed
            first = f"No finite epsilon holds at delta = {given(self.delta)}: the release may give away {revealed}."
        return [
            first,
            self.cases.detected(rate, _share(caught, guessed=self.false_alarm_rate)),
            f"Who thought with probability {given(self.prior)} that {self.cases.first}, otherwise that "
            f"{self.cases.second}, and sees the alarm of an attack with exactly {rate} of false alarms, may think the "
            f"former with probability {_probability(belief, self.prior, given(self.prior))} at most; a rarer alarm can "
            "say more.",
            f"A guess between the two, right with probability {guess} without the release, is right with probability "
            f"{_probability(self.risk.success.upper, known, guess)} at most with it.",
            self.cases.order(),
        ]

    def as_json(self) -> dict[str, Any]:
        """The numbers, in full precision."""
        rate = self.false_alarm_rate
        return {
            "epsilon": _sides(self.epsilon),
            "tight": self.epsilon.tight,
            "delta": self.delta,
            "prior": self.prior,
            "false_alarm_rate": rate,
            "detected": _sides(self.risk.true_positive_rate[rate]),
            "posterior": _sides(self.risk.posterior[rate]),
            "right_guess": _sides(self.risk.success),
            "advantage": _sides(self.risk.advantage),
            "sentences": self.sentences(),
        }


def explain(
    run: Any,
    *,
    delta: float,
    prior: float = 0.5,
    false_alarm_rate: float = 0.01,
    progress: Progress | None = None,
    **neighbours: Any,
) -> Explanation:
    """What the run's epsilon at `delta` means for one person; `neighbours` as for `epsilon`."""
    certified = epsilon_of_run(run, delta=delta, **neighbours)
    return explained_by(
        certified,
        run,
        delta=delta,
        prior=prior,
        false_alarm_rate=false_alarm_rate,
        progress=progress,
        **neighbours,
    )


def explained_by(
    certified: Bounds,
    run: Any,
    *,
    delta: float,
    prior: float = 0.5,
    false_alarm_rate: float = 0.01,
    progress: Progress | None = None,
    **neighbours: Any,
) -> Explanation:
    """`explain` where the run's epsilon at `delta` is known already."""
    found = risk(run, prior=prior, false_positive_rates=(float(false_alarm_rate),), progress=progress, **neighbours)
    return Explanation(
        epsilon=certified,
        delta=delta,
        prior=prior,
        false_alarm_rate=float(false_alarm_rate),
        risk=found,
        cases=neighbours_of(run, **neighbours).cases,
    )


def _factor(epsilon: float) -> str:
    """e^epsilon, rounded up: in digits where these say something, else as a power."""
    if epsilon > 60.0:
        return f"e^{round_up(epsilon, DIGITS)}"
    if epsilon <= 0.0:
        return "1"
    return round_up(math.nextafter(math.exp(epsilon) * (1.0 + 1e-15), math.inf), 3)


def _share(rate: float, *, guessed: float) -> str:
    """A rate as a percentage, rounded up; where it is no more than guessing finds, as that was given."""
    return given_percent(guessed) if rate <= guessed else upper_percent(rate)


def _probability(value: float, guessed: float, text: str) -> str:
    """A probability, rounded up; where it is no more than without the release, the text of that."""
    return text if value <= guessed else round_up(min(value, 1.0), 4)


def _sides(bounds: Bounds) -> dict[str, float]:
    return {"lower": bounds.lower, "upper": bounds.upper}
