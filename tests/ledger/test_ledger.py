"""Ledgers: both figures, which of them applies, what still fits, and the commands about them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import groupdp
from command_line import assert_one_sentence
from command_line import groupdp as command
from groupdp import (
    DPSGD,
    ApproximateDP,
    BallsInBinsSampling,
    DiscreteGaussianRelease,
    FixedBatchSampling,
    GaussianRelease,
    InvalidArgument,
    LaplaceRelease,
    PoissonSampling,
    Search,
)
from groupdp.ledger import add_release, afford, append_line, make_ledger, read_ledger, spent
from groupdp.mechanisms.wrappers import OfGroup
from groupdp.run_file.run import RunFile, run_file_text

TRAINING = DPSGD(PoissonSampling(rate=0.01), noise_multiplier=2.0, steps=200)
TUNING = DPSGD(PoissonSampling(rate=0.02), noise_multiplier=1.5, steps=100)
HISTOGRAM = GaussianRelease(12.0)


def run_of(mechanism, size: int, **more) -> RunFile:
    return RunFile(title="A run", phases=(mechanism,), group_size=size, **more)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_ledger(tmp_path / "a.jsonl", delta=1e-6, epsilon=6.0, date="2026-01-31")
    return tmp_path / "a.jsonl"


def filled(path: Path, *chosen: str):
    """Pretraining with 8 examples, a histogram with 1, a fine-tuning with 3."""
    for when, (mechanism, size) in zip(chosen, ((TRAINING, 8), (HISTOGRAM, 1), (TUNING, 3)), strict=True):
        add_release(path, run_of(mechanism, size), chosen=when, date="2026-02-01")
    return read_ledger(path)


def test_the_composed_figure_is_the_epsilon_of_everything(path):
    ledger = filled(path, *["beforehand"] * 3)
    whole = groupdp.epsilon([(TRAINING, 8), (HISTOGRAM, 1), (TUNING, 3)], delta=1e-6)
    states = spent(ledger)
    assert (states[-1].composed.lower, states[-1].composed.upper) == (whole.lower, whole.upper)
    assert all(state.agrees for state in states)
    alone = groupdp.epsilon(TUNING, delta=1e-6, group_size=3)
    assert ledger.entries[2].bound["epsilon"] == {"lower": alone.lower, "upper": alone.upper}
    filtered = groupdp.filter_epsilon([(TRAINING, 8), (HISTOGRAM, 1), (TUNING, 3)], delta=1e-6)
    assert states[-1].filtered.upper == filtered.upper
    assert not ledger.looked


@pytest.mark.parametrize(
    "mechanism",
    [
        TRAINING,
        LaplaceRelease(8.0),
        DiscreteGaussianRelease(10.0),
        ApproximateDP(0.1, 1e-9, per_person=True),
        DPSGD(FixedBatchSampling(batch_size=10, dataset_size=1000), noise_multiplier=3.0, steps=50),
        DPSGD(BallsInBinsSampling(batches=50), noise_multiplier=3.0, steps=50),
        Search(TRAINING, 3),
        Search(HISTOGRAM, 10.0, "geometric"),
        Search(HISTOGRAM, 10.0, "poisson"),
    ],
    ids=lambda one: one.name,
)
def test_every_mechanism_is_kept_and_the_filter_is_never_below_the_composition(path, mechanism):
    add_release(path, run_of(mechanism, 2))
    ledger = add_release(path, run_of(HISTOGRAM, 1), chosen="beforehand")
    assert ledger.phases == (OfGroup.of(mechanism, 2), OfGroup.of(HISTOGRAM, 1))
    for state in spent(ledger):
        assert state.alone.upper <= state.composed.upper * (1.0 + 1e-9)
        assert state.composed.upper <= state.filtered.upper


def test_a_run_chosen_after_looking_is_held_to_the_budget_by_the_filter(path):
    ledger = filled(path, "beforehand", "beforehand", "after-looking")
    assert ledger.looked
    assert ledger.filtered().upper > ledger.composed().upper
    with pytest.raises(InvalidArgument) as error:
        afford(ledger, run_of(TUNING, 3), epsilon=7.0, chosen="beforehand")
    assert error.value.argument == "epsilon"
    found = afford(ledger, run_of(TUNING, 3), chosen="beforehand")
    assert (found.figure, found.fits) == ("filter", found.filtered.upper <= 6.0)


@pytest.mark.parametrize("chosen", ["beforehand", "after-looking"])
def test_the_least_noise_and_the_most_steps_fit_and_nothing_riskier_does(path, chosen):
    ledger = filled(path, *["beforehand"] * 3)
    found = afford(ledger, run_of(TUNING, 3), chosen=chosen)
    assert found.figure == ("composed" if chosen == "beforehand" else "filter")

    def figure(noise: float, steps: int) -> float:
        run = DPSGD(TUNING.sampling, noise_multiplier=noise, steps=steps)
        releases = [(TRAINING, 8), (HISTOGRAM, 1), (TUNING, 3), (run, 3)]
        if chosen == "beforehand":
            return groupdp.epsilon(releases, delta=1e-6).upper
        return groupdp.filter_epsilon(releases, delta=1e-6).upper

    assert figure(found.least_noise, 100) <= 6.0 < figure(found.least_noise * (1.0 - 3e-4), 100)
    assert figure(1.5, found.most_steps) <= 6.0 < figure(1.5, found.most_steps + 1)
    assert found.fits == (figure(1.5, 100) <= 6.0)


def test_where_the_budget_is_spent_nothing_fits(tmp_path):
    make_ledger(tmp_path / "b.jsonl", delta=1e-6, epsilon=0.5)
    ledger = add_release(tmp_path / "b.jsonl", run_of(TRAINING, 8))
    for chosen in ("beforehand", "after-looking"):
        found = afford(ledger, run_of(TUNING, 3), chosen=chosen)
        assert (found.fits, found.least_noise, found.most_steps) == (False, None, None)


def test_a_bound_that_is_not_its_runs_is_named(path):
    """A ledger whose chain was made anew around another bound: the figures come from the runs."""
    ledger = add_release(path, run_of(TRAINING, 2))
    entry = json.loads(path.read_text().split("\n")[1])
    entry["bound"]["epsilon"] = {"lower": 0.001, "upper": 0.002}
    append_line(path, lambda lines: {k: v for k, v in {**entry, "entry": 2}.items() if k not in ("previous", "digest")})
    states = spent(read_ledger(path))
    assert [state.agrees for state in states] == [True, False]
    assert states[1].alone.upper == spent(ledger)[0].alone.upper
    assert "Entry 2 states an epsilon that its run does not have" in command(f"ledger show --ledger {path}").output


@pytest.mark.parametrize(
    ("run", "keywords", "argument"),
    [
        (run_of(TRAINING, 2, adjacency="substitute"), {}, "adjacency"),
        (RunFile(phases=(TRAINING,), removed=1), {}, "adjacency"),
        (RunFile(phases=(TRAINING,)), {}, "group_size"),
        (run_of(groupdp.MixtureOfGaussians([1.0], [1.0], 1.0), 1), {}, "run"),
        (run_of(TRAINING, 2), {"chosen": "perhaps"}, "chosen"),
        (run_of(TRAINING, 2), {"date": "2026-02-30"}, "date"),
        (run_of(TRAINING, 2), {"covers": "two\nlines"}, "covers"),
    ],
)
def test_what_cannot_be_an_entry_is_refused(path, run, keywords, argument):
    before = path.read_bytes()
    with pytest.raises(InvalidArgument) as error:
        add_release(path, run, **keywords)
    assert (error.value.argument, path.read_bytes()) == (argument, before)


def test_from_the_second_entry_on_it_must_be_said_when_parameters_were_chosen(path):
    ledger = add_release(path, run_of(TRAINING, 2))
    for ask in (lambda: add_release(path, run_of(TRAINING, 2)), lambda: afford(ledger, run_of(TRAINING, 2))):
        with pytest.raises(InvalidArgument) as error:
            ask()
        assert error.value.argument == "chosen"


@pytest.mark.parametrize(
    ("keywords", "argument"),
    [
        ({"delta": 0.0}, "delta"),
        ({"delta": 1e-6, "epsilon": -1.0}, "epsilon"),
        ({"delta": 1e-6, "adjacency": "add-and-remove"}, "adjacency"),
        ({"delta": 1e-6, "filter_orders": ()}, "filter_orders"),
        ({"delta": 1e-6, "filter_orders": (0.5,)}, "filter_orders"),
    ],
)
def test_bad_ledgers_are_not_made(tmp_path, keywords, argument):
    with pytest.raises(InvalidArgument) as error:
        make_ledger(tmp_path / "c.jsonl", **keywords)
    assert error.value.argument == argument
    assert list(tmp_path.iterdir()) == []


def test_infinite_bounds_are_kept(path):
    ledger = add_release(path, run_of(GaussianRelease(0.0), 1))
    assert spent(ledger)[0].alone.upper == math.inf
    shown = command(f"ledger show --ledger {path} --json").json
    assert shown["entries"][0]["alone"]["upper"] == "Infinity"
    assert shown["guaranteed"] == "Infinity"


def test_what_is_above_the_budget_says_so(tmp_path):
    book = tmp_path / "book.jsonl"
    run = "--sampling-rate 0.01 --noise-multiplier 1.5 --steps 2000 --chosen beforehand"
    assert command(f"ledger new --ledger {book} --delta 1e-6 --epsilon 12").status == 0
    for group_size, above in ((2, False), (8, True)):
        added = command(f"ledger add {run} --group-size {group_size} --ledger {book}").output
        assert ("above the budget of 12" in added) is above
        assert ("above the budget of 12" in command(f"ledger show --ledger {book}").output) is above
    afforded = command(f"ledger afford {run} --group-size 1 --ledger {book}").output
    assert "The budget is exceeded without this run" in afforded


def test_the_commands(tmp_path):
    book, run = tmp_path / "book.jsonl", tmp_path / "run.toml"
    run.write_text(run_file_text(run_of(TUNING, 3, delta=1e-6)))
    assert command(f"ledger new --ledger {book} --delta 1e-6 --epsilon 6 --date 2026-01-31").status == 0
    assert_one_sentence(command(f"ledger new --ledger {book} --delta 1e-6"), "ledger", "new file")
    first = command(f"ledger add {run}:8 --ledger {book} --date 2026-02-01 --json").json
    assert_one_sentence(command(f"ledger add {run} --ledger {book}"), "chosen")
    assert_one_sentence(command(f"ledger add {run} {run} --ledger {book} --chosen beforehand"), "one at a time")
    assert command(f"ledger add {run} --ledger {book} --chosen beforehand --date 2026-02-02").status == 0
    shown = command(f"ledger show --ledger {book} --has {first['digest']} --json").json
    assert [entry["run"][0]["group_size"] for entry in shown["entries"]] == [8, 3]
    whole = command(f"epsilon {run}:8 {run}:3 --json").json
    assert shown["guaranteed"] == whole["epsilon"]["upper"] == shown["entries"][1]["composed_so_far"]["upper"]
    assert command(f"epsilon {book} --json").json["epsilon"] == whole["epsilon"]
    more = command(f"epsilon {book} {run}:2 --json").json["epsilon"]["upper"]
    assert (
        command(f"ledger afford {run}:2 --ledger {book} --chosen beforehand --json").json["composed"]["upper"] == more
    )
    assert_one_sentence(command(f"ledger show --ledger {book} --has 0123"), "digest")
    picture = tmp_path / "spent.svg"
    assert command(f"ledger show --ledger {book} --plot {picture}").status == 0
    assert picture.read_text().startswith("<?xml")
    text = book.read_text()
    book.write_text(text.replace('"group_size": 8', '"group_size": 1'))
    assert_one_sentence(command(f"ledger show --ledger {book}"), "line 2", "changed")
    assert_one_sentence(command(f"statement {book}"), "line 2", "changed")


def test_statements_of_ledgers_name_the_figure_that_applies(path):
    filled(path, *["beforehand"] * 3)
    composed = command(f"statement {path} --json").json
    assert composed["figure"] == "composed"
    assert composed["epsilon"]["upper"] == spent(read_ledger(path))[-1].composed.upper
    text = command(f"statement {path}").output
    assert "Everything released so far (3 entries) about everybody is (epsilon, delta)-differentially private" in text
    assert "8 examples" in text
    add_release(path, run_of(HISTOGRAM, 1), chosen="after-looking")
    looked = command(f"statement {path} --json").json
    assert (looked["figure"], looked["epsilon"]["upper"]) == ("filter", 6.0)
    assert looked["filter"] <= 6.0
    for question in ("epsilon", "delta --epsilon 3", "statement --short"):
        name, *rest = question.split()
        assert_one_sentence(command(f"{name} {path} {' '.join(rest)}"), "chosen after looking")
    add_release(path, run_of(TRAINING, 8), chosen="after-looking")
    assert "No guarantee is stated" in command(f"statement {path}").output
