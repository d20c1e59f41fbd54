"""Vadhan's lemma: its two forms, proofs that nothing smaller is feasible, the exact curve of one example."""

from __future__ import annotations

import math
from fractions import Fraction

import flint
import pytest
from hypothesis import given
from hypothesis import strategies as st

import groupdp
from groupdp import DPSGD, Bounds, FixedBatchSampling, LimitExceeded, PoissonSampling
from groupdp.baselines import (
    linear_reference,
    old_tool_epsilon,
    renyi_vadhan_epsilon,
    vadhan_epsilon,
    vadhan_epsilons,
)
from groupdp.baselines.renyi import old_tool_epsilons
from groupdp.baselines.smallest_feasible import FORMS, Growth, Problem, Values, smallest_feasible
from groupdp.baselines.vadhan import TOLERANCE
from oracle.one_example import OneExample
from refusals import refused
from strategies import examples

PAPER = DPSGD(sampling=PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=2000)
QUIET = DPSGD(sampling=PoissonSampling(rate=0.01), noise_multiplier=2.0, steps=2000)


def full_batch(noise: float, steps: int = 1) -> DPSGD:
    """A Gaussian mechanism: everything has a closed form."""
    return DPSGD(sampling=PoissonSampling(rate=1.0), noise_multiplier=noise, steps=steps)


# ------------------------------------------------------------------------------------------- the lemma's growth


def exact_log_growth(form: str, k: int, epsilon: float) -> flint.arb:
    e = flint.arb(Fraction(epsilon).numerator) / Fraction(epsilon).denominator
    if form == "lemma":
        return flint.arb(k).log() + k * e
    if epsilon == 0.0:
        return flint.arb(k).log()
    return (((k * e).exp() - 1) / (e.exp() - 1)).log()


@given(
    form=st.sampled_from(FORMS),
    k=st.integers(2, 100_000),
    epsilon=st.one_of(st.just(0.0), st.floats(1e-12, 1e-3), st.floats(1e-3, 1e4)),
)
def test_growth_is_within_its_stated_rounding(form, k, epsilon):
    with flint.ctx.workprec(400):
        growth = Growth(form, k)
        if form == "geometric" and k * epsilon >= 3e4:  # e^{k eps} would be a very long number: take it out
            e = flint.arb(Fraction(epsilon).numerator) / Fraction(epsilon).denominator
            exact = (k - 1) * e + ((1 - (-k * e).exp()) / (1 - (-e).exp())).log()
        else:
            exact = exact_log_growth(form, k, epsilon)
        error = abs(exact - flint.arb(growth.value(epsilon)))
        assert error < growth.rounding(epsilon)


@given(form=st.sampled_from(FORMS), k=st.integers(2, 1000), epsilon=st.floats(1e-3, 50))
def test_growth_is_never_steeper_than_stated(form, k, epsilon):
    growth = Growth(form, k)
    step = 1e-3
    rise = growth.value(epsilon + step) - growth.value(epsilon)
    assert rise <= growth.steepest * step + 2 * growth.rounding(epsilon + step)


def test_the_geometric_form_is_the_sum_it_claims_to_be():
    for k in (2, 3, 9):
        for epsilon in (1e-9, 0.1, 3.0):
            direct = math.log(math.fsum(math.exp(i * epsilon) for i in range(k)))
            assert Growth("geometric", k).value(epsilon) == pytest.approx(direct, abs=1e-14)


# --------------------------------------------------------------------------- the smallest feasible epsilon, proved


class DiscreteLoss:
    """A mechanism whose privacy loss has finitely many values: delta is exact, and f may cross often."""

    def __init__(self, atoms: list[tuple[float, float]]) -> None:
        total = math.fsum(weight for _, weight in atoms)
        self.atoms = [(loss, weight / total) for loss, weight in atoms]

    def log_delta(self, epsilon: float) -> float:
        terms = [weight * -math.expm1(epsilon - loss) for loss, weight in self.atoms if loss > epsilon]
        total = math.fsum(terms)
        return math.log(total) if total > 0.0 else -math.inf

    def __call__(self, epsilon: float) -> Bounds:
        value = self.log_delta(epsilon)
        if value == -math.inf:
            return Bounds(value, value)
        slack = 1e-12 * (1.0 + abs(value))
        return Bounds(value - slack, value + slack)


atoms = st.lists(st.tuples(st.floats(0.01, 30.0), st.floats(-60.0, 0.0).map(math.exp)), min_size=1, max_size=6)


