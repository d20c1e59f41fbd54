"""Bounds: what is printed is never stronger than what was proved, and no side is taken by accident."""

from __future__ import annotations

import copy
import decimal
import math
import pickle
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupdp.bounds import Bounds, Provenance, upper_or_both
from groupdp.printing import round_down, round_up
from refusals import refused

finite = st.floats(allow_nan=False, allow_infinity=False)
numbers = st.floats(allow_nan=False)
digit_counts = st.integers(1, 60)


@st.composite
def intervals(draw: st.DrawFn) -> Bounds:
    low, high = sorted((draw(numbers), draw(numbers)))
    return Bounds(low, high)


def significant_digits(text: str) -> int:
    mantissa = text.lower().split("e")[0].lstrip("-").replace(".", "")
    return len(mantissa.strip("0")) if "." in text or "e" in text.lower() else len(mantissa.lstrip("0").rstrip("0"))


@given(value=finite, digits=digit_counts)
def test_rounding_is_outward_and_within_one_unit(value: float, digits: int):
    up, down = Decimal(round_up(value, digits)), Decimal(round_down(value, digits))
    assert down <= Decimal(value) <= up
    # no sloppier than the digits allow: one unit in the last of them
    exact = decimal.Context(prec=2000, Emin=-10_000, Emax=10_000)
    unit = exact.scaleb(Decimal(1), Decimal(value).adjusted() - digits + 1) if value else Decimal(0)
    assert exact.subtract(up, Decimal(value)) < unit or up == Decimal(value)
    assert exact.subtract(Decimal(value), down) < unit or down == Decimal(value)


@given(value=finite, digits=digit_counts)
def test_no_more_digits_are_shown_than_asked_for(value: float, digits: int):
    assert significant_digits(round_up(value, digits)) <= digits
    assert significant_digits(round_down(value, digits)) <= digits


@given(value=finite, digits=digit_counts, precision=st.integers(1, 40))
def test_the_callers_decimal_context_changes_nothing(value: float, digits: int, precision: int):
    """An upper bound printed under a decimal context of 3 digits was once rounded to nearest."""
    plain = round_up(value, digits), round_down(value, digits)
    with decimal.localcontext() as context:
        context.prec = precision
        context.rounding = decimal.ROUND_HALF_EVEN
        context.traps[decimal.Inexact] = True
        assert (round_up(value, digits), round_down(value, digits)) == plain


@given(value=finite, digits=digit_counts)
def test_rounding_mirrors(value: float, digits: int):
    assert Decimal(round_up(value, digits)) == Decimal(round_down(-value, digits)).copy_negate()


@pytest.mark.parametrize(
    ("value", "digits", "down", "up"),
    [
        (0.0, 3, "0", "0"),
        (-0.0, 3, "0", "0"),
        (0.125, 3, "0.125", "0.125"),
        (2.0 / 3.0, 3, "0.666", "0.667"),
        (-2.0 / 3.0, 3, "-0.667", "-0.666"),
        (9.9996, 4, "9.999", "10"),
        (99_999.6, 5, "99999", "100000"),
        (1e-6, 4, "9.999e-7", "1e-6"),
        (1e300, 2, "1e+300", "1.1e+300"),
        (5e-324, 3, "4.94e-324", "4.95e-324"),
        (math.inf, 3, "inf", "inf"),
        (-math.inf, 3, "-inf", "-inf"),
    ],
)
def test_rounding_by_example(value: float, digits: int, down: str, up: str):
    # 1e300 and 1e-6 are doubles a little above and a little below the decimals of that name.
    assert (round_down(value, digits), round_up(value, digits)) == (down, up)


@given(bounds=intervals(), digits=st.integers(1, 40))
def test_printed_bounds_contain_the_bounds(bounds: Bounds, digits: int):
    text = format(bounds, str(digits))
    assert text.startswith("[")
    assert text.endswith("]")
    lower, upper = (Decimal(part) for part in text[1:-1].split(", "))
    assert lower <= Decimal(bounds.lower)
    assert upper >= Decimal(bounds.upper)


def test_str_shows_twelve_digits_on_each_side():
    assert str(Bounds(1.0 / 3.0, 2.0 / 3.0)) == "[0.333333333333, 0.666666666667]"
    assert f"{Bounds(1.0 / 3.0, 2.0 / 3.0):4}" == "[0.3333, 0.6667]"
    assert str(Bounds(0.0, math.inf)) == "[0, inf]"


@pytest.mark.parametrize("specification", [".3f", "abc", "0", "-3", "3.5", "1001", "9" * 5000, "١٢", " 4"])
def test_a_format_that_is_no_number_of_digits_is_refused(specification: str):
    with refused("the format of bounds", value=specification):
        format(Bounds(0.0, 1.0), specification)


@given(bounds=intervals(), threshold=numbers)
def test_comparisons_with_a_number_hold_for_every_value_inside(bounds: Bounds, threshold: float):
    ends = (bounds.lower, bounds.upper)
    assert (bounds <= threshold) == all(end <= threshold for end in ends)
    assert (bounds < threshold) == all(end < threshold for end in ends)
    assert (bounds >= threshold) == all(end >= threshold for end in ends)
    assert (bounds > threshold) == all(end > threshold for end in ends)
    assert (threshold >= bounds) == (bounds <= threshold)
    assert (threshold < bounds) == (bounds > threshold)
    assert (threshold in bounds) == (bounds.lower <= threshold <= bounds.upper)


