"""Per-person view and contribution caps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import groupdp
from groupdp.data.manifest import Counts
from groupdp.guarantees import Asked, quick_epsilons
from groupdp.people import histogram_of, people_view
from groupdp.people.cap import choose_cap
from groupdp.people.counts_file import read_counts
from groupdp.people.plan import advice
from refusals import refused

RUN = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=2.0, steps=1000)


def skewed(people: int, largest: int) -> np.ndarray:
    rng = np.random.default_rng(7)
    return np.minimum(np.ceil(rng.pareto(1.2, people)).astype(np.int64).clip(1), largest)


def test_everybody_has_the_epsilon_of_their_own_group() -> None:
    view = people_view(RUN, [3, 1, 1, 7, 3, 1], delta=1e-6)
    assert view.counts == (1, 3, 7)
    assert view.people == (3, 2, 1)
    for count, bounds in zip(view.counts, view.epsilon, strict=True):
        assert bounds.intersects(groupdp.epsilon(RUN, delta=1e-6, group_size=count))
    one, three, seven = (bounds.upper for bounds in view.epsilon)
    assert view.total == 6
    assert view.protected(one) == 3
    assert view.protected(three) == 5
    assert view.protected(0.0) == 0
    assert view.quantile(0.5) == one
    assert view.quantile(0.51) == three
    assert view.quantile(1.0) == seven


def test_bounds_from_neighbours_are_no_tighter_than_these(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupdp.people.MOST_WORK", 5)
    shuffled = groupdp.DPSGD(
        sampling=groupdp.ShuffledSampling(batch_size=50, dataset_size=5000), noise_multiplier=4.0, steps=200
    )
    view = people_view(shuffled, list(range(1, 12)), delta=1e-6, adjacency="zero-out")
    assert not any(bounds.tight for bounds in view.epsilon)
    assert not view.tight
    assert people_view(RUN, list(range(1, 12)), delta=1e-6).tight


def test_many_distinct_counts_are_bounded_by_their_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupdp.people.MOST_WORK", 5)
    monkeypatch.setattr("groupdp.people._SPARSE", 20)
    asked = []

    def answered(questions: Sequence[Asked]) -> list[groupdp.Bounds | None]:
        asked.extend(keywords["group_size"] for _, keywords in questions)
        return quick_epsilons(questions)

    def alone(run: object, *, group_size: int, **rest: object) -> groupdp.Bounds:
        asked.append(group_size)
        return groupdp.epsilon(run, group_size=group_size, **rest)

    monkeypatch.setattr("groupdp.people.quick_epsilons", answered)
    monkeypatch.setattr("groupdp.people.epsilon_of_run", alone)
    counts = list(range(1, 21))
    view = people_view(RUN, counts, delta=1e-6)
    assert asked == [1, 2, 3, 4, 5, 6, 7, 9, 13, 20]  # from k, to the last count of at most k (1 + k / 20)
    for count, bounds in zip(view.counts, view.epsilon, strict=True):
        if count in (2, 8, 14, 20):
            exact = groupdp.epsilon(RUN, delta=1e-6, group_size=count)
            assert bounds.lower <= exact.upper
            assert bounds.upper >= exact.lower
    uppers = [bounds.upper for bounds in view.epsilon]
    assert uppers == sorted(uppers)


@pytest.mark.parametrize(
    ("counts", "got"),
    [
        ([], "shape (0,)"),
        ([1, 0], "0"),
        ([1.5], 1.5),
        (["a"], "a"),
        ([[1, 2]], "shape (1, 2)"),
        ([2**60], str(2**60)),
        ([True], True),
        ("12", "shape ()"),
    ],
)
def test_bad_counts_get_a_sentence(counts: object, got: object) -> None:
    with refused("counts", value=got):
        histogram_of(counts)


def test_caps_are_calibrated_and_the_best_allowed_one_is_recommended() -> None:
    counts = skewed(2000, 40)
    study = choose_cap(counts, epsilon=8.0, delta=1e-6, batch_size=128, steps=1000, minimum_share=0.75)
    allowed = [row for row in study.rows if row.allowed]
    assert study.recommended == min(allowed, key=lambda row: (row.noise_per_average, -row.cap)).cap
    for row in study.rows:
        kept = int(np.minimum(counts, row.cap).sum())
        assert row.examples_kept == kept
        assert row.sampling_rate == pytest.approx(128 / kept)
        assert row.allowed == (kept >= 0.75 * counts.sum())
        assert row.epsilon.upper <= 8.0
        assert row.noise_per_average == row.noise_multiplier / 128
        assert row.people_per_batch == pytest.approx(128 / kept * 2000)
        assert row.person_noise_multiplier <= row.noise_multiplier * (1 + 1e-3)
    chosen = study.row(study.recommended)
    run = groupdp.DPSGD(
        sampling=groupdp.PoissonSampling(rate=chosen.sampling_rate),
        noise_multiplier=chosen.noise_multiplier,
        steps=chosen.steps,
    )
    assert groupdp.epsilon(run, delta=1e-6, group_size=chosen.cap).upper <= 8.0
    person = groupdp.DPSGD(
        sampling=groupdp.PoissonSampling(rate=chosen.sampling_rate),
        noise_multiplier=chosen.person_noise_multiplier,
        steps=chosen.steps,
    )
    assert groupdp.epsilon(person, delta=1e-6, group_size=1).upper <= 8.0


def test_a_whole_study_at_scale_tries_a_ladder_of_caps() -> None:
    counts = skewed(100_000, 1000)
    study = choose_cap(counts, epsilon=8.0, delta=1e-6, batch_size=8192, epochs=5, largest_cap=24)
    assert study.rows[-1].cap == 24
    assert len(study.rows) <= 20
    assert {row.cap for row in study.rows} >= set(range(1, 9))


def test_the_frontier_names_the_smallest_cap_that_keeps_a_share() -> None:
    counts = skewed(300, 60)
    study = choose_cap(counts, epsilon=8.0, delta=1e-3, batch_size=50, epochs=2)
    told = " ".join(advice(study))
    for share in (0.5, 0.8, 0.95):
        cap = next(cap for cap in range(1, 61) if np.minimum(counts, cap).sum() >= share * counts.sum())
        assert f"To keep {100 * share:.0f} %: a cap of {cap}," in told


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"steps": None}, "steps or epochs"),
        ({"epochs": 1.0}, "steps or epochs"),
        ({"batch_size": 10**6}, "batch_size"),
        ({"minimum_share": 0.99, "largest_cap": 1, "batch_size": 2}, "minimum_share"),
        ({"minimum_share": 2.0}, "minimum_share"),
    ],
)
def test_bad_studies_get_a_sentence(change: dict[str, object], argument: str) -> None:
    question: dict[str, object] = {"epsilon": 8.0, "delta": 1e-6, "batch_size": 10, "steps": 1000}
    with refused(argument):
        choose_cap([1, 5, 9, 30], **{**question, **change})  # type: ignore[arg-type]


def test_people_with_more_examples_than_the_largest_group_are_not_protected() -> None:
    view = people_view(RUN, [1, 259_690, 1, 100_001], delta=1e-6)
    assert view.counts == (1, 100_001, 259_690)
    assert [bounds.upper for bounds in view.epsilon[1:]] == [np.inf, np.inf]
    assert view.unprotected == 2
    assert view.protected(1e300) == 2
    assert people_view(RUN, [259_690], delta=1e-6).unprotected == 1


def test_a_cap_takes_any_counts_and_a_histogram_says_the_same() -> None:
    counts = [1, 2, 2, 259_690, 3, 40]
    question = {"epsilon": 8.0, "delta": 1e-6, "batch_size": 4, "steps": 1000, "largest_cap": 9}
    study = choose_cap(counts, **question)
    assert study.recommended is None
    histogram = Counts(examples=np.array([1, 2, 3, 40, 259_690]), people_with=np.array([1, 2, 1, 1, 1]))
    assert choose_cap(histogram, **question) == study
    assert study.rows[-1].share_kept == (8 + 9 + 9) / sum(counts)


def test_the_threshold_compares_the_two_ways_of_sampling() -> None:
    """At the threshold both have the same noise: sigma_examples C_example / B = sigma_people C_user K / B."""
    counts = skewed(2000, 40)
    study = choose_cap(counts, epsilon=8.0, delta=1e-6, batch_size=128, steps=1000)
    for row in study.rows:
        average = np.minimum(counts, row.cap).mean()
        assert row.threshold == pytest.approx(row.noise_multiplier / (average * row.person_noise_multiplier))
        assert row.threshold * row.person_noise_per_average == pytest.approx(row.noise_per_average)


@pytest.mark.parametrize(
    ("text", "column", "got"),
    [
        ("user_id\n3\n4\n", None, "the column 'user_id' that looks like identifiers"),
        ("ownerId\n3\n4\n", None, "the column 'ownerId' that looks like identifiers"),
        ("x\n" + "".join(f"{i}\n" for i in range(1, 60)), None, "the column 'x' that looks like identifiers"),
        ("".join(f"{1000 + i % 7}\n" for i in range(60)), None, "a column without a name that looks like identifiers"),
        ("count\n1,234\n", None, "2 in line 2"),
        ("who;count\na;3\nb;1;234\n", "count", "3 in line 3"),
        ("who,count\na,3\nb\n", "count", "1 in line 3"),
        ("count\n1 234\n", None, "'1 234' in line 2"),
        ("who,count\na,\n", "count", "'' in line 2"),
        ("count\n1\n\n2\n", None, "an empty line 3"),
        ("count,count\n1,2\n", "count", "'count' more than once"),
        ("count\n1.5\n", None, "'1.5' in line 2"),
        ("", None, "the empty "),
    ],
)
def test_a_file_of_counts_is_read_as_it_stands_or_not_at_all(tmp_path, text, column, got) -> None:
    file = tmp_path / "counts.csv"
    file.write_text(text)
    with refused("counts") as caught:
        read_counts(str(file), column)
    assert caught.value.value.startswith(got)


def test_a_blank_line_at_the_end_of_a_file_is_no_person(tmp_path) -> None:
    file = tmp_path / "counts.csv"
    file.write_text("count\n1\n4\n\n")
    assert read_counts(str(file)).examples.tolist() == [1, 4]


@pytest.mark.parametrize(
    ("content", "column"),
    [
        (b"\xef\xbb\xbfcount\r\n3\r\n1\r\n", None),
        (b"3\n1\n", None),
        (b"user_id\n3\n1\n", "user_id"),
        (b"examples_per_user\n3\n1", None),
        (b"who;count\nann; 3\nbob;1\n", "count"),
        (b'"who","count"\n"a,b","3"\nbob,1\n', "count"),
    ],
)
def test_files_of_counts_that_are_understood(tmp_path, content, column) -> None:
    file = tmp_path / "counts.csv"
    file.write_bytes(content)
    counts = read_counts(str(file), column)
    assert (counts.examples.tolist(), counts.people_with.tolist()) == ([1, 3], [1, 1])


def test_a_column_of_several_is_counted_and_its_wrong_line_named(tmp_path):
    file = tmp_path / "counts.csv"
    file.write_text("who,count\n" + "".join(f"p{i},{1 + i % 5}\n" for i in range(1000)))
    counts = read_counts(str(file), "count")
    assert counts.examples.tolist() == [1, 2, 3, 4, 5]
    assert counts.people_with.tolist() == [200] * 5
    file.write_text("who,count\na,1\nb,1.5\n")
    with refused("counts", value="'1.5' in line 3"):
        read_counts(str(file), "count")
