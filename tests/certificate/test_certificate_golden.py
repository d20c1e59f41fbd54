"""Golden epsilons are verified, and the same claims moved past the truth never are (C-1, C-2, C-3, C-17)."""

from __future__ import annotations

import json

import pytest

from certificate_claims import claim, golden, margin, named
from groupdp.certificate.checker import verify
from groupdp.certificate.prover import certificate_of

TRUTHS = list(golden())
#: Enough for every law; studies/certificates.py has all of them.
SAMPLE = [truth for truth in TRUTHS if "truncated" not in named(truth) and "digits" not in truth][::7]
SAMPLE += [t for t in TRUTHS if t["claim"]["run"][0]["sampling"] in ("shuffled", "poisson-sources")]
SAMPLE += [t for t in TRUTHS if t["claim"]["run"][0].get("dataset_size") == 20]
SAMPLE += [t for t in TRUTHS if "digits" in t and t["claim"]["group_size"] == 1]
THROWN = [t for t in TRUTHS if t["claim"]["run"][0]["sampling"] == "balls-in-bins"]
SAMPLE = [t for t in SAMPLE if t not in THROWN]


def test_all_golden_values_are_there():
    assert len(TRUTHS) == 2 * 59 + 22 + 2 * 6 + 4 + 2 + 2 * 2 + 3


@pytest.mark.thinned(6)
@pytest.mark.parametrize("truth", SAMPLE, ids=named)
def test_a_golden_epsilon_is_verified_and_a_moved_one_is_not(truth):
    by = margin(truth)
    made = certificate_of(claim(truth, f"-{by}", by))
    assert made.verdict.outcome == "verified", made.verdict
    for lower, upper in (("-1", f"-{by}"), (by, "1")):
        document = {**made.document, "claim": claim(truth, lower, upper)}
        assert verify(json.dumps(document)).outcome == "refuted"
    if by == "1e-9":
        for lower, upper in (("-1e-9", "-1e-12"), ("1e-12", "1e-9")):
            document = {**made.document, "claim": claim(truth, lower, upper)}
            assert verify(json.dumps(document)).outcome in ("refuted", "undecided")


@pytest.mark.parametrize("truth", THROWN, ids=named)
def test_an_allocation_revealed_proves_an_upper_side_and_refutes_nothing(truth):
    """C-30: these epsilons are of another law than the run's, whose allocation stays hidden and which leaks less."""
    made = certificate_of(claim(truth, "-1", "1e-9"))
    assert made.verdict.outcome == "verified"
    for by in ("1e-9", "-1e-9"):  # a lower side cannot be proved, whatever the hints say
        document = {**made.document, "claim": claim(truth, "-1e-9" if by == "1e-9" else "-2e-9", by)}
        assert verify(json.dumps(document)).outcome == "undecided"


def test_an_upper_side_must_hold_for_every_pair_and_a_lower_side_for_one():
    # C-17: remove is worse than add here; what holds for add alone holds for neither
    add = next(t for t in TRUTHS if t["claim"].get("group_size") == 4 and t["claim"]["adjacency"] == "add")
    both = {**add, "claim": {**add["claim"], "adjacency": "add-or-remove"}}
    assert certificate_of(claim(both, "-1e-9", "1e-9")).verdict.outcome == "refuted"
    remove = next(t for t in TRUTHS if t["claim"].get("group_size") == 4 and t["claim"]["adjacency"] == "remove")
    both = {**remove, "claim": {**remove["claim"], "adjacency": "add-or-remove"}}
    made = certificate_of(claim(both, "-1e-9", "1e-9"))
    assert made.verdict.outcome == "verified"
    for name in ("remove", "add"):  # nothing is known of one of the pairs
        hints = {pair: part for pair, part in made.document["hints"].items() if pair != name}
        assert verify(json.dumps({**made.document, "hints": hints})).outcome == "undecided"
    only_lower = claim(both, "-1e-9", "1e-9")
    only_lower["epsilon"]["upper"] = "infinity"
    assert certificate_of(only_lower).verdict.outcome == "verified"
    assert certificate_of({**only_lower, "adjacency": "add"}).verdict.outcome == "refuted"


def test_only_attained_laws_may_be_called_tight():
    truth = next(t for t in TRUTHS if t["claim"]["run"][0]["sampling"] == "shuffled")
    made = certificate_of({**claim(truth, "-1e-9", "1e-9"), "tight": True})
    assert made.verdict.outcome == "refuted"
    assert "tight" in made.verdict.reason
