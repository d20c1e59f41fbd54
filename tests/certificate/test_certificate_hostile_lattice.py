"""Hostile hints for the lattice: no false claim is verified, and the checker ends (one that hangs hangs the suite)."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest

from certificate_claims import ABSURD, places, replaced
from certificate_two_rounds import two_rounds
from groupdp.certificate.checker import verify
from groupdp.certificate.checker.laws import Change
from groupdp.certificate.checker.reading import NotACertificate
from groupdp.certificate.checker.runs import composition
from groupdp.certificate.prover.hints import lattice_hints

RUN = [{"sampling": "poisson", "sampling_rate": "0.125", "noise_multiplier": "1", "steps": 2}]
PARTS = composition(RUN, Change("remove", 2, 0))
#: By another program (two_rounds): the delta of epsilon = 2, to 12 digits or so.
DELTA = two_rounds(PARTS[0][0], 2.0)
HINTS = {"remove": lattice_hints(PARTS, epsilon=2.0, log_delta=-7.0, accuracy=1e-5, most=600)}


def document(lower: str, upper: str, hints: Any = HINTS) -> dict[str, Any]:
    claim = {"run": RUN, "adjacency": "remove", "group_size": 2, "delta": f"{DELTA:.15f}", "tight": True}
    claim["epsilon"] = {"lower": lower, "upper": upper}
    return {"format": "groupdp certificate", "version": 1, "claim": claim, "hints": hints}


FALSE = [("1.9", "1.999999998"), ("2.000000002", "2.1")]


def test_a_claim_is_verified_as_wide_as_it_can_be_proved_and_never_beyond_the_truth():
    outcomes = {}
    for by in (1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-9):
        outcomes[by] = verify(json.dumps(document(f"{2 - by:.10f}", f"{2 + by:.10f}"))).outcome
        for false in ((f"{2 - 2 * by:.10f}", f"{2 - by:.10f}"), (f"{2 + by:.10f}", f"{2 + 2 * by:.10f}")):
            assert verify(json.dumps(document(*false))).outcome in ("refuted", "undecided")
    assert outcomes[1e-2] == "verified"
    assert outcomes[1e-9] == "undecided"
    assert verify(json.dumps(document("2.1", "2.2"))).outcome == "refuted"
    assert verify(json.dumps(document("1.8", "1.9"))).outcome == "refuted"


@pytest.mark.thinned(6)
@pytest.mark.parametrize("path", places(HINTS), ids=str)
def test_absurd_hints_verify_nothing_false(path):
    for value in [*ABSURD, -5, 3, 40_000]:
        for sides in FALSE:
            changed = document(*sides, replaced(HINTS, path, value))
            assert verify(json.dumps(changed), seconds=0.5).outcome != "verified"


def test_many_absurd_hints_at_once():
    source = random.Random(7)
    for _ in range(150):
        hints = copy.deepcopy(HINTS)
        for path in source.sample(places(HINTS), 3):
            if path not in (("remove",), ("remove", "rounds"), ("remove", "rounds", 0)):
                hints = replaced(hints, path, source.choice([*ABSURD, 2, -3, 1e3, -1e4, 1e-3]))
        assert verify(json.dumps(document(*source.choice(FALSE), hints)), seconds=0.5).outcome != "verified"


def test_the_largest_lattice_that_is_accepted_is_bounded():
    hints = copy.deepcopy(HINTS)
    hints["remove"].update(low=-100_000, high=290_000, precision=200, step=1e-4)
    hints["remove"]["rounds"][0].update(first=-90_000, last=100_000)
    verdict = verify(json.dumps(document("1.9", "1.999999998", hints)), seconds=1.0)
    assert verdict.outcome == "undecided"
    for field, value in (("high", 10**7), ("precision", 1999)):
        changed = copy.deepcopy(hints)
        changed["remove"][field] = value
        assert "points" in verify(json.dumps(document("1.9", "1.95", changed))).details[0]


def test_a_long_composition_ends():
    claim = document("1", "2")
    claim["claim"]["run"] = [{**RUN[0], "steps": 10**9}]
    try:
        assert verify(json.dumps(claim), seconds=1.0).outcome != "verified"
    except NotACertificate:
        pytest.fail("it is a certificate")
