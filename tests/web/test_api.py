"""The API: the library's numbers, the library's sentences."""

from __future__ import annotations

import contextlib
import io
from decimal import Decimal

import pytest

import command_line
import groupdp
from groupdp.mechanisms.named_values import phase_of
from groupdp.printing import round_up
from groupdp.run_file import parse_run_file
from groupdp.web import read_question
from groupdp.web.answers import points_of
from web.questions import FIXED, PAPER, question, without_group

PAPER_RUN = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=2000)
FIXED_RUN = groupdp.DPSGD(
    sampling=groupdp.FixedBatchSampling(batch_size=500, dataset_size=50_000), noise_multiplier=2.0, steps=2000
)
RUNS = [((PAPER,), PAPER_RUN), ((FIXED,), FIXED_RUN), ((PAPER, FIXED), [PAPER_RUN, FIXED_RUN])]


def ask(client, name, document):
    return client.post(f"/api/{name}", json=document)


def answer(client, name, document):
    response = ask(client, name, document)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize(("phases", "run"), RUNS)
@pytest.mark.parametrize("adjacency", ["add", "remove", "add-or-remove"])
def test_epsilon_is_the_library_s(client, phases, run, adjacency):
    found = answer(client, "epsilon", question(*phases, adjacency=adjacency))
    expected = groupdp.epsilon(run, delta=1e-6, group_size=9, adjacency=adjacency)
    assert (found["epsilon"]["lower"], found["epsilon"]["upper"]) == (expected.lower, expected.upper)
    assert float(found["epsilon"]["lower_text"]) <= expected.lower <= expected.upper
    assert float(found["epsilon"]["upper_text"]) >= expected.upper
    assert found["epsilon"]["upper_text"] in found["sentence"]
    assert any("clipped" in sentence for sentence in found["assumptions"])


def test_a_shuffled_run_is_shown_what_spread_allocation_buys(client):
    """The example of docs/integrations.md: 12.87 becomes 2.03. A run that is not shuffled has nothing to move."""
    shuffled = {"sampling": "shuffled", "batch_size": 600, "dataset_size": 60_000, "noise_multiplier": 4, "steps": 2000}
    asked = question(shuffled, adjacency="zero-out", group_size=4)
    del asked["group_size"]
    found = answer(client, "baseline", {**asked, "name": "spread", "group_sizes": [4]})
    run = groupdp.DPSGD(groupdp.SpreadSampling(batches=100), noise_multiplier=4.0, steps=2000)
    expected = groupdp.epsilon(run, delta=1e-6, group_size=4, adjacency="zero-out")
    assert found["adjacency"] == "zero-out"
    assert found["points"][0]["upper"] == expected.upper == pytest.approx(2.03, abs=0.005)
    shown = answer(client, "epsilon", {**asked, "group_size": 4})["epsilon"]["upper"]
    assert shown == pytest.approx(12.87, abs=0.005)
    refused = ask(client, "baseline", {**without_group(group_sizes=[4]), "name": "spread"})
    assert refused.status_code == 400
    assert "be another one unless the run is shuffled" in refused.text


def test_no_noise_is_infinite(client):
    found = answer(client, "epsilon", question({**PAPER, "noise_multiplier": 0}))
    assert found["epsilon"]["upper"] == "Infinity"
    assert "No finite" in found["sentence"]


def test_delta_is_the_library_s(client):
    found = answer(client, "delta", {"phases": [PAPER], "group_size": 9, "epsilon": 40})
    expected = groupdp.delta(PAPER_RUN, epsilon=40.0, group_size=9)
    assert (found["delta"]["lower"], found["delta"]["upper"]) == (expected.lower, expected.upper)


def test_curve_is_the_library_s(client):
    points = answer(client, "curve", without_group())["points"]
    assert [point["group_size"] for point in points] == list(range(1, 33))
    for point in points[::7]:
        expected = groupdp.epsilon(PAPER_RUN, delta=1e-6, group_size=point["group_size"])
        assert (point["epsilon"]["lower"], point["epsilon"]["upper"]) == (expected.lower, expected.upper)


