"""TensorFlow Privacy's hyperparameters as runs, and a statement in its layout."""

from __future__ import annotations

import math

import pytest

import groupdp
from groupdp.integrations.tensorflow_privacy import from_tensorflow_privacy, statement, steps_of, to_tensorflow_privacy
from refusals import refused

USUAL = {
    "number_of_examples": 20_000,
    "batch_size": 200,
    "num_epochs": 20,
    "noise_multiplier": 4.0,
    "used_microbatching": False,
    "max_examples_per_user": 8,
}


def test_hyperparameters_become_runs():
    found = from_tensorflow_privacy(**USUAL)
    assert found.poisson_run == groupdp.DPSGD(
        sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=4.0, steps=2000
    )
    assert found.shuffled_run.sampling == groupdp.ShuffledSampling(batch_size=200, dataset_size=20_000)
    assert found.ordered_run.sampling == groupdp.FixedOrderSampling(batch_size=200, dataset_size=20_000)
    # With the old tool the user is told 4.945; the truth is 4.4437.
    assert groupdp.epsilon(found.poisson_run, delta=1e-6, group_size=8).upper == pytest.approx(4.4437, abs=1e-4)
    assert from_tensorflow_privacy(**{**USUAL, "used_microbatching": True}).poisson_run.microbatch_size > 1


def test_steps_are_rounded_up_once_at_the_end():
    assert steps_of(15, 256, 60_000) == math.ceil(15 / (256 / 60_000)) == 3516
    assert steps_of(0.1, 100, 10_000) == 10
    assert steps_of(1, 1, 93) == 93
    assert steps_of(1, 7, 7) == 1


def test_epochs_that_were_begun_count_where_data_are_not_sampled():
    found = from_tensorflow_privacy(**{**USUAL, "number_of_examples": 60_000, "batch_size": 256, "num_epochs": 14.5})
    ordered = groupdp.epsilon(found.ordered_run, delta=1e-6, group_size=8, adjacency="zero-out")
    gaussian = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=1.0), noise_multiplier=4.0, steps=15)
    assert ordered.upper == pytest.approx(groupdp.epsilon(gaussian, delta=1e-6, group_size=8).upper, rel=1e-9)


def test_the_statement_has_the_layout_and_the_true_numbers():
    text = statement(from_tensorflow_privacy(**USUAL), delta=1e-6)
    lines = text.splitlines()
    assert lines[0].startswith("DP-SGD over 20000 examples in batches of 200, noise multiplier 4.0, 20 epochs")
    assert "at most 8 examples per user" in " ".join(lines[:2])
    assert text.index("Example-level DP, at delta = 1e-06") < text.index("User-level DP, 8 examples per user")
    numbers = [line.split()[-1] for line in lines if line.startswith("    Epsilon")]
    found = from_tensorflow_privacy(**USUAL)
    expected = [
        groupdp.epsilon(run, delta=1e-6, group_size=k, adjacency=adjacency).upper
        for k in (1, 8)
        for run, adjacency in (
            (found.ordered_run, "zero-out"),
            (found.shuffled_run, "zero-out"),
            (found.poisson_run, "add-or-remove"),
        )
    ]
    assert [float(number) for number in numbers] == pytest.approx(expected, rel=1e-5)
    assert all(float(number) >= value for number, value in zip(numbers, expected, strict=True))
    assert numbers[-1] == "4.44372"
    assert "Vadhan's lemma" in text
    assert "4.9453" in text
    assert max(map(len, lines)) <= 100


def test_one_example_and_microbatches():
    alone = statement(from_tensorflow_privacy(**{**USUAL, "max_examples_per_user": 1}), delta=1e-6)
    assert "Vadhan" not in alone
    text = statement(from_tensorflow_privacy(**{**USUAL, "used_microbatching": True}), delta=1e-6)
    assert "with microbatching" in " ".join(text.split())
    assert "without" not in text


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"max_examples_per_user": None}, "max_examples_per_user"),
        ({"max_examples_per_user": 0}, "max_examples_per_user"),
        ({"batch_size": 30_000}, "batch_size"),
        ({"num_epochs": -1}, "num_epochs"),
        ({"num_epochs": math.inf}, "num_epochs"),
        ({"noise_multiplier": "4"}, "noise_multiplier"),
        ({"used_microbatching": 3}, "used_microbatching"),
        ({"number_of_examples": 0}, "number_of_examples"),
    ],
)
def test_wrong_hyperparameters_get_a_sentence(changes, argument):
    with refused(argument):
        from_tensorflow_privacy(**{**USUAL, **changes})


def test_runs_become_hyperparameters_and_come_back():
    run = from_tensorflow_privacy(**USUAL).poisson_run
    arguments = to_tensorflow_privacy(run, number_of_examples=20_000, max_examples_per_user=8)
    assert from_tensorflow_privacy(**arguments).poisson_run == run
    for steps in (1, 7, 93, 2001, 123_457):
        odd = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=7 / 93), noise_multiplier=1.0, steps=steps)
        told = to_tensorflow_privacy(odd, number_of_examples=93, max_examples_per_user=2)
        assert from_tensorflow_privacy(**told).poisson_run == odd
    with refused("rate", value=run.sampling.rate):
        to_tensorflow_privacy(run, number_of_examples=20_001, max_examples_per_user=8)
    shuffled = from_tensorflow_privacy(**USUAL).shuffled_run
    with refused("run"):
        to_tensorflow_privacy(shuffled, number_of_examples=20_000, max_examples_per_user=8)
