"""What a command prints is true of the inputs that it prints.

Every test reads a command's text as a person would, takes the inputs from it and nowhere else, and asks the library
about them. Inputs are drawn with as many digits as a double has, so that an input that is printed in fewer digits is
another question, whose answer differs by more than the bounds' width.
"""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import groupdp as library
from command_line import groupdp
from groupdp.people.cap import choose_cap
from groupdp.printing import counted, grouped
from groupdp.tradeoff import trade_off

STEPS, GROUP = 500, 3
NUMBER = r"([\d.]+(?:e[+-]?\d+)?)"
few = settings(max_examples=3, phases=(Phase.explicit, Phase.generate))


def digits(low: float, high: float) -> st.SearchStrategy[float]:
    """Numbers that six digits do not hold."""
    return st.floats(low, high).filter(lambda x: abs(float(f"{x:.6g}") - x) > 1e-7 * x)


class Printed:
    """A command's text, and the run that it says it is about."""

    def __init__(self, line: str) -> None:
        outcome = groupdp(line)
        assert outcome.status == 0, outcome
        self.lines = outcome.output.split("\n")
        self.text = " ".join(outcome.output.split())

    def number(self, before: str, after: str = "") -> float:
        """The number that stands between two texts."""
        found = re.search(f"{before}{NUMBER}{after}", self.text)
        assert found, (before, self.text)
        return float(found[1])

    def rows(self, columns: int) -> list[list[str]]:
        """The rows of its tables that have so many cells."""
        rows = [re.split(r"\s{2,}", line.strip()) for line in self.lines]
        return [row for row in rows if len(row) == columns and re.fullmatch(NUMBER, row[-1])]

    def run(self) -> library.DPSGD:
        rate = self.number("sampling rate ")
        steps = int(self.number("", " (?:steps|rounds)"))
        return run_of(rate=rate, noise=self.number("noise multiplier "), steps=steps)


def run_of(*, rate: float, noise: float, steps: int = STEPS) -> library.DPSGD:
    return library.DPSGD(sampling=library.PoissonSampling(rate=rate), noise_multiplier=noise, steps=steps)


def asked(rate: float, noise: float, *, group: bool = True) -> str:
    line = f"--sampling-rate {rate!r} --noise-multiplier {noise!r} --steps {STEPS}"
    return f"{line} --group-size {GROUP}" if group else line


def holds(lower: str | float, upper: str | float, truth: library.Bounds) -> bool:
    """Whether a printed interval is one for what the library knows: neither side is on the wrong side of it."""
    return float(lower) <= truth.upper and float(upper) >= truth.lower


def epsilon(run: library.DPSGD, delta: float, group_size: int = GROUP) -> library.Bounds:
    return library.epsilon(run, delta=delta, group_size=group_size)


rates, noises, deltas = digits(0.005, 0.05), digits(1.0, 3.0), digits(1e-7, 1e-4)