def test_k_times_one_example_is_rounded_up_too(client):
    one = groupdp.epsilon(PAPER_RUN, delta=1e-6, group_size=1).upper
    found = answer(client, "epsilon", question())
    assert found["linear_text"] == "26.5973"  # 26.59721...
    assert Decimal(found["linear_text"]) >= 9 * Decimal(one)
    assert found["sentence"].partition("ε = ")[2].startswith(found["epsilon"]["upper_text"])
    point = answer(client, "curve", without_group(group_sizes=[1, 9]))["points"][1]
    assert point["linear_text"] == found["linear_text"]
    assert Decimal(point["linear"]) >= 9 * Decimal(one)
    text = answer(client, "statement", question(format="text"))["text"]
    assert f"epsilon = {found['epsilon']['upper_text']} and" in " ".join(text.split())


@pytest.mark.parametrize("steps", [3, 2000])
def test_a_curve_reports_progress_and_asks_every_size(steps):
    """How many sizes are asked at once depends on the clock, so the number of reports does too; the first is alone."""
    phase = {"sampling": "poisson", "sampling_rate": 0.01, "noise_multiplier": 1.0, "steps": steps}
    question = read_question({"phases": [phase], "delta": 1e-6}, also=())
    sizes, reported = [1, 2, 3, 5, 8] if steps == 3 else list(range(1, 65)), []
    for size, found in points_of(question, sizes, reported.append):
        expected = groupdp.epsilon(question.run, delta=1e-6, group_size=size)
        assert (found.lower, found.upper, found.tight) == (expected.lower, expected.upper, expected.tight)
    assert reported == sorted(reported)
    assert (reported[0], reported[-1]) == (1 / len(sizes), 1.0)


def test_baselines_are_the_library_s(client):
    asked = without_group(group_sizes=[1, 4])
    vadhan = answer(client, "baseline", {**asked, "name": "vadhan"})["points"]
    assert vadhan[1]["upper"] >= groupdp.vadhan_epsilon(PAPER_RUN, delta=1e-6, group_size=4, form="geometric").lower
    renyi = answer(client, "baseline", {**asked, "name": "renyi"})["points"]
    assert renyi[1]["upper"] == groupdp.renyi_vadhan_epsilon(PAPER_RUN, delta=1e-6, group_size=4).upper
    old = answer(client, "baseline", {**without_group(group_sizes=[12]), "name": "old-tool"})["points"]
    assert old[0]["upper"] == "Infinity"
    fdp = answer(client, "baseline", {**without_group(group_sizes=[2]), "name": "fdp"})["points"]
    assert fdp[0]["upper"] == groupdp.fdp_epsilon(PAPER_RUN, delta=1e-6, group_size=2).upper


def test_calibration_is_the_library_s(client):
    found = answer(client, "calibrate", question(epsilon=8))
    expected = groupdp.calibrate_noise(PAPER_RUN, epsilon=8.0, delta=1e-6, group_size=9)
    assert found["value"] == expected.value
    assert float(found["value_text"]) >= expected.value
    assert found["epsilon"]["upper"] <= 8.0
    steps = answer(client, "calibrate", question(epsilon=38, parameter="steps"))
    assert steps["value"] == groupdp.calibrate_steps(PAPER_RUN, epsilon=38.0, delta=1e-6, group_size=9).value


def test_trade_off_is_the_library_s_and_says_it_in_words(client):
    found = answer(client, "tradeoff", question(false_positive_rates=[1e-6, 1e-3]))
    curve = groupdp.trade_off(PAPER_RUN, group_size=9).curve([1e-6, 1e-3])
    point = found["points"][1]["true_positive_rate"]
    assert point == {"lower": curve.true_positive_rate_lower[1], "upper": curve.true_positive_rate_upper[1]}
    spoken = next(sentence for sentence in found["words"] if "1\u00a0in\u00a01\u202f000 " in sentence)
    percentage = float(spoken.rpartition("at most ")[2].partition(" %")[0])
    assert point["upper"] * 100.0 <= percentage < point["upper"] * 100.0 + 0.1


