"""Certificates of several releases with group sizes of their own (C-36)."""

from __future__ import annotations

import copy
import json
import math

import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

pytest.importorskip("flint")

import groupdp
from command_line import groupdp as command
from groupdp import DPSGD, GaussianRelease, InvalidArgument, LaplaceRelease, PoissonSampling, Search
from groupdp.certificate import certify, verify
from groupdp.certificate.checker.reading import NotACertificate

TRAINING = DPSGD(PoissonSampling(rate=0.02), noise_multiplier=2.0, steps=100)


def sides(document) -> tuple[float, float]:
    return tuple(float(document["claim"]["epsilon"][side]) for side in ("lower", "upper"))


def test_two_gaussian_releases_are_one_in_closed_form():  # C-36
    """Groups of 8 and 3 move by 8 / 20 and 3 / 5; of the person of whom one is stated, by 1 / 4."""
    person = GaussianRelease(4.0, per_person=True)
    made = certify([(GaussianRelease(20.0), 8), (GaussianRelease(5.0), 3), (person, 7)], delta=1e-6)
    assert made.verdict.outcome == "verified"
    mu = math.hypot(8 / 20, 3 / 5, 1 / 4)

    def excess(epsilon: float) -> float:
        return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)) - 1e-6

    lower, upper = sides(made.document)
    assert lower * (1 - 1e-9) <= brentq(excess, 0.1, 20.0, xtol=1e-13) <= upper * (1 + 1e-9)
    assert made.document["claim"]["tight"]


@pytest.mark.parametrize("adjacency", ["add-or-remove", "substitute", "zero-out"])
def test_a_mixture_of_releases_is_verified_and_is_that_of_epsilon(adjacency):
    run = [(TRAINING, 5), (GaussianRelease(10.0), 2), (Search(TRAINING, 2), 1)]
    made = certify(run, delta=1e-6, adjacency=adjacency)
    assert made.verdict.outcome == "verified"
    found = groupdp.epsilon(run, delta=1e-6, adjacency=adjacency)
    lower, upper = sides(made.document)
    assert lower <= found.upper
    assert upper >= found.lower
    assert [phase.get("group_size") for phase in made.document["claim"]["run"]] == [5, 2, 1, 1]


@pytest.mark.parametrize(("phase", "size"), [(0, 6), (0, 4), (1, 30), (1, 0), (0, None)])
def test_another_group_size_of_a_phase_is_another_claim(phase, size):  # C-36
    made = certify([(TRAINING, 5), (GaussianRelease(4.0), 2)], delta=1e-6)
    changed = copy.deepcopy(made.document)
    if size is None:
        del changed["claim"]["run"][phase]["group_size"]
        changed["claim"]["group_size"] = 1
    else:
        changed["claim"]["run"][phase]["group_size"] = size
    assert verify(json.dumps(changed)).outcome != "verified"


@pytest.mark.parametrize(
    "change",
    [
        {"group_size": 0},
        {"adjacency": "add-and-remove"},
        {"adjacency": "removed-and-added", "removed": 1, "added": 1},
    ],
)
def test_a_group_of_its_own_needs_one_group_that_leaves_or_joins(change):  # C-36
    made = certify([(TRAINING, 5), (GaussianRelease(4.0), 2)], delta=1e-6)
    document = copy.deepcopy(made.document)
    document["claim"].update(change)
    if "removed" in change:
        del document["claim"]["group_size"]
    with pytest.raises(NotACertificate):
        verify(json.dumps(document))


def test_what_the_checker_has_no_law_for_is_refused():
    for run in ([(TRAINING, 2), (LaplaceRelease(5.0), 1)], [(Search(TRAINING, 3.0, "geometric"), 1)]):
        with pytest.raises(InvalidArgument) as error:
            certify(run, delta=1e-6)
        assert error.value.argument == "run"


def test_a_ledger_is_certified_and_its_statement_carries_it(tmp_path):
    book, run = tmp_path / "a.jsonl", tmp_path / "run.toml"
    run.write_text("delta = 1e-6\n[[phase]]\nsampling_rate = 0.02\nnoise_multiplier = 2.0\nsteps = 100\n")
    assert command(f"ledger new --ledger {book} --delta 1e-6").status == 0
    for size in (5, 1):
        assert command(f"ledger add {run}:{size} --ledger {book} --chosen beforehand").status == 0
    claim = tmp_path / "claim.json"
    assert command(f"certify {book} --out {claim}").status == 0
    assert command(f"verify {claim}").status == 0
    assert "Verified independently" in command(f"statement {book} --certificate {claim}").output
