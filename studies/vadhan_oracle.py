"""Vadhan's lemma on the exact curve against direct bisection: random runs, both forms.

    PYTHONPATH=tests python studies/vadhan_oracle.py [--runs 500] [--first 0] [--seed 1]

Every run is made from the seed and its number alone: rates from 1e-6 to 0.3, up to a million steps, groups of 2 to 64.
The oracle evaluates f(eps) = log growth + log delta_1 - log delta in doubles by a contour (tests/oracle/one_example.py)
or, at an eps where that declines, from the density of the loss (one_example_law.py). It goes up from 1e-4 by doubling
until f is at most 0, and looks for the root between (Brent); the worse direction decides. It knows nothing of the
answer.
Prints every run, how many agree to 1e-6, how many answers are wider than that, and how many the oracle declined. Exit
status 1 if a run disagrees. About an hour for 500.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from scipy.optimize import brentq

import groupdp
from groupdp.baselines import vadhan_epsilons
from oracle.one_example import Declined, OneExample
from oracle.one_example_law import Negligible, OneExampleLaw

ROOM = 1e-6


def random_run(seed: int, number: int) -> dict[str, Any]:
    rng = random.Random(f"{seed}/{number}")
    return {
        "rate": 10 ** rng.uniform(-6.0, math.log10(0.3)),
        "noise": 10 ** rng.uniform(-0.2, 0.8),
        "steps": round(10 ** rng.uniform(0.0, 6.0)),
        "delta": 10 ** rng.uniform(-10.0, -4.0),
        "size": rng.randint(2, 64),
        "form": rng.choice(["lemma", "geometric"]),
    }


def log_growth(form: str, k: int, x: float) -> float:
    """log of k e^{kx}, or of 1 + e^x + ... + e^{(k-1)x}."""
    if form == "lemma" or x == 0.0:
        return math.log(k) + (k * x if form == "lemma" else 0.0)
    return (k - 1) * x + math.log(math.expm1(-k * x) / math.expm1(-x))


def smallest_feasible(case: dict[str, Any]) -> float:
    """The smallest eps with f(eps) <= 0, by walking and bisection; at each eps the oracle that does not decline."""
    contours = {way: OneExample(case["rate"], case["noise"], case["steps"], way) for way in ("remove", "add")}
    law: list[OneExampleLaw] = []

    def log_delta(x: float, way: str) -> float:
        if not law:
            try:
                return contours[way].log_delta(x)
            except Declined:
                law.append(OneExampleLaw(case["rate"], case["noise"], case["steps"]))
                return law[0].log_delta(x, way)
        # A law that was needed once serves as long as it can: it is quicker than a contour that is declined.
        try:
            return law[0].log_delta(x, way)
        except Declined as reason:
            try:
                return contours[way].log_delta(x)
            except Declined:
                raise reason from None

    return _smallest(case, log_delta)


def _smallest(case: dict[str, Any], log_delta: Callable[[float, str], float]) -> float:
    def excess(x: float, way: str = "remove") -> float:
        allowed = log_growth(case["form"], case["size"], x) - math.log(case["delta"])
        try:
            return allowed + log_delta(x, way)
        except Negligible:
            if allowed > 100.0:
                raise
            return allowed - 100.0

    found = _walk(excess)
    # The other direction must be feasible a little beyond; where it is declined, the first one's figure stands.
    try:
        if excess(found * (1.0 + ROOM), "add") > 0.0:
            found = max(found, _walk(lambda x: max(excess(x), excess(x, "add"))))
    except Declined:
        pass
    return found


def _walk(excess: Callable[[float], float]) -> float:
    left, right = 0.0, 1e-4
    while excess(right) > 0.0:
        left, right = right, right * 2.0
    if left == 0.0:
        while right > 1e-15 and excess(right) <= 0.0:
            left, right = 0.0, right / 8.0
        if right <= 1e-15:
            return 0.0
        left, right = right, right * 8.0
    return float(brentq(excess, left, right, rtol=1e-9, xtol=1e-9 * right))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tally: Counter[str] = Counter()
    for number in range(options.first, options.first + options.runs):
        case = random_run(options.seed, number)
        sampling = groupdp.PoissonSampling(rate=case["rate"])
        run = groupdp.DPSGD(sampling, noise_multiplier=case["noise"], steps=case["steps"])
        begun = time.process_time()
        (found,) = vadhan_epsilons(run, delta=case["delta"], group_sizes=(case["size"],), form=case["form"])
        took = time.process_time() - begun
        known = "known" if found.provenance.tolerance_met else "interval"
        value = math.nan
        try:
            value = case["size"] * smallest_feasible(case)
            agrees = found.lower <= value * (1.0 + ROOM) and value <= found.upper * (1.0 + ROOM)
            verdict = "agrees" if agrees else "DISAGREES"
        except Declined as error:
            verdict = f"oracle declined: {error}"
        tally.update([known, verdict, f"{known}, {verdict}"])
        shown = " ".join(f"{name}={value:.6g}" if name != "form" else value for name, value in case.items())
        print(
            f"{number:4d} {shown}: [{found.lower:.9g}, {found.upper:.9g}] {known} {took:.2f} s, oracle {value:.9g} "
            f"{time.process_time() - begun - took:.2f} s: {verdict}",
            flush=True,
        )
    print(*(f"{count:5d} {name}" for name, count in sorted(tally.items())), sep="\n")
    sys.exit(tally["DISAGREES"] > 0)


if __name__ == "__main__":
    main()
