"""From a run to a certificate that is verified."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import pytest

import groupdp
from groupdp.certificate import certify, verify
from groupdp.certificate.prover import outward, spelled
from paths import ROOT
from refusals import refused

POISSON = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.02), noise_multiplier=2.0, steps=300)
FIXED = groupdp.DPSGD(
    sampling=groupdp.FixedBatchSampling(batch_size=20, dataset_size=1000), noise_multiplier=4.0, steps=200
)


@pytest.mark.parametrize("run", [POISSON, FIXED, [POISSON, FIXED]], ids=["poisson", "fixed", "phases"])
@pytest.mark.parametrize("adjacency", ["add", "remove", "add-or-remove"])
def test_a_run_is_certified(run, adjacency):
    bounds = groupdp.epsilon(run, delta=1e-7, group_size=3, adjacency=adjacency)
    made = certify(run, delta=1e-7, group_size=3, adjacency=adjacency)
    assert made.verdict.outcome == "verified"
    assert verify(made.text) == made.verdict
    assert made.digest == made.verdict.digest
    claimed = made.document["claim"]["epsilon"]
    assert float(claimed["lower"]) <= bounds.lower
    assert float(claimed["upper"]) >= bounds.upper
    assert float(claimed["upper"]) - float(claimed["lower"]) < bounds.upper - bounds.lower + 1e-12 * bounds.upper


def test_one_round_and_none_are_certified_too():
    once = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.02), noise_multiplier=1.0, steps=1)
    assert certify(once, delta=1e-9, group_size=5).verdict.outcome == "verified"
    never = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.02), noise_multiplier=1.0, steps=0)
    assert certify(never, delta=1e-9, group_size=5).verdict.outcome == "verified"


def test_few_rounds_are_certified_with_an_interval_that_is_not_narrower_than_epsilons():
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.02), noise_multiplier=1.0, steps=3)
    bounds = groupdp.epsilon(run, delta=1e-6, group_size=2)
    made = certify(run, delta=1e-6, group_size=2)
    assert made.verdict.outcome == "verified"
    assert made.document["hints"]["remove"]["method"] == "lattice"
    assert verify(made.text) == made.verdict  # nothing that was known from before is needed
    claimed = made.document["claim"]["epsilon"]
    assert float(claimed["lower"]) <= bounds.lower
    assert float(claimed["upper"]) >= bounds.upper
    assert 0.0 < made.relative_width < 1e-4


def test_laws_that_are_enclosed_only_are_proved_alike_by_whoever_asks():
    sampling = groupdp.TruncatedPoissonSampling(rate=0.02, largest_batch=4, dataset_size=100)
    made = certify(groupdp.DPSGD(sampling=sampling, noise_multiplier=2.0, steps=100), delta=1e-6, group_size=2)
    assert made.verdict.outcome == "verified"
    assert verify(made.text) == made.verdict


def test_what_is_known_of_one_run_is_not_taken_for_another():
    made = certify(POISSON, delta=1e-7, group_size=3)
    known = []
    assert verify(made.text, known=known) == made.verdict
    assert len(known) == 2
    noisier = json.loads(made.text)
    noisier["claim"]["run"][0]["noise_multiplier"] = "1.9"
    assert verify(json.dumps(noisier), known=known).outcome != "verified"
    assert verify(made.text, known=known) == made.verdict
    assert len(known) == 4


def test_rounds_without_noise_are_certified():
    quiet = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.0001), noise_multiplier=0.0, steps=2)
    endless = certify(quiet, delta=1e-6, group_size=3)
    assert endless.document["claim"]["epsilon"] == {"lower": "infinity", "upper": "infinity"}
    assert endless.verdict.outcome == "verified"
    assert endless.relative_width == 0.0
    made = certify([POISSON, quiet], delta=1e-2, group_size=3)
    assert made.verdict.outcome == "verified"
    assert made.relative_width < 1e-11
    assert certify(quiet, delta=1e-2, group_size=3).verdict.outcome == "verified"


def test_where_epsilon_has_a_coarser_law_only_the_upper_side_is_claimed(monkeypatch):
    # C-27: where balls would take too long, the checker knows larger sums of squares alone
    monkeypatch.setattr("groupdp.certificate.checker.allocations._MOST_PRODUCTS", 0)
    run = groupdp.DPSGD(sampling=groupdp.BallsInBinsSampling(batches=50), noise_multiplier=8.0, steps=100)
    made = certify(run, delta=1e-6, group_size=70, adjacency="remove")
    assert made.verdict.outcome == "verified"
    assert made.document["claim"]["epsilon"]["lower"] == "0"


@pytest.mark.thinned(6)
@pytest.mark.parametrize(
    ("sampling", "noise", "adjacency"),
    [
        (groupdp.BallsInBinsSampling(batches=100), 2.0, "remove"),
        (groupdp.ShuffledSampling(batch_size=100, dataset_size=10_000), 3.0, "substitute"),
        (groupdp.ShuffledOnceSampling(batch_size=100, dataset_size=10_050), 30.0, "zero-out"),
    ],
)
def test_groups_beyond_the_exact_laws_in_shuffled_batches_are_certified(sampling, noise, adjacency):
    """Groups of more than 64; studies/certificates.py has groups of a thousand in a thousand batches."""
    run = groupdp.DPSGD(sampling=sampling, noise_multiplier=noise, steps=200)
    made = certify(run, delta=1e-6, group_size=80, adjacency=adjacency)
    assert made.verdict.outcome == "verified"
    upper = groupdp.epsilon(run, delta=1e-6, group_size=80, adjacency=adjacency).upper
    # Where an upper side alone can be claimed (C-30), the claim keeps a little room.
    assert float(made.document["claim"]["epsilon"]["upper"]) <= upper * (1 + 1e-8)


def test_a_group_larger_than_the_number_of_batches_is_certified_by_the_checker_s_larger_law():
    """C-27: engines know the law of 2 000 in 1 000 batches, the checker bounds it; certificates stayed undecided."""
    run = groupdp.DPSGD(groupdp.BallsInBinsSampling(batches=1000), noise_multiplier=5.0, steps=2000)
    made = certify(run, delta=1e-6, group_size=1000, adjacency="substitute")
    assert made.verdict.outcome == "verified"
    assert made.document["claim"]["epsilon"]["lower"] == "0"
    known = groupdp.epsilon(run, delta=1e-6, group_size=1000, adjacency="substitute")
    assert float(made.document["claim"]["epsilon"]["upper"]) >= known.lower


def test_a_limit_that_is_exceeded_is_told():
    sampling = groupdp.TruncatedPoissonSampling(rate=0.5, largest_batch=160_000, dataset_size=300_000)
    made = certify(groupdp.DPSGD(sampling, noise_multiplier=8.0, steps=10), delta=1e-6, group_size=2)
    assert made.verdict.outcome == "undecided"
    assert "10^5" in made.verdict.details[0]


def test_a_bad_question_is_refused_as_by_epsilon():
    with refused("delta"):
        certify(POISSON, delta=2.0, group_size=3)
    with refused("adjacency"):
        certify(POISSON, delta=1e-6, group_size=3, adjacency="sideways")


def test_the_digest_is_of_the_content_not_of_the_spaces():
    made = certify(POISSON, delta=1e-7, group_size=3)
    assert verify(json.dumps(made.document)).digest == made.digest
    assert verify(json.dumps(made.document, indent=8, sort_keys=True)).digest == made.digest


def test_decimals_are_outward():
    sides = outward(0.1, 0.1)
    assert float(sides["lower"]) < 0.1 < float(sides["upper"])
    assert outward(0.0, float("inf")) == {"lower": "0", "upper": "infinity"}
    assert [spelled(x) for x in (1.0, 0.01, 1e-6, 1e-300, 1e22)] == ["1", "0.01", "1e-6", "1e-300", "1e22"]


def test_without_flint_the_extra_is_named():
    script = "import sys; sys.modules['flint'] = None\nfrom groupdp import certificate\ncertificate.certify"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "groupdp[verify]" in done.stderr


def test_the_checker_imports_nothing_else_of_groupdp():
    for path in (ROOT / "src" / "groupdp" / "certificate" / "checker").glob("*.py"):
        for found in ast.walk(ast.parse(path.read_text())):
            if isinstance(found, ast.Import):
                assert not any(part.name.startswith("groupdp") for part in found.names)
            elif isinstance(found, ast.ImportFrom):
                assert found.level == 0
                module = f"{found.module}."
                assert module.startswith("groupdp.certificate.checker.") or not module.startswith("groupdp.")


def test_the_checker_stays_small():
    checker = ROOT / "src" / "groupdp" / "certificate" / "checker"
    assert sum(len(path.read_text().splitlines()) for path in checker.glob("*.py")) <= 2_900


class Slow:
    """A clock on which every look costs a quarter of an hour."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 900.0
        return self.now