@examples(200)
@given(
    atoms=atoms,
    k=st.integers(2, 12),
    form=st.sampled_from(FORMS),
    log_target=st.floats(-60.0, -1.0),
    most_values=st.sampled_from((3, 20, 2000)),
)
def test_nothing_below_the_lower_bound_is_feasible_and_the_upper_bound_is(atoms, k, form, log_target, most_values):
    """B-1, B-2 and B-3 on curves whose f crosses the target several times."""
    curve = DiscreteLoss(atoms)
    growth = Growth(form, k)
    found = smallest_feasible(Problem(Values(curve), growth, log_target, most_values), start=1.0)
    assert found.upper == math.inf or growth.value(found.upper) + curve.log_delta(found.upper) <= log_target
    if most_values == 2000:
        assert found.width <= 1e-6 * found.upper
    # Between two values of the loss f can dip anywhere: look closely, and at the values themselves.
    places = [found.lower * j / 300 for j in range(300)]
    places += [min(loss, found.lower) * (1 - 1e-12) for loss, _ in curve.atoms]
    for place in places if found.lower > 0.0 else ():
        assert growth.value(place) + curve.log_delta(place) > log_target


def test_the_first_of_two_feasible_stretches_bounds_the_answer():
    # delta falls to e^-20 at epsilon = 1, stays there until 29, and then falls to nothing: f dips, rises, dips.
    curve = DiscreteLoss([(1.0, 1.0), (30.0, math.exp(-20.0))])
    growth = Growth("lemma", 2)
    log_target = -15.0
    assert growth.value(1.0) + curve.log_delta(1.0) < log_target  # the first stretch
    assert growth.value(15.0) + curve.log_delta(15.0) > log_target  # between
    assert growth.value(30.0) + curve.log_delta(30.0) == -math.inf  # the second
    found = smallest_feasible(Problem(Values(curve), growth, log_target), start=20.0)
    assert found.upper <= 1.0
    assert found.width < 1e-8


def test_the_answer_does_not_depend_on_where_the_search_begins():
    curve = DiscreteLoss([(2.0, 1.0), (5.0, 1e-3), (9.0, 1e-7)])
    answers = [
        smallest_feasible(Problem(Values(curve), Growth("lemma", 2), -5.0), start=start)
        for start in (1e-6, 0.3, 2.0, 8.999, 40.0)
    ]
    for found in answers:
        assert found.intersects(answers[0])
        assert found.width < 1e-8


def test_a_curve_that_cannot_be_evaluated_far_enough_has_an_infinite_upper_bound():
    def curve(epsilon: float) -> Bounds:
        if epsilon > 4.0:
            raise LimitExceeded("too far")
        return Bounds(-epsilon, -epsilon)

    found = smallest_feasible(Problem(Values(curve), Growth("lemma", 2), -10.0), start=1.0)
    assert found.upper == math.inf
    assert 0.0 < found.lower <= 4.0  # f = log 2 + epsilon is infeasible wherever it was looked at


# ------------------------------------------------------------- Vadhan's lemma on the exact curve: Gaussian oracle


def gaussian_log_delta(mu: flint.arb, epsilon: flint.arb) -> flint.arb:
    """log(Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)) in ball arithmetic."""

    def phi(x: flint.arb) -> flint.arb:
        return (-x / flint.arb(2).sqrt()).erfc() / 2

    return (phi(mu / 2 - epsilon / mu) - epsilon.exp() * phi(-mu / 2 - epsilon / mu)).log()


def gaussian_vadhan(mu: float, k: int, form: str, delta: str) -> float:
    """The smallest feasible k eps for a Gaussian mechanism.

    log delta of a Gaussian mechanism is concave and log growth convex with a bounded slope; the smallest root is
    found by stepping from the left until the sign changes, then bisecting.
    """
    with flint.ctx.workprec(3000):
        target = flint.arb(delta).log()

        def excess(epsilon: flint.arb) -> flint.arb:
            e = epsilon
            growth = flint.arb(k).log() + k * e if form == "lemma" else (((k * e).exp() - 1) / (e.exp() - 1)).log()
            return growth + gaussian_log_delta(flint.arb(mu), e) - target

        step = flint.arb("0.05")
        low = flint.arb("0.05")
        assert excess(low) > 0
        while excess(low + step) > 0:
            low += step
        high = low + step
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        return float((k * high).mid())


@pytest.mark.thinned(6)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("mu", "k"), [(0.5, 2), (1.0, 3), (1.0, 9), (2.0, 5)])
def test_vadhan_of_a_gaussian_mechanism_agrees_with_ball_arithmetic(mu, k, form):
    bounds = vadhan_epsilon(full_batch(1.0 / mu), delta=1e-6, group_size=k, form=form)
    exact = gaussian_vadhan(mu, k, form, "1e-6")
    assert bounds.lower * (1 - 1e-13) <= exact <= bounds.upper * (1 + 1e-13)
    assert bounds.relative_width < 1e-8


