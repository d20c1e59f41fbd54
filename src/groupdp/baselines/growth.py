"""How a group of k inflates delta: the two forms of Vadhan's lemma, in log space, with their rounding.

Vadhan, "The complexity of differential privacy" (2017), Lemma 2.2: an (epsilon, delta)-DP mechanism is
(k epsilon, growth(epsilon) delta)-DP for groups of k, with

    lemma        growth = k e^{k eps}                                                      as it is stated
    geometric    growth = 1 + e^eps + ... + e^{(k-1) eps} = (e^{k eps} - 1) / (e^eps - 1)  as it is proved

The logarithm of either is an increasing convex function of epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Form = Literal["lemma", "geometric"]
FORMS: tuple[Form, ...] = ("lemma", "geometric")

#: A sum of a handful of terms is off by at most this much of the sum of their magnitudes.
ROUNDING = 2.0**-49


@dataclass(frozen=True, slots=True)
class Growth:
    """log growth(epsilon) for one form and one group size of at least 2."""

    form: Form
    group_size: int

    def value(self, epsilon: float) -> float:
        """log growth(epsilon), within `rounding(epsilon)`."""
        k = self.group_size
        if self.form == "lemma":
            return math.log(k) + k * epsilon
        if epsilon == 0.0:
            return math.log(k)
        return (k - 1) * epsilon + math.log(math.expm1(-k * epsilon) / math.expm1(-epsilon))

    def rounding(self, epsilon: float) -> float:
        """A bound on |value - log growth|."""
        return ROUNDING * (1.0 + math.log(self.group_size) + self.group_size * epsilon)

    def least_slope(self, epsilon: float) -> float:
        """A lower bound on the slope at epsilon, and so everywhere to its right."""
        k = self.group_size
        if self.form == "lemma":
            return float(k)
        at_zero = (k - 1) / 2
        if k * epsilon < 1e-5:  # the two fractions below would cancel
            return at_zero
        plus, minus = k / -math.expm1(-k * epsilon), 1.0 / -math.expm1(-epsilon)
        return max(plus - minus - ROUNDING * (plus + minus), at_zero)

    @property
    def steepest(self) -> int:
        """The largest slope of log growth: its limit for large epsilon."""
        return self.group_size if self.form == "lemma" else self.group_size - 1