def test_a_drawn_trade_off_has_no_corners(client):
    """Midway between neighbours the chord is within half a pixel (1/400 of the height) of the truth."""
    points = answer(client, "tradeoff", question())["points"]
    rates = [point["false_positive_rate"] for point in points]
    function = groupdp.trade_off(PAPER_RUN, group_size=9)
    assert rates == sorted(rates)
    for one, two in zip(points[1::2], points[2::2], strict=False):
        middle = (one["false_positive_rate"] * two["false_positive_rate"]) ** 0.5
        chord = (one["true_positive_rate"]["upper"] + two["true_positive_rate"]["upper"]) / 2
        assert abs(chord - function.true_positive_rate(middle).upper) < 1 / 400


@pytest.mark.parametrize(
    ("change", "claimed"),
    [
        ({"adjacency": "add"}, "a person did not take part, and is wrong in at most"),
        ({"adjacency": "remove"}, "a person took part, and is wrong in at most"),
        ({"adjacency": "substitute"}, "a person's examples were used, and is wrong in at most"),
    ],
)
def test_the_words_of_an_attack_name_the_world_that_is_bounded(client, change, claimed):
    found = answer(client, "tradeoff", question(false_positive_rates=[1e-3], group_size=2, **change))
    assert any(f"An attacker who claims that {claimed}" in sentence for sentence in found["words"])
    assert any("a person took part" in sentence for sentence in found["words"]) == (change["adjacency"] == "remove")


def test_an_attack_on_nothing_is_guessing(client):
    found = answer(client, "tradeoff", question({**PAPER, "steps": 0}, false_positive_rates=[1e-3]))["words"]
    odds = "1\u00a0in\u00a01\u202f000"
    assert any(
        f"and is wrong in at most {odds} of the cases" in one and f"detects at most {odds} of" in one for one in found
    )
    assert any("guesses right with probability at most 50 %." in one for one in found)


def test_people_from_a_file_and_from_its_tally(client):
    asked = without_group({**PAPER, "noise_multiplier": 2})
    from_file = answer(client, "people", {**asked, "csv": "person,n\na,1\nb,4\nc,4\n", "column": "n"})
    from_tally = answer(client, "people", {**asked, "tally": [[4, 2], [1, 1]]})
    assert from_file == from_tally
    assert from_file["people"] == 3
    assert from_file["examples"] == 9
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=2.0, steps=2000)
    view = groupdp.people_view(run, [1, 4, 4], delta=1e-6)
    assert [row["epsilon"]["upper"] for row in from_file["counts"]] == [bounds.upper for bounds in view.epsilon]
    assert [one["people"] for one in from_file["protected"]] == [view.protected(t) for t in (1.0, 2.0, 4.0, 8.0, 16.0)]


def test_statement(client):
    found = answer(client, "statement", question(title="A run", format="markdown"))
    assert found["text"].startswith("# Privacy statement: A run\n")
    assert "40.8011" in found["text"]


def printed_by(command):
    """The bounds that a command line prints."""
    found = command_line.groupdp(command.removeprefix("groupdp ") + " --json").json["epsilon"]
    return found["lower"], found["upper"]


@pytest.mark.parametrize(("phases", "run"), RUNS)
def test_what_is_handed_over_gives_the_same_answer(client, phases, run):
    taken = answer(client, "handover", question(*phases, adjacency="remove", title='He said "no" \\ yes'))
    expected = groupdp.epsilon(run, delta=1e-6, group_size=9, adjacency="remove")

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(taken["python"], {})
    assert printed.getvalue().strip() == str(expected)

    described = parse_run_file(taken["toml"])
    assert described.title == 'He said "no" \\ yes'
    again = groupdp.epsilon(
        list(described.phases),
        delta=described.delta,
        group_size=described.group_size,
        adjacency=described.adjacency,
    )
    assert again == expected

    assert printed_by(taken["command"]) == (expected.lower, expected.upper)


def library_sentence(**changes):
    """What the reader of run files says about a bad phase."""
    with pytest.raises(groupdp.InvalidArgument) as caught:
        phase_of({**PAPER, **changes})
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"noise_multiplier": -1}, "noise_multiplier"),
        ({"noise_multiplier": "much"}, "noise_multiplier"),
        ({"steps": -5}, "steps"),
        ({"microbatch_size": 0}, "microbatch_size"),
    ],
)
def test_a_bad_argument_gets_the_library_s_sentence_and_its_field(client, change, field):
    response = ask(client, "epsilon", question(PAPER, {**PAPER, **change}))
    assert response.status_code == 400
    error = response.json()["error"]
    assert error == {"kind": "invalid-argument", "sentence": library_sentence(**change), "field": field, "phase": 1}


