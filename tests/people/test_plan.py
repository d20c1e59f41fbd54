"""Ways to sample, compared: every row meets the target, formulas by hand, and the run file of the choice."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import groupdp
from command_line import assert_one_sentence
from command_line import groupdp as command
from groupdp.errors import InvalidArgument
from groupdp.people.plan import USUAL, WAYS, PlanRow
from groupdp.run_file import read_run_file

COUNTS = [1, 1, 2, 2, 3, 4, 8, 8, 20, 40] * 20
ASKED = {"epsilon": 4.0, "delta": 1e-6, "batch_size": 60, "steps": 200}


@pytest.fixture(scope="module")
def made() -> groupdp.people.plan.Plan:
    return groupdp.plan(COUNTS, **ASKED, caps=[1, 4, 8])


def row(made, way: str, cap: int) -> PlanRow:
    return next(one for one in made.rows if (one.way, one.cap) == (way, cap))


def test_every_row_meets_the_target_at_equal_compute(made):
    assert {(one.way, one.cap) for one in made.rows} == {(way, cap) for way in USUAL for cap in (1, 4, 8)}
    for one in made.rows:
        bounds = groupdp.epsilon(one.run, delta=1e-6, group_size=one.group_size)
        assert bounds.upper <= 4.0
        kept = sum(min(count, one.cap) for count in COUNTS)
        share = one.run.sampling.share_of_data()
        batches = math.ceil(kept / 60) if one.way == "spread" else kept / 60  # an epoch has whole batches
        assert float(share) * batches == pytest.approx(1.0, rel=1e-12)
        assert one.share_used == (1.0 if one.way.startswith("people") else kept / sum(COUNTS))
        assert all(sentence.endswith(".") for sentence in one.assumes)


def test_the_ratios_are_those_of_the_formulas(made):
    for one in made.rows:
        if one.way in ("examples", "people"):
            assert one.signal_to_noise == pytest.approx(60.0 / one.noise_multiplier, rel=1e-12)
    together = row(made, "people-together", 8)
    rate = 60.0 / sum(min(count, 8) for count in COUNTS)
    lengths = [math.sqrt(0.5 + 0.5 / min(count, 8)) for count in COUNTS]
    signal = rate * sum(lengths[-1] / length for length in lengths) / (together.noise_multiplier * lengths[-1])
    assert together.signal_to_noise == pytest.approx(signal, rel=1e-12)


def test_a_simulation_agrees_with_the_assumptions():
    """Gradients of norm 1 with the stated cosine, averaged and clipped by a step that is really run."""
    alike, cap, rng = 0.3, 4, np.random.default_rng(1)
    made = groupdp.plan([4] * 50, epsilon=4.0, delta=1e-6, batch_size=40, steps=50, caps=[cap], alike=alike)
    one = row(made, "people-together", cap)
    shared, d = 0.2, 4000
    rate, total = one.run.sampling.rate, np.zeros(d)
    directions = rng.standard_normal((50, cap + 1, d)) / math.sqrt(d)
    own = math.sqrt(alike - shared**2) * directions[:, :1] + math.sqrt(1.0 - alike) * directions[:, 1:]
    own[:, :, 0] += shared
    averages = own.mean(axis=1)
    limit = math.sqrt(alike + (1.0 - alike) / cap)
    for average in averages:
        total += average * min(1.0, limit / np.linalg.norm(average))
    ratio = rate * total[0] / (one.noise_multiplier * limit)
    assert ratio / shared == pytest.approx(one.signal_to_noise, rel=0.05)


def test_the_ratio_of_people_together_is_smaller_the_more_alike_their_gradients_are():
    ratios = [
        row(groupdp.plan(COUNTS, **ASKED, caps=[8], ways=["people-together"], alike=alike), "people-together", 8)
        for alike in (0.0, 0.5, 1.0)
    ]
    assert ratios[0].signal_to_noise > ratios[1].signal_to_noise > ratios[2].signal_to_noise
    assert len({one.noise_multiplier for one in ratios}) == 1


def test_the_recommendation_uses_enough_examples(made):
    assert made.recommended.share_used >= 0.8
    assert made.recommended.signal_to_noise == max(one.signal_to_noise for one in made.rows if one.allowed)


@pytest.mark.parametrize(
    ("argument", "changes"),
    [
        ("ways", {"ways": ["examples", "lottery"]}),
        ("ways", {"ways": []}),
        ("caps", {"caps": [0]}),
        ("caps", {"caps": [41]}),
        ("caps", {"caps": []}),
        ("alike", {"alike": 1.5}),
        ("batch_size", {"batch_size": 10**6}),
        ("steps or epochs", {"epochs": 2.0}),
        ("minimum_share", {"minimum_share": 1.1}),
    ],
)
def test_what_is_refused(argument: str, changes: dict):
    with pytest.raises(InvalidArgument) as refused:
        groupdp.plan(COUNTS, **{**ASKED, **changes})
    assert refused.value.argument == argument


def test_a_way_without_an_answer_is_named_with_its_reason():
    made = groupdp.plan(COUNTS, **ASKED, caps=[2], ways=WAYS, adjacency="zero-out")
    assert {one.way for one in made.rows} | {way for way, _, _ in made.refused} == set(WAYS)


def test_the_command_writes_the_run_of_the_choice(tmp_path: Path):
    table = tmp_path / "counts.csv"
    table.write_text("examples\n" + "\n".join(map(str, COUNTS)) + "\n")
    asked = f"plan {table} --counts examples --epsilon 4 --delta 1e-6 --batch-size 60 --steps 200 --caps 1,4"
    saved, picture = tmp_path / "run.toml", tmp_path / "plan.png"
    found = command(f"{asked} --json")
    rows, chosen = found.json["rows"], found.json["chosen"]
    assert rows[chosen - 1]["allowed"]
    assert command(f"{asked} --save {saved} --plot {picture}").status == 0
    file = read_run_file(saved)
    assert file.phases[0].noise_multiplier == rows[chosen - 1]["noise_multiplier"]
    assert (file.group_size, file.delta) == (rows[chosen - 1]["group_size"], 1e-6)
    assert picture.stat().st_size > 10_000
    other = next(number for number, one in enumerate(rows, 1) if one["way"] == "examples" and one["cap"] == 4)
    assert command(f"{asked} --save {saved} --force --choose {other}").status == 0
    assert read_run_file(saved).group_size == 4
    assert_one_sentence(command(f"{asked} --save {saved} --force --choose 99"), "choose", "99")
