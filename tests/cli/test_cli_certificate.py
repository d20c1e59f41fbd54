"""`groupdp certify` and `groupdp verify`."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from command_line import assert_one_sentence, groupdp

RUN = "--sampling-rate 0.01 --noise-multiplier 4 --steps 500 --delta 1e-6 --group-size 4"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    path = tmp_path_factory.mktemp("certificates") / "claim.json"
    outcome = groupdp(f"certify {RUN} --out {path}")
    assert outcome.status == 0, outcome
    assert outcome.output == ""
    assert outcome.errors.startswith("verified: ")
    assert "\n  claimed (width " in outcome.errors
    return path


def test_what_was_certified_is_verified(certificate, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    outcome = groupdp(f"verify {certificate}")
    assert outcome.status == 0
    claim = json.loads(certificate.read_text())["claim"]
    sides = claim["epsilon"]
    first, plain, whom, run, tight, reason, *_ = outcome.output.split("\n")
    assert first.startswith("verified (width ")
    assert first.endswith(f"): epsilon in [{sides['lower']}, {sides['upper']}] at delta = 1e-6")
    width, relative = first.partition("(width ")[2].partition(")")[0].split(", relative width ")
    lower, upper = (Decimal(sides[side]) for side in ("lower", "upper"))
    assert upper - lower <= Decimal(width) < Decimal("1e-9")
    assert (upper - lower) / upper <= Decimal(relative) < Decimal("1e-9")
    assert first.removeprefix("verified") in groupdp(f"certify {RUN}").errors  # both commands name both widths
    assert plain.endswith(f" of a person with at most 4 examples is at most {plain.split()[-1]}")
    assert (
        Decimal(sides["upper"]) <= Decimal(plain.split()[-1].rstrip(".")) <= Decimal(sides["upper"]) + Decimal("0.01")
    )
    assert whom == "  for groups of up to 4 examples, adjacency add-or-remove"
    told = "sampling = poisson, sampling_rate = 0.01, noise_multiplier = 4, steps = 500, microbatch_size = 1"
    assert run == f"  phase 1: {told}"
    assert tight == "  tight: some loss and datasets attain the analysis (C-1)"
    assert reason == "  delta(epsilon.upper) <= delta < delta(epsilon.lower)"
    found = groupdp(f"verify {certificate} --json").json
    assert found["outcome"] == "verified"
    assert found["claim"] == claim
    assert (found["width"], found["relative_width"]) == (float(width), float(relative))
    assert found["sha256"] in outcome.output
    assert len(found["details"]) == 2


@pytest.mark.parametrize(
    ("options", "reason", "details"),
    [
        (
            "--group-size 0",
            "delta(epsilon.upper) <= delta; a lower side of 0 claims nothing",
            "remove: delta is in [0, 0] at epsilon.upper.",
        ),
        (
            "--noise-multiplier 0",
            "delta < delta(epsilon.lower); an upper side of infinity claims nothing",
            "add: delta is in [0, 0] at epsilon.lower.",
        ),
    ],
)
def test_a_side_that_claims_nothing_is_said_to(tmp_path, options, reason, details):
    path = tmp_path / "claim.json"
    told = groupdp(f"certify {RUN} {options} --out {path}")
    assert told.status == 0
    assert told.errors.startswith(f"verified: {reason}\n")
    assert "width" not in told.errors  # of a single point
    found = groupdp(f"verify {path} --json").json
    assert found["reason"] == reason
    assert details in found["details"]
    document = json.loads(path.read_text())
    document["claim"]["epsilon"] = {"lower": "0", "upper": "infinity"}
    path.write_text(json.dumps(document))
    lines = groupdp(f"verify {path}").output.split("\n")
    assert lines[0] == "verified (width infinity): epsilon in [0, infinity] at delta = 1e-6"
    assert "  a lower side of 0 and an upper side of infinity claim nothing" in lines
    assert "  remove: nothing is claimed." in lines


def changed(certificate, tmp_path, **claim):
    document = json.loads(certificate.read_text())
    document["claim"].update(claim)
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(document))
    return path


def test_a_trivial_claim_is_verified_as_exactly_that(certificate, tmp_path):
    path = changed(certificate, tmp_path, epsilon={"lower": "0", "upper": "1000"})
    outcome = groupdp(f"verify {path}")
    assert outcome.status == 0
    assert outcome.output.startswith("verified (width 1000, relative width 1): epsilon in [0, 1000] at ")
    assert "a lower side of 0 claims nothing" in outcome.output
    found = groupdp(f"verify {path} --json").json
    assert (found["claim"]["epsilon"], found["width"]) == ({"lower": "0", "upper": "1000"}, 1000.0)


def test_the_plain_words_count_people_where_people_are_sampled(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    path = tmp_path / "claim.json"
    run = "--sampling poisson-people --sampling-rate 0.01 --examples-per-person 4 --noise-multiplier 8 --steps 100"
    for size, plain, whom in (
        (1, "of one person is", "for one person (group size 1), "),
        (2, "of a group of at most 2 people is", "for groups of up to 2 people, "),
    ):
        made = groupdp(f"certify {run} --delta 1e-6 --group-size {size} --out '{path}' --force")
        assert made.status == 0
        printed = groupdp(f"verify '{path}'").output
        assert f"the privacy loss (epsilon) {plain} at most " in printed
        assert whom in printed


def test_tight_is_part_of_what_is_checked(tmp_path):
    path = tmp_path / "claim.json"
    run = "--sampling fixed-batch --batch-size 10 --dataset-size 1000 --noise-multiplier 4 --steps 1 --delta 1e-6"
    assert groupdp(f"certify {run} --group-size 2 --adjacency substitute --out '{path}'").status == 0
    outcome = groupdp(f"verify '{path}'")
    assert "  valid, not claimed to be tight: a lower side is about this analysis only\n" in outcome.output
    document = json.loads(path.read_text())
    assert document["claim"]["tight"] is False
    document["claim"]["tight"] = True
    path.write_text(json.dumps(document))
    outcome = groupdp(f"verify '{path}'")
    assert outcome.status == 1
    assert "it says tight" in outcome.output
    assert "tight: some loss" not in outcome.output


def test_a_claim_names_one_group_alone(certificate, tmp_path):
    """A group that the adjacency does not use would be printed beside a verdict that is not about it."""
    path = changed(certificate, tmp_path, removed=1, added=1)
    assert_one_sentence(groupdp(f"verify '{path}'"), "claim must be a certificate", "no other group")


def test_texts_of_a_certificate_cannot_imitate_lines_of_the_report(tmp_path):
    path = tmp_path / "claim.json"
    forged = "a\nverified: epsilon in [0, 0]\x1b[2K"
    phase = {"sampling": "poisson-sources", "sampling_rates": {forged: "0.5"}, "noise_multiplier": "4", "steps": 1}
    claim = {"run": [phase], "adjacency": "remove", "group_size": {forged: 1}, "delta": "1e-6", "tight": True}
    claim["epsilon"] = {"lower": "0", "upper": "100"}
    document = {"format": "groupdp certificate", "version": 1, "claim": claim, "hints": {}}
    path.write_text(json.dumps(document))
    outcome = groupdp(f"verify '{path}'")
    assert outcome.status == 0, outcome
    assert outcome.output.count("\nverified") == 0
    assert "\x1b" not in outcome.output


def test_the_claim_is_what_epsilon_says(certificate):
    claim = json.loads(certificate.read_text())["claim"]
    bounds = groupdp(f"epsilon {RUN} --json").json["epsilon"]
    assert float(claim["epsilon"]["lower"]) <= bounds["lower"] <= bounds["upper"] <= float(claim["epsilon"]["upper"])
    assert float(claim["epsilon"]["upper"]) - float(claim["epsilon"]["lower"]) < 1e-9
    assert claim["run"] == [
        {"sampling": "poisson", "sampling_rate": "0.01", "noise_multiplier": "4", "steps": 500, "microbatch_size": 1}
    ]
    assert claim["tight"] is True


def test_without_a_file_the_certificate_goes_to_the_terminal(certificate):
    outcome = groupdp(f"certify {RUN}")
    assert outcome.status == 0
    assert json.loads(outcome.output) == json.loads(certificate.read_text())


def test_a_false_claim_is_refuted_with_status_1(certificate, tmp_path):
    document = json.loads(certificate.read_text())
    document["claim"]["delta"] = "9.999e-7"
    path = tmp_path / "false.json"
    path.write_text(json.dumps(document))
    outcome = groupdp(f"verify {path}")
    assert outcome.status == 1
    lines = outcome.output.split("\n")
    assert lines[0].startswith("refuted (width ")
    assert "  delta(epsilon.upper) is above delta" in lines
    assert "  said to be tight" in lines


def test_a_claim_without_hints_is_undecided_with_status_3(certificate, tmp_path):
    document = json.loads(certificate.read_text())
    document["hints"] = {}
    path = tmp_path / "bare.json"
    path.write_text(json.dumps(document))
    outcome = groupdp(f"verify {path}")
    assert outcome.status == 3
    assert "was not proved" in outcome.output


def test_what_is_no_certificate_gets_one_sentence(tmp_path):
    path = tmp_path / "other.json"
    path.write_text("{}")
    assert_one_sentence(groupdp(f"verify {path}"), "claim must be a certificate", "version")
    assert_one_sentence(groupdp(f"verify {tmp_path / 'absent.json'}"), "claim must be a readable file", "No such file")
    assert_one_sentence(groupdp(f"verify {tmp_path}"), "claim must be a readable file")
    assert_one_sentence(groupdp(f"verify {path} --seconds -1"), "seconds", "-1")
    assert_one_sentence(groupdp(f"certify {RUN} --out {tmp_path}"), "out must be a file")


AUDITED = "--sampling-rate 0.2 --noise-multiplier 4 --steps 20 --group-size 4 --trials 200 --delta 1e-3"


def test_an_audit_writes_the_certificate_of_the_claim_it_audits(tmp_path):
    path = tmp_path / "claim.json"
    outcome = groupdp(f"audit worst-case {AUDITED} --claimed-group-size 2 --certificate {path} --json")
    assert outcome.status in (0, 1)  # of the audit, which may contradict the claim
    assert outcome.errors.startswith("verified: ")
    claim = json.loads(path.read_text())["claim"]
    assert (claim["group_size"], claim["delta"], claim["adjacency"]) == (2, "0.001", "add-or-remove")
    lower, upper = (float(claim["epsilon"][side]) for side in ("lower", "upper"))
    assert lower <= json.loads(outcome.output)["claimed_epsilon"]["upper"] <= upper <= lower * (1.0 + 1e-9)
    assert groupdp(f"verify {path}").status == 0
    assert_one_sentence(groupdp(f"audit worst-case {AUDITED} --certificate {path}"), "certificate must be a new file")


def test_an_audit_of_scores_writes_it_too(tmp_path):
    scores, path = tmp_path / "canaries.csv", tmp_path / "claim.json"
    scores.write_text("with_group,without_group\n" + "0.1,0.2\n0.3,0.1\n" * 10)
    asked = "--sampling-rate 0.2 --noise-multiplier 4 --steps 20 --group-size 4 --delta 1e-3"
    outcome = groupdp(f"audit scores {scores} {asked} --certificate {path}")
    assert outcome.status == 0, outcome
    assert json.loads(path.read_text())["claim"]["group_size"] == 4
    unwritable = groupdp(f"audit scores {scores} {asked} --certificate {tmp_path}")
    assert_one_sentence(unwritable, "certificate must be")


def test_an_epsilon_of_zero_is_written_as_such_and_verified(tmp_path):
    path = tmp_path / "nobody.json"
    line = "certify --sampling-rate 0.01 --noise-multiplier 1 --steps 5 --delta 1e-6 --group-size 0"
    assert groupdp(f"{line} --out {path}").status == 0
    assert json.loads(path.read_text())["claim"]["epsilon"] == {"lower": "0", "upper": "0"}
    assert groupdp(f"verify {path}").status == 0