def test_the_paper_s_example_at_sigma_1_and_k_9():
    ours = groupdp.epsilon(PAPER, delta=1e-6, group_size=9)
    assert 40.80104 <= ours.lower <= ours.upper <= 40.80105
    reference = linear_reference(PAPER, delta=1e-6, group_size=9)
    assert reference.lower <= 9 * 2.955246
    assert reference.upper >= 9 * 2.955245
    geometric = vadhan_epsilons(PAPER, delta=1e-6, group_sizes=(9,), form="geometric")[0]
    assert 1766.00 < geometric.lower <= geometric.upper < 1766.02
    assert geometric.provenance.tolerance_met
    assert old_tool_epsilon(PAPER, delta=1e-6, group_size=9) == math.inf


def test_the_lemma_s_delta_prime_may_be_far_below_the_smallest_double():
    # At k = 16 the intermediate delta' is about e^-700000.
    (bounds,) = vadhan_epsilons(PAPER, delta=1e-6, group_sizes=(16,))
    assert bounds.provenance.tolerance_met
    # Feasible on one side and not on the other, in the oracle's arithmetic.
    curve = OneExample(0.01, 1.0, 2000, "remove")
    excess = [
        math.log(16) + epsilon + curve.log_delta(epsilon / 16) - math.log(1e-6)
        for epsilon in (bounds.lower * (1.0 - 1e-6), bounds.upper * (1.0 + 1e-6))
    ]
    assert excess[0] > 0.0 > excess[1]


def test_both_forms_bound_the_tight_epsilon_and_the_sum_is_sharper():
    for k in (2, 5):
        tight = groupdp.epsilon(QUIET, delta=1e-6, group_size=k)
        lemma = vadhan_epsilon(QUIET, delta=1e-6, group_size=k)
        geometric = vadhan_epsilon(QUIET, delta=1e-6, group_size=k, form="geometric")
        assert tight.lower <= geometric.upper
        assert geometric.upper < lemma.lower
        assert renyi_vadhan_epsilon(QUIET, delta=1e-6, group_size=k).lower > geometric.upper


def test_several_group_sizes_at_once_are_the_same_as_one_by_one():
    together = vadhan_epsilons(QUIET, delta=1e-6, group_sizes=(3, 1, 2), form="geometric")
    for k, bounds in zip((3, 1, 2), together, strict=True):
        assert bounds.intersects(vadhan_epsilon(QUIET, delta=1e-6, group_size=k, form="geometric"))


def test_directions_are_kept_apart_and_the_worse_one_decides():
    add, remove, either = (
        vadhan_epsilon(QUIET, delta=1e-6, group_size=3, form="geometric", adjacency=adjacency)
        for adjacency in ("add", "remove", "add-or-remove")
    )
    assert add.upper < remove.lower  # as in the tight analysis of this run
    assert either.intersects(remove)
    for adjacency, bounds in (("add", add), ("remove", remove)):
        assert groupdp.epsilon(QUIET, delta=1e-6, group_size=3, adjacency=adjacency).lower <= bounds.upper
    same = [
        vadhan_epsilon(full_batch(1.0), delta=1e-6, group_size=3, adjacency=adjacency)
        for adjacency in ("add", "remove", "add-or-remove")
    ]
    assert same[0].intersects(same[1])
    assert same[2].intersects(same[1])


def test_a_group_of_one_needs_no_lemma():
    one = groupdp.epsilon(QUIET, delta=1e-6, group_size=1)
    assert vadhan_epsilon(QUIET, delta=1e-6, group_size=1).intersects(one)
    assert linear_reference(QUIET, delta=1e-6, group_size=1).intersects(one)
    assert vadhan_epsilon(QUIET, delta=1e-6, group_size=0).upper == 0.0


def test_without_noise_no_lemma_helps():
    run = DPSGD(sampling=PoissonSampling(rate=0.01), noise_multiplier=0.0, steps=10)
    assert vadhan_epsilon(run, delta=1e-6, group_size=3) == Bounds(math.inf, math.inf)
    assert renyi_vadhan_epsilon(run, delta=1e-6, group_size=3) == Bounds(math.inf, math.inf)
    assert old_tool_epsilon(run, delta=1e-6, group_size=3) == math.inf


def test_without_steps_everything_is_free():
    run = DPSGD(sampling=PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=0)
    assert vadhan_epsilon(run, delta=1e-6, group_size=3).upper == 0.0
    assert renyi_vadhan_epsilon(run, delta=1e-6, group_size=3).upper == 0.0
    assert old_tool_epsilon(run, delta=1e-6, group_size=3) == 0.0


