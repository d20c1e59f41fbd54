"""What an epsilon means for one person, in words, every number certified.

Against a stated prior and a stated rate of false alarms: what the best attacker, who sees everything the run releases
and knows everything but whether the person took part, can do at most (tradeoff/risk.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from groupdp.bounds import Bounds, round_up
from groupdp.engines.interface import Progress
from groupdp.guarantees import epsilon as epsilon_of_run
from groupdp.tradeoff.risk import Risk, risk


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The numbers behind the sentences."""

    epsilon: Bounds
    delta: float
    prior: float
    false_alarm_rate: float
    risk: Risk

    def sentences(self) -> list[str]:
        """What it means, a sentence each; upper bounds rounded up."""
        caught = self.risk.true_positive_rate[self.false_alarm_rate].upper
        belief = self.risk.posterior[self.false_alarm_rate].upper
        said = []
        if self.epsilon.upper < math.inf:
            factor = _factor(self.epsilon.upper)
            said.append(
                f"Whatever one may look for in the release, taking part makes it at most {factor} times as likely, "
                f"plus at most {self.delta:g} (epsilon at most {round_up(self.epsilon.upper, 5)})."
            )
        else:
            said.append(f"No finite epsilon holds at delta = {self.delta:g}: the release may give a person away.")
        said += [
            f"An attacker who raises a false alarm for at most {self.false_alarm_rate * 100.0:g} % of those who did "
            f"not take part detects at most {_share(caught)} of those who did.",
            f"Who thought a person took part with probability {self.prior:g}, and sees the alarm of an attack with "
            f"exactly {self.false_alarm_rate * 100.0:g} % of false alarms, may think so with probability "
            f"{_probability(belief)} at most; a rarer alarm can say more.",
            f"A guess between taking part and not, right with probability {max(self.prior, 1.0 - self.prior):g} "
            f"without the release, is right with probability {_probability(self.risk.success.upper)} at most with it.",
        ]
        return said

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
    )


def _factor(epsilon: float) -> str:
    """e^epsilon, rounded up: in digits where these say something, else as a power."""
    if epsilon > 60.0:
        return f"e^{round_up(epsilon, 5)}"
    return round_up(math.nextafter(math.exp(epsilon) * (1.0 + 1e-15), math.inf), 3)


def _share(rate: float) -> str:
    """A rate as a percentage, rounded up."""
    return f"{round_up(min(rate * 100.0 * (1.0 + 1e-15), 100.0), 3)} %"


def _probability(value: float) -> str:
    return round_up(min(value, 1.0), 4)


def _sides(bounds: Bounds) -> dict[str, float]:
    return {"lower": bounds.lower, "upper": bounds.upper}