@few
@given(rate=rates, noise=noises, delta=deltas)
def test_epsilon_delta_curve_and_spend(rate, noise, delta):
    told = Printed(f"epsilon {asked(rate, noise)} --delta {delta!r}")
    ((_, low, high), *_) = told.rows(3)
    assert holds(low, high, epsilon(told.run(), told.number("delta = ")))
    told = Printed(f"delta {asked(rate, noise)} --epsilon {noise!r}")
    ((_, low, high), *_) = told.rows(3)
    assert holds(low, high, library.delta(told.run(), epsilon=told.number("epsilon = "), group_size=GROUP))
    told = Printed(f"curve {asked(rate, noise, group=False)} --delta {delta!r} --group-sizes 2")
    ((size, high, *_),) = told.rows(5)
    assert float(high) >= epsilon(told.run(), told.number("delta = "), int(size)).lower
    within = epsilon(run_of(rate=rate, noise=noise, steps=STEPS // 2), delta).upper
    told = Printed(f"spend {asked(rate, noise)} --delta {delta!r} --target {within!r}")
    run, at, target = told.run(), told.number("delta = "), told.number("within epsilon = ")
    last = int(told.number("is step "))
    assert epsilon(run_of(rate=run.sampling.rate, noise=run.noise_multiplier, steps=last), at).upper <= target


@few
@given(rate=rates, noise=noises, delta=deltas, other=deltas)
def test_the_table_of_a_sweep(rate, noise, delta, other):
    told = Printed(f"sweep {asked(rate, noise)} --delta 1e-5 --vary delta={delta!r},{other!r}")
    rows = told.rows(3)
    assert len(rows) == 2
    for at, low, high in rows:
        assert holds(low, high, epsilon(told.run(), float(at)))
    line = f"sweep {asked(rate, 1.0)} --delta {delta!r} --vary noise_multiplier={noise!r},1.0000004"
    told = Printed(line)
    rows = told.rows(3)
    assert len(rows) == 2
    for sigma, low, high in rows:
        run = run_of(rate=told.number("sampling rate "), noise=float(sigma))
        assert holds(low, high, epsilon(run, told.number("delta = ")))


@few
@given(rate=rates, noise=noises, delta=deltas, prior=digits(0.05, 0.45), alarms=digits(0.001, 0.2))
def test_explain_and_tradeoff(rate, noise, delta, prior, alarms):
    told = Printed(
        f"statement --short {asked(rate, noise)} --delta {delta!r} --prior {prior!r} --false-alarms {alarms!r}"
    )
    run = told.run()
    at = told.number("as if they did not, plus at most ")
    truth = epsilon(run, at)
    assert told.number("at most ", " times as likely") >= math.exp(truth.lower) * (1.0 - 1e-15)
    share = told.number("and is wrong in at most ", " %") / 100.0
    known = library.risk(
        run, prior=told.number("who is ", " % sure") / 100.0, false_positive_rates=(share,), group_size=GROUP
    )
    assert told.number("detects at most ", " %") / 100.0 >= known.true_positive_rate[share].lower
    assert told.number("is at most ", " % sure after") / 100.0 >= known.posterior[share].lower
    assert told.number("with it, in at most ", " %") / 100.0 >= known.success.lower
    told = Printed(f"tradeoff {asked(rate, noise)} --prior {prior!r} --rates {alarms!r}")
    ((false_alarms, detected, missed, posterior),) = told.rows(4)
    point = trade_off(told.run(), group_size=GROUP).curve([float(false_alarms)])
    assert float(detected) >= point.true_positive_rate_lower[0]
    assert float(missed) <= point.false_negative_rate_upper[0]
    known = library.risk(
        told.run(), prior=told.number("with prior "), false_positive_rates=(float(false_alarms),), group_size=GROUP
    )
    assert float(posterior) >= known.posterior[float(false_alarms)].lower
    assert float(false_alarms) == alarms
    assert told.number("with prior ") == prior


@few
@given(rate=rates, noise=noises, delta=deltas)
def test_statement(rate, noise, delta):
    for form, before in (("text", "noise multiplier "), ("markdown", r"sampling rate [\d.]+ \| ")):
        told = Printed(f"statement {asked(rate, noise)} --delta {delta!r} --format {form}")
        run = run_of(rate=told.number("sampling rate "), noise=told.number(before))
        truth = epsilon(run, told.number("delta = "))
        assert told.number("epsilon = ") >= truth.lower
        factor = told.number("at most ", " times as likely")
        assert epsilon(run, told.number("as if they did not, plus at most ")).lower <= math.log(factor) + 1e-15
        assert told.number("as if they did not, plus at most ") == delta


@few
@given(rate=rates, noise=noises, delta=deltas)
def test_people_and_their_thresholds(rate, noise, delta, tmp_path_factory):
    folder = tmp_path_factory.mktemp("people")
    (folder / "counts.csv").write_text("n\n1\n1\n2\n")
    limit = epsilon(run_of(rate=rate, noise=noise), delta, 1).upper
    line = f"people '{folder}/counts.csv' --counts n {asked(rate, noise, group=False)} --delta {delta!r}"
    told = Printed(f"{line} --thresholds {limit!r}")
    run, at = told.run(), told.number("delta = ")
    people = [int(n) for n in re.findall(r"(\d+) of 3 people", told.text)]
    threshold = told.number("have an epsilon of at most ", r"\.(?!\d)")
    protected = sum(epsilon(run, at, size).upper <= threshold for size in (1, 1, 2))
    assert people == [protected] == [2]
    assert threshold == limit
    for size, _, low, high in told.rows(4):
        assert holds(low, high, epsilon(run, at, int(size)))


def test_the_noise_of_a_cap_is_enough_for_the_rate_beside_it(tmp_path):
    (tmp_path / "counts.csv").write_text("n\n1\n2\n3\n")
    line = f"cap '{tmp_path}/counts.csv' --counts n --epsilon 1.2345678 --delta 1.23456789e-06 --batch-size 1"
    told = Printed(f"{line} --steps 200")
    target, delta = told.number("Caps for epsilon = "), told.number("at delta = ")
    rows = told.rows(4)
    kept = {row.cap: row.share_kept for row in choose_cap([1, 2, 3], epsilon=1.2345678, delta=1.23456789e-06,
                                                         batch_size=1, steps=200).rows}  # fmt: skip
    assert len(rows) == len(kept) == 3
    for marked, share, noise, _ in rows:
        cap = int(marked.split()[0])
        assert float(share.removesuffix(" %")) <= 100.0 * kept[cap] * (1.0 + 1e-15)
        run = run_of(rate=1.0 / sum(min(cap, n) for n in (1, 2, 3)), noise=float(noise), steps=200)
        assert epsilon(run, delta, cap).lower <= target


@few
@given(rate=rates, delta=deltas, target=digits(0.5, 4.0))
def test_a_calibrated_noise_meets_the_printed_target(rate, delta, target):
    line = f"--sampling-rate {rate!r} --steps {STEPS} --group-size {GROUP} --delta {delta!r}"
    told = Printed(f"calibrate noise {line} --epsilon {target!r} --tolerance 1.2345678e-05")
    assert told.number("to a relative ", r"\.(?!\d)") == 1.2345678e-05
    value, *_ = next(row for row in (re.split(r"\s{2,}", one) for one in told.lines) if row[-1] == "meets it")
    run = run_of(rate=told.number("sampling rate "), noise=float(value))
    assert epsilon(run, told.number("at delta = ")).upper <= told.number("for epsilon = ")


def test_an_audit_names_the_epsilons_of_its_claims():
    line = "--sampling-rate 0.2 --noise-multiplier 4 --steps 20 --group-size 4 --adjacency remove --trials 2000"
    told = Printed(f"audit worst-case {line} --delta 0.00123456789 --confidence 0.9912345678")
    run = told.run()
    rows = told.rows(5)
    assert len(rows) > 5
    for at, claimed, *_ in rows:
        truth = library.delta(run, epsilon=float(at), group_size=4, adjacency="remove")
        assert truth.lower <= float(claimed) <= 1.01 * truth.upper
    assert told.number("confidence ") == 0.9912345678
    assert told.number("claimed epsilon at delta ") == 0.00123456789


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "1"), (1e-6, "1e-06"), (0.1, "0.1"), (1.0000004, "1.0000004"), (2.5e17, "2.5e+17")]
)
def test_an_input_is_printed_as_it_was_given(value, text):
    from groupdp.printing import given as as_given

    assert as_given(value) == text