@pytest.mark.parametrize("function", [vadhan_epsilon, renyi_vadhan_epsilon, old_tool_epsilon, linear_reference])
@pytest.mark.parametrize(
    "bad", [{"delta": 0.0}, {"delta": math.nan}, {"delta": "1e-6"}, {"group_size": -1}, {"group_size": 2.0}]
)
def test_baselines_refuse_what_is_not_a_question(function, bad):
    with refused(next(iter(bad))):
        function(PAPER, **({"delta": 1e-6, "group_size": 2} | bad))


def test_an_unknown_form_is_refused():
    with refused("form"):
        vadhan_epsilon(PAPER, delta=1e-6, group_size=2, form="best")


def test_fixed_batches_have_baselines_too():
    run = DPSGD(sampling=FixedBatchSampling(batch_size=500, dataset_size=50_000), noise_multiplier=4.0, steps=2000)
    poisson = vadhan_epsilon(QUIET, delta=1e-6, group_size=4, form="geometric")
    fixed = vadhan_epsilon(run, delta=1e-6, group_size=4, form="geometric")
    assert fixed.upper == pytest.approx(poisson.upper, rel=1e-3)  # section 4: nearly the same


def test_an_excess_far_below_a_point_s_last_bit_ends_the_proof_there():
    """Halving an interval without end is not a proof."""

    class Flat(Problem):
        def excess(self, epsilon):
            return Bounds(1e-300, 1e-300) if epsilon < 1.0 else Bounds(-1.0, -1.0)

    problem = Flat(Values(lambda epsilon: Bounds(-5.0, -5.0)), Growth("lemma", 3), -5.0)
    found = smallest_feasible(problem, start=2.0)
    assert 0.0 <= found.lower <= found.upper == pytest.approx(1.0, rel=1e-8)


@pytest.mark.parametrize("form", ["lemma", "geometric"])
def test_bounds_do_not_depend_on_which_other_sizes_are_asked(form):
    together = vadhan_epsilons(PAPER, group_sizes=range(2, 9), delta=1e-6, form=form)
    for k in (2, 6, 8):
        (alone,) = vadhan_epsilons(PAPER, group_sizes=(k,), delta=1e-6, form=form)
        assert alone.intersects(together[k - 2])
        assert alone.provenance.tolerance_met
        assert alone.width <= TOLERANCE * alone.upper


def test_the_old_tool_s_walks_side_by_side_end_where_each_one_ends():
    sizes = (9, 0, 1, 4, 8, 4)
    together = old_tool_epsilons(PAPER, delta=1e-6, group_sizes=sizes)
    assert together == [old_tool_epsilon(PAPER, delta=1e-6, group_size=size) for size in sizes]


@pytest.mark.parametrize("adjacency", ["substitute", "zero-out", "add-and-remove"])
def test_the_lemma_is_refused_where_one_example_removed_says_nothing(adjacency):
    """Replaced, a group of 3 has an epsilon of 4.46 here: the ceiling of one example removed would say 3.75."""
    run = DPSGD(PoissonSampling(rate=0.1), noise_multiplier=2.0, steps=20)
    with refused("adjacency"):
        vadhan_epsilon(run, delta=1e-3, group_size=3, adjacency=adjacency)


def test_a_walk_through_datasets_that_may_leak_more_is_refused():
    """Batches are cut on the way to a larger group, and never for the first example: P-6 is not monotone in n."""
    sampling = groupdp.TruncatedPoissonSampling(rate=0.5, largest_batch=3, dataset_size=2)
    run = DPSGD(sampling, noise_multiplier=1.5, steps=30)
    for baseline in (vadhan_epsilon, renyi_vadhan_epsilon, groupdp.fdp_epsilon):
        with refused("sampling", value="truncated Poisson sampling"):
            baseline(run, delta=1e-3, group_size=3)


def test_the_f_dp_bound_is_zero_from_k_times_delta_at_zero_on():
    run = groupdp.DPSGD(groupdp.PoissonSampling(rate=1e-6), noise_multiplier=3.0, steps=4)
    at_zero = groupdp.delta(run, epsilon=0.0, group_size=1)
    enough, too_little = (
        groupdp.fdp_epsilon(run, delta=delta, group_size=3)
        for delta in (3.0 * at_zero.upper * (1 + 1e-9), 2.99 * at_zero.lower)
    )
    assert (enough.lower, enough.upper) == (0.0, 0.0)
    assert too_little.upper >= too_little.lower > 0.0