@pytest.mark.parametrize(
    ("document", "field", "words"),
    [
        (
            question({**PAPER, "sampling_rate": 1.7}),
            "sampling_rate",
            "a probability in (0, 1], got 1.7 (",
        ),
        (question({**PAPER, "sampling": "dice"}), "sampling", "got 'dice'"),
        (question({**PAPER, "epochs": 3}), "epochs", "together with steps"),
        (question({**PAPER, "colour": "red"}), None, "'colour' is not a known key"),
        (question({**FIXED, "batch_size": 60_000}), "batch_size", "dataset_size=50000"),
        (question(delta=0), "delta", "delta must be in (0, 1), got 0."),
        (question(delta="small"), "delta", "got 'small'"),
        (question(group_size=0), "group_size", "at least 1, got 0."),
        (question(group_size=2.5), "group_size", "got 2.5"),
        (question(adjacency="beside"), "adjacency", "got 'beside'"),
        ({"phases": [], "delta": 1e-6, "group_size": 1}, "phases", "phases must be"),
        ({"phases": [PAPER], "delta": 1e-6}, "group_size", "group_size must be given"),
        ({"phases": [PAPER], "group_size": 1}, "delta", "delta must be given"),
    ],
)
def test_a_refusal_names_the_field(client, document, field, words):
    response = ask(client, "epsilon", document)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error["field"] == field
    assert words in error["sentence"]


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", "null", '{"a": NaN}', "[" * 5000, '{"a": 1e99999999999999999999}', "\xff", "9" * 5000]
)
def test_what_is_no_json_object_is_refused(client, text):
    response = client.post("/api/epsilon", content=text.encode("latin-1"), headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert response.json()["error"]["kind"] == "invalid-argument"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"csv": "n\n1\nmany\n"}, "line 3"),
        ({"csv": ""}, "empty"),
        ({"csv": "a,b\n1,2\n"}, "counts must be a column"),
        ({"csv": "n\n1\n", "column": "m"}, "counts must be one of the columns"),
        ({"csv": "n\n1\n\n1\n"}, "empty line 3"),
        ({"tally": [[1, 0]]}, "people must be an integer"),
        ({"tally": []}, "counts must be"),
        ({}, "csv or tally must be given"),
    ],
)
def test_a_bad_file_of_counts_gets_one_sentence(client, change, words):
    response = ask(client, "people", {**without_group(), **change})
    assert response.status_code == 400, response.text
    assert words in response.json()["error"]["sentence"]


def test_the_form_describes_every_field_of_every_sampling(client):
    form = client.get("/api/form").json()
    for sampling in form["samplings"]:
        for name in sampling["fields"]:
            field = form["fields"][name]
            assert field["meaning"].endswith(".")
            assert field["label"]
    assert [one["name"] for one in form["adjacencies"]][:3] == ["add-or-remove", "add", "remove"]


SAMPLINGS = [
    {"sampling": "truncated-poisson", "sampling_rate": 0.01, "largest_batch": 600, "dataset_size": 50_000},
    {"sampling": "shuffled", "batch_size": 500, "dataset_size": 50_000},
    {"sampling": "shuffled-once", "batch_size": 500, "dataset_size": 50_000},
    {"sampling": "fixed-order", "batch_size": 500, "dataset_size": 50_000, "one_per_batch": True},
    {"sampling": "balls-in-bins", "batches": 10},
]