@given(share=st.floats(0.0, 1.0))
def test_percentages_are_rounded_in_their_safe_direction(share):
    from groupdp.printing import given_percent, lower_percent, upper_percent

    assert float(lower_percent(share).removesuffix(" %")) <= 100.0 * share * (1.0 + 1e-15)
    assert float(upper_percent(share).removesuffix(" %")) >= 100.0 * share * (1.0 - 1e-15)
    assert float(given_percent(share).removesuffix(" %")) == pytest.approx(100.0 * share, rel=1e-15, abs=1e-300)


def test_what_a_sentence_counts_has_thousands_apart_and_what_is_pasted_has_not():
    assert grouped("noise multiplier 1.0, 2000 steps; 1234567 examples of 60000 people") == (
        "noise multiplier 1.0, 2 000 steps; 1 234 567 examples of 60 000 people"
    )
    for kept in (
        "--steps 2000 --delta 1e-6",
        "dataset_size = 60000",
        "steps=2000, rows",
        "0.2000 steps",
        "a-1000 rows",
    ):
        assert grouped(kept) == kept
    assert (counted(999), counted(2_000), counted(1_234_567)) == ("999", "2 000", "1 234 567")
    outcome = groupdp(
        "epsilon --sampling-rate 0.01 --noise-multiplier 9 --steps 2000 --delta 1e-6 --group-size 2 --json"
    )
    assert outcome.json["run"]["steps"] == 2000