FEW = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.02), noise_multiplier=1.0, steps=3)


@pytest.mark.parametrize("run", [POISSON, FEW], ids=["contour", "lattice"])
def test_a_slow_machine_has_the_same_certificate(run, monkeypatch):
    """Refinement ended after half of the seconds: a busy machine had a wider interval, or none."""
    idle = certify(run, delta=1e-6, group_size=2)
    assert idle.verdict.outcome == "verified"
    monkeypatch.setattr("time.monotonic", Slow())
    busy = certify(run, delta=1e-6, group_size=2)
    assert busy.text == idle.text
    assert busy.verdict == idle.verdict


def test_a_deadline_that_is_asked_for_raises(monkeypatch):
    monkeypatch.setattr("time.monotonic", Slow())
    with pytest.raises(groupdp.LimitExceeded, match=r"^seconds: .* 60 that were asked for\.$"):
        certify(FEW, delta=1e-6, group_size=2, seconds=60.0)


def test_verification_that_runs_out_of_time_says_so(monkeypatch):
    made = certify(FEW, delta=1e-6, group_size=2)
    monkeypatch.setattr("time.monotonic", Slow())
    late = verify(made.text, seconds=60.0)
    assert late.outcome == "undecided"
    assert "60 seconds" in " ".join(late.details)


def test_fewer_steps_end_at_the_same_place():
    first, again = (certify(FEW, delta=1e-6, group_size=2, steps=2_000) for _ in range(2))
    assert first.text == again.text
    assert first.verdict.outcome in ("verified", "undecided")


@pytest.mark.parametrize(("name", "value"), [("seconds", 0.0), ("seconds", float("nan")), ("steps", 0), ("steps", 1.5)])
def test_limits_that_are_none_are_refused(name, value):
    with pytest.raises(groupdp.InvalidArgument) as refused:
        certify(FEW, delta=1e-6, group_size=2, **{name: value})
    assert refused.value.argument == name
