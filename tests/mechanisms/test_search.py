"""Searches of hyperparameters: composed where their number is fixed, Papernot and Steinke's bound where it is drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

import groupdp
from command_line import groupdp as command
from groupdp import DPSGD, ApproximateDP, GaussianRelease, InvalidArgument, PoissonSampling, Search
from groupdp.mechanisms.named_values import phase_of
from groupdp.mechanisms.wrappers import ORDERS
from groupdp.moments import law_of_divergences
from groupdp.run_file import parse_run_file
from groupdp.run_file.run import RunFile, run_file_text

TRAINING = DPSGD(PoissonSampling(rate=0.01), noise_multiplier=2.0, steps=200)


def gaussian_delta(mu: float, epsilon: float) -> float:
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize("mu", [0.05, 0.7, 3.0])
def test_known_losses_from_divergences_dominate_every_pair_that_has_them(mu):
    """A Gaussian pair has D_alpha = alpha mu^2 / 2: the law's curve is above its own at every epsilon."""
    law = law_of_divergences({order: order * mu**2 / 2.0 for order in ORDERS})
    for epsilon in np.linspace(-6.0 * mu - 1.0, 6.0 * mu + 1.0, 101).tolist():
        exact = gaussian_delta(mu, epsilon)
        assert math.exp(law.log_delta(epsilon, up=True)) >= exact * (1.0 - 1e-9) - 1e-13
    # Where the conversion of one order is best, the law is not much above it.
    epsilon = 3.0 * mu + mu**2
    converted = min((a - 1) * (a * mu**2 / 2 - epsilon + math.log1p(-1 / a)) - math.log(a) for a in ORDERS)
    assert law.log_delta(epsilon, up=True) <= converted + 0.5


def test_total_mass_of_a_law_of_divergences_is_one():
    law = law_of_divergences({order: order * 0.125 for order in ORDERS})
    total = math.fsum(np.exp(law.log_p)) + math.exp(law.log_lost)
    assert total == pytest.approx(1.0, abs=1e-11)
    assert math.fsum(np.exp(law.log_p - law.losses)) <= 1.0 + 1e-9  # Q's mass at -infinity is not among the atoms


@pytest.mark.parametrize("run", [TRAINING, GaussianRelease(3.0), ApproximateDP(0.2, per_person=True)])
def test_a_fixed_number_of_runs_is_composed_bit_for_bit(run):
    searched = groupdp.epsilon(Search(run, 4), delta=1e-6, group_size=2)
    composed = groupdp.epsilon([run] * 4, delta=1e-6, group_size=2)
    assert (searched.lower, searched.upper, searched.tight) == (composed.lower, composed.upper, composed.tight)


def best_of(p: float, mean: float, law: str) -> float:
    """The probability that some run of the search has the outcome 1, each with probability p; 0 runs have none."""
    if law == "geometric":
        share = 1.0 / mean
        return 1.0 - share * (1.0 - p) / (1.0 - (1.0 - share) * (1.0 - p))
    return 1.0 - math.exp(-mean * p)


@pytest.mark.parametrize("law", ["geometric", "poisson"])
@pytest.mark.parametrize("mean", [1.5, 10.0, 100.0])
@pytest.mark.parametrize("epsilon", [0.05, 0.5])
def test_a_search_is_never_below_what_the_best_of_randomized_responses_reveals(law, mean, epsilon):
    """One bit, by randomized response or skewed towards 0; 1 is best. Its law is exact, in both orders."""
    search = Search(ApproximateDP(epsilon, per_person=True), mean, law)
    for at in (0.0, 0.5 * epsilon, epsilon, 2.0 * epsilon, 2.9 * epsilon):
        upper = groupdp.delta(search, epsilon=at, group_size=1).upper
        for scale in (1.0, 1.0 / mean, 0.1 / mean):
            high, low = (scale * math.exp(s) / (1.0 + math.exp(s)) for s in (epsilon, -epsilon))
            if low < high and (1.0 - low) <= math.exp(epsilon) * (1.0 - high):
                for p, q in ((high, low), (low, high)):
                    first, second = best_of(p, mean, law), best_of(q, mean, law)
                    exact = max(first - math.exp(at) * second, (1 - first) - math.exp(at) * (1 - second), 0.0)
                    assert exact <= upper + 1e-15


@pytest.mark.parametrize("law", ["geometric", "poisson"])
def test_alone_a_search_costs_what_its_divergences_say_and_beside_others_it_composes(law):
    search = Search(TRAINING, 20.0, law)
    alone = groupdp.epsilon(search, delta=1e-6, group_size=3)
    direct = groupdp.tuned_epsilon(TRAINING, delta=1e-6, mean_trials=20.0, trials=law, group_size=3)
    once = groupdp.epsilon(TRAINING, delta=1e-6, group_size=3)
    assert once.upper < direct.upper <= alone.upper * (1.0 + 1e-9)
    assert alone.upper <= direct.upper * (1.05 if law == "geometric" else 1.5)
    assert not alone.tight
    both = groupdp.epsilon([search, (TRAINING, 1)], delta=1e-6, group_size=3)
    assert alone.upper < both.upper < alone.upper + once.upper
    assert groupdp.filter_epsilon([search, (TRAINING, 1)], delta=1e-6, group_size=3).upper >= alone.upper


def test_a_search_in_a_run_file_comes_back_and_options_keep_it(tmp_path):
    file = RunFile(
        phases=(Search(TRAINING, 20.0, "geometric"), Search(GaussianRelease(3.0), 5)), delta=1e-6, group_size=2
    )
    assert parse_run_file(run_file_text(file)) == file
    path = tmp_path / "search.toml"
    path.write_text(run_file_text(RunFile(phases=(Search(TRAINING, 4),), delta=1e-6, group_size=2)))
    overridden = command(f"epsilon {path} --noise-multiplier 2.0 --json").json
    assert overridden["epsilon"] == command(f"epsilon {path} --json").json["epsilon"]
    flags = "--sampling-rate 0.01 --noise-multiplier 2 --steps 200 --runs 4 --delta 1e-6 --group-size 2"
    assert command(f"epsilon {flags} --json").json["epsilon"] == overridden["epsilon"]


@pytest.mark.parametrize(
    ("values", "argument"),
    [
        ({"runs": 2.5}, "runs"),
        ({"runs": 0}, "runs"),
        ({"runs": 3, "poisson_runs": 3.0}, "poisson_runs"),
        ({"geometric_runs": 0.5}, "geometric_runs"),
    ],
)
def test_bad_searches_are_refused(values, argument):
    with pytest.raises(InvalidArgument) as error:
        phase_of({"mechanism": "gaussian", "noise_multiplier": 2.0, **values})
    assert error.value.argument == argument
