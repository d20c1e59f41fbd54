"""Vadhan's lemma on the exact curve against ball arithmetic: random runs, both forms.

    PYTHONPATH=tests python studies/vadhan_oracle.py [--runs 500] [--first 0] [--seed 1] [--seconds 60]

Every run is made from the seed and its number alone: rates from 1e-6 to 0.3, up to a million steps, groups of 2 to 64.
The oracle (tests/oracle) evaluates f(eps) = log growth + log delta_1 - log delta in ball arithmetic, in the worse of
both directions: f must be positive a millionth below the lower bound and at a quarter, a half and nine tenths of it,
and at most 0 a millionth above the upper bound. Prints every run, how many agree, how many answers are wider than 1e-6,
and how many the oracle declined (its contour would be too long, or took more than `--seconds` of processor time). Exit
status 1 if a run disagrees. An hour or two for 500.
"""

from __future__ import annotations

import argparse
import math
import random
import signal
import sys
import time
from collections import Counter
from typing import Any

from flint import arb, ctx

import groupdp
import oracle
from groupdp.baselines import vadhan_epsilons

ROOM = 1e-6


class Late(Exception):
    """The oracle took too long."""


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


def log_growth(form: str, k: int, x: arb) -> arb:
    if form == "lemma":
        return arb(k).log() + k * x
    if x == 0:
        return arb(k).log()
    return (k - 1) * x + ((1 - (-k * x).exp()) / (1 - (-x).exp())).log()


def excess(case: dict[str, Any], epsilon: float, directions: tuple[str, ...]) -> float:
    """f(epsilon) in ball arithmetic, its worse direction."""
    phase = {"sampling_rate": case["rate"], "noise_multiplier": case["noise"], "steps": case["steps"]}
    composition = oracle.compose([phase], group_size=1)
    values = [oracle.log_delta(composition, epsilon=epsilon, direction=way, digits=12) for way in directions]
    with ctx.workprec(200):
        x = arb(epsilon)
        totals = [log_growth(case["form"], case["size"], x) + one - arb(case["delta"]).log() for one in values]
        return max(float(total.mid()) for total in totals)


def agrees(case: dict[str, Any], found: groupdp.Bounds) -> bool:
    k = case["size"]
    low, high = found.lower / k, found.upper / k
    if high < math.inf and not excess(case, high * (1.0 + ROOM), ("remove", "add")) <= 0.0:
        return False
    shares = (1.0 - ROOM, 0.25, 0.5, 0.9) if low > 0.0 else ()
    return all(excess(case, low * share, ("remove",)) > 0.0 for share in shares)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=60, help="processor time of the oracle for one run")
    options = parser.parse_args()

    def stop(*_: object) -> None:
        raise Late

    signal.signal(signal.SIGPROF, stop)
    tally: Counter[str] = Counter()
    for number in range(options.first, options.first + options.runs):
        case = random_run(options.seed, number)
        sampling = groupdp.PoissonSampling(rate=case["rate"])
        run = groupdp.DPSGD(sampling, noise_multiplier=case["noise"], steps=case["steps"])
        begun = time.process_time()
        (found,) = vadhan_epsilons(run, delta=case["delta"], group_sizes=(case["size"],), form=case["form"])
        took = time.process_time() - begun
        known = "known" if found.provenance.tolerance_met else "interval"
        signal.setitimer(signal.ITIMER_PROF, options.seconds)
        try:
            verdict = "agrees" if agrees(case, found) else "DISAGREES"
        except (NotImplementedError, oracle.Disagreement, AssertionError, Late) as error:
            verdict = f"oracle declined ({type(error).__name__})"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        tally.update([known, verdict, f"{known}, {verdict}"])
        shown = " ".join(f"{name}={value:.6g}" if name != "form" else value for name, value in case.items())
        print(f"{number:4d} {shown}: [{found.lower:.9g}, {found.upper:.9g}] {known} {took:.2f} s {verdict}", flush=True)
    print(*(f"{count:5d} {name}" for name, count in sorted(tally.items())), sep="\n")
    sys.exit(tally["DISAGREES"] > 0)


if __name__ == "__main__":
    main()