@pytest.mark.parametrize("fields", SAMPLINGS, ids=lambda fields: fields["sampling"])
def test_every_sampling_is_answered_and_handed_over(client, fields):
    rate, size = (0.1, 5) if fields["sampling"] == "balls-in-bins" else (0.01, 9)
    phase = {**fields, "noise_multiplier": 4, "epochs": 20}
    asked = question(phase, adjacency="zero-out", group_size=size)
    found = answer(client, "epsilon", asked)
    run = phase_of(phase)
    expected = groupdp.epsilon(run, delta=1e-6, group_size=size, adjacency="zero-out")
    assert (found["epsilon"]["lower"], found["epsilon"]["upper"]) == (expected.lower, expected.upper)
    assert found["epsilon"]["tight"] == expected.tight
    dealt = fields["sampling"] != "truncated-poisson"
    assert (found["poisson_claim"] is not None) == dealt
    if dealt:  # the claim is the Poisson run's, and below the valid guarantee: that is why it is shown
        poisson = groupdp.DPSGD(groupdp.PoissonSampling(rate=rate), noise_multiplier=4.0, steps=run.steps)
        claim = groupdp.epsilon(poisson, delta=1e-6, group_size=size, adjacency="zero-out")
        assert found["poisson_claim"]["upper"] == claim.upper < expected.lower
    taken = answer(client, "handover", asked)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(taken["python"], {})
    assert printed.getvalue().strip() == str(expected)
    assert parse_run_file(taken["toml"]).phases == (run,)
    assert printed_by(taken["command"]) == (expected.lower, expected.upper)
    for form in ("markdown", "latex"):
        text = answer(client, "statement", {**asked, "format": form})["text"]
        assert round_up(expected.upper, 6) in text


def test_sources_and_exchanges(client):
    rates = {"web": 0.01, "books": 0.001}
    phase = {"sampling": "poisson-sources", "sampling_rates": rates, "noise_multiplier": 1, "steps": 2000}
    found = answer(client, "epsilon", question(phase, group_size={"web": 3, "books": 5}))
    run = groupdp.DPSGD(sampling=groupdp.PoissonSources(rates=rates), noise_multiplier=1.0, steps=2000)
    expected = groupdp.epsilon(run, delta=1e-6, group_size={"web": 3, "books": 5})
    assert found["epsilon"]["upper"] == expected.upper
    assert "3 examples from web and 5 from books" in found["sentence"]
    taken = answer(client, "handover", question(phase, group_size={"web": 3, "books": 5}))
    assert printed_by(taken["command"]) == (expected.lower, expected.upper)
    assert ask(client, "epsilon", question(phase)).json()["error"]["field"] == "group_size"
    exchange = {"phases": [PAPER], "delta": 1e-6, "removed": 2, "added": 3}
    rate = answer(client, "tradeoff", {**exchange, "false_positive_rates": [1e-3]})["points"][0]["true_positive_rate"]
    curve = groupdp.trade_off(PAPER_RUN, removed=2, added=3).curve([1e-3])
    assert rate == {"lower": curve.true_positive_rate_lower[0], "upper": curve.true_positive_rate_upper[0]}
    assert (
        answer(client, "epsilon", exchange)["epsilon"]["upper"]
        == groupdp.epsilon(PAPER_RUN, delta=1e-6, removed=2, added=3).upper
    )


def test_a_baseline_that_would_answer_another_question_is_refused(client):
    for name in ("fdp", "renyi", "old-tool"):
        asked = without_group(name=name, group_sizes=[2], adjacency="substitute")
        assert "for this baseline" in ask(client, "baseline", asked).json()["error"]["sentence"]


def test_an_adjacency_without_a_law_is_refused_with_the_reason(client):
    phase = {**SAMPLINGS[1], "noise_multiplier": 4, "epochs": 20}
    error = ask(client, "epsilon", question(phase)).json()["error"]
    assert error["field"] == "adjacency"
    assert "substitute or zero-out" in error["sentence"]


def test_a_certificate_is_handed_over_and_verifies(client):
    found = answer(client, "certificate", question())
    assert found["outcome"] == "verified"
    assert len(found["digest"]) == 64
    from groupdp.certificate import verify

    assert verify(found["text"]).outcome == "verified"


def test_no_baseline_is_answered_for_another_adjacency(client):
    asked = without_group(group_sizes=[3], adjacency="substitute")
    for name in ("vadhan", "renyi", "fdp"):
        response = ask(client, "baseline", {**asked, "name": name})
        assert response.status_code == 400, response.text
        assert response.json()["error"]["field"] == "adjacency"
