"""`groupdp certify` and `groupdp verify`."""

from __future__ import annotations

import json

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
    return path


def test_what_was_certified_is_verified(certificate):
    outcome = groupdp(f"verify {certificate}")
    assert outcome.status == 0
    assert outcome.output.startswith("verified: delta(epsilon.upper) <= delta < delta(epsilon.lower)\n")
    found = groupdp(f"verify {certificate} --json").json
    assert found["outcome"] == "verified"
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
    assert groupdp(f"verify {path}").output.startswith(
        "verified: a lower side of 0 and an upper side of infinity claim nothing\n  remove: nothing is claimed.\n"
    )


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
    assert outcome.output.startswith("refuted: delta(epsilon.upper) is above delta\n")


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
    assert_one_sentence(groupdp(f"verify {tmp_path / 'absent.json'}"), "claim must be a file", "No such file")
    assert_one_sentence(groupdp(f"verify {tmp_path}"), "claim must be a file")
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