@given(one=intervals(), other=intervals())
def test_comparisons_of_bounds_hold_for_every_pair_inside(one: Bounds, other: Bounds):
    pairs = [(x, y) for x in (one.lower, one.upper) for y in (other.lower, other.upper)]
    assert (one <= other) == all(x <= y for x, y in pairs)
    assert (one < other) == all(x < y for x, y in pairs)
    assert (one >= other) == all(x >= y for x, y in pairs)
    assert (one > other) == all(x > y for x, y in pairs)
    assert one.intersects(other) == other.intersects(one)
    assert one.intersects(other) == (not (one < other or one > other))


def test_an_open_question_is_answered_no_both_ways():
    bounds = Bounds(7.0, 9.0)
    assert not bounds <= 8.0
    assert not bounds >= 8.0
    assert not bounds <= math.nan
    assert not bounds >= math.nan


def test_there_is_no_midpoint():
    with pytest.raises(TypeError, match=r"\.upper \(the guarantee\)"):
        float(Bounds(1.0, 1.0))
    with pytest.raises(TypeError):
        int(Bounds(1.0, 1.0))  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        Bounds(1.0, 1.0) + 1.0  # type: ignore[operator]


@pytest.mark.parametrize(("lower", "upper"), [(1.0, 0.0), (math.nan, 1.0), (0.0, math.nan), (math.inf, -math.inf)])
def test_bounds_out_of_order_are_a_bug(lower: float, upper: float):
    with pytest.raises(AssertionError, match="not ordered"):
        Bounds(lower, upper)


@given(bounds=intervals())
def test_width_is_not_understated(bounds: Bounds):
    if math.isinf(bounds.lower) or math.isinf(bounds.upper):
        assert bounds.width == (0.0 if bounds.lower == bounds.upper else math.inf)
        assert bounds.relative_width in (0.0, math.inf)
        return
    exact = decimal.Context(prec=2000, Emin=-10_000, Emax=10_000)
    assert Decimal(bounds.width) >= exact.subtract(Decimal(bounds.upper), Decimal(bounds.lower))
    assert (bounds.width == 0.0) == (bounds.lower == bounds.upper)
    assert bounds.relative_width <= bounds.width / (1e-7 if 0.0 < bounds.upper < 1.0 else 1.0)


def test_widths_of_small_values_are_relative_to_themselves():
    """0.0006 and 0.0007 are not the same epsilon; next to 0, and of logarithms, there is nothing to be relative to."""
    assert Bounds(0.0006, 0.0007).relative_width == pytest.approx(1.0 / 7.0)
    assert Bounds(0.0, 1e-16).relative_width == pytest.approx(1e-9)
    assert Bounds(-0.0007, -0.0006).relative_width == pytest.approx(1e-4)
    assert Bounds(6.0, 7.0).relative_width == pytest.approx(1.0 / 7.0)


def test_bounds_cannot_be_changed():
    bounds = Bounds(0.0, 1.0)
    with pytest.raises(AttributeError):
        bounds.upper = 0.5  # type: ignore[misc]
    provenance = Provenance(directions={"add": (0.0, 1.0)})
    with pytest.raises(TypeError):
        provenance.directions["add"] = (0.0, 0.5)  # type: ignore[index]


def test_provenance_does_not_follow_the_mapping_it_was_made_from():
    counts = {"nodes": 3}
    provenance = Provenance(evaluations=counts)
    counts["nodes"] = 4
    assert provenance.evaluations == {"nodes": 3}


def test_equality_is_about_the_numbers():
    one = Bounds(0.0, 1.0, Provenance(engine="spectral"))
    other = Bounds(0.0, 1.0, Provenance(engine="lattice"))
    assert one == other
    assert hash(one) == hash(other)
    assert one != Bounds(0.0, 1.5)
    assert one != 1.0


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda bounds: pickle.loads(pickle.dumps(bounds))])
def test_bounds_survive_copying_and_pickling(duplicate):
    """Otherwise no answer could come back from a worker process."""
    provenance = Provenance(
        engine="spectral",
        adjacency="add",
        directions={"add": (1.0, 2.0)},
        evaluations={"nodes": 7},
        tolerance=1e-3,
        tolerance_met=False,
    )
    bounds = duplicate(Bounds(1.0, 2.0, provenance))
    assert bounds == Bounds(1.0, 2.0)
    assert bounds.provenance == provenance
    with pytest.raises(TypeError):
        bounds.provenance.directions["add"] = (0.0, 0.5)


def test_an_interval_is_shown_as_one_number_only_where_its_sides_agree():
    assert upper_or_both(Bounds(1.2345671, 1.2345673), 6) == "1.23457"
    assert upper_or_both(Bounds(1470.25, 1766.0), 6) == "1470.25 to 1766"
    assert upper_or_both(Bounds(12.0, math.inf), 6) == "12 to infinity"
    assert upper_or_both(Bounds(math.inf, math.inf), 6) == "infinity"
    assert upper_or_both(Bounds(0.0, 0.0), 6) == "0"
