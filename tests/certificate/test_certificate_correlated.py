"""Certificates of correlated noise (C-28): golden values, wrong normalisations, hostile files, and what is refused."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

pytest.importorskip("flint")

from groupdp.certificate import NotACertificate, certify, verify
from groupdp.certificate.checker.laws import Change
from groupdp.certificate.checker.runs import composition
from groupdp.certificate.prover import certificate_of
from groupdp.correlated import (
    BandedToeplitz,
    CorrelatedNoise,
    CyclicPoisson,
    FixedEpochs,
    MinimumSeparation,
    PrefixSum,
    SeparatedPoisson,
)
from groupdp.errors import InvalidArgument
from paths import TESTS

GOLDEN = json.loads((TESTS / "golden" / "banded.json").read_text(encoding="utf-8"))["cases"]
COLUMN = ["1", "0.5", "0.375", "0.3125"]
PERSON = {
    "mechanism": "correlated-noise",
    "strategy": "banded-toeplitz",
    "column": COLUMN,
    "participation": "cyclic-poisson",
    "parts": 4,
    "rate": "0.04",
    "assigned": "person",
    "noise_multiplier": "2",
    "normalisation": "as-given",
    "steps": 2000,
}


def correlated(participation: Any, **options: Any) -> CorrelatedNoise:
    options = {"noise_multiplier": 2.0, "steps": 2000, "normalisation": "as-given", **options}
    return CorrelatedNoise(options.pop("strategy", BandedToeplitz.square_root(4)), participation, **options)


@pytest.mark.parametrize(("bands", "group"), [(4, 1), (8, 2)])
def test_golden_values_are_proved(bands: int, group: int):
    case = next(case for case in GOLDEN if (case["bands"], case["group_size"]) == (bands, group))
    run = correlated(
        CyclicPoisson(parts=bands, rate=float(case["sampling_rate_in_part"]), assigned="person"),
        strategy=BandedToeplitz.square_root(bands),
        noise_multiplier=float(case["noise_multiplier"]),
        steps=case["rounds"],
    )
    made = certify(run, delta=float(case["delta"]), group_size=group, adjacency=case["adjacency"])
    assert made.verdict.outcome == "verified"
    lower, upper = (float(made.document["claim"]["epsilon"][side]) for side in ("lower", "upper"))
    golden = float(case["epsilon"])
    assert lower * (1 - 1e-8) <= golden <= upper * (1 + 1e-8)
    assert made.document["claim"]["tight"]
    claim = {**made.document["claim"], "epsilon": {"lower": "0", "upper": str(0.99 * lower)}}
    assert certificate_of(claim).verdict.outcome == "refuted"


@pytest.mark.parametrize("group", [1, 3])
def test_examples_in_any_parts_are_proved_at_the_values_of_an_outside_table(group: int):
    """Row shares: about 4.14 and 14.98 at b = 4, T = 2000, q = 0.04, sigma = 2; one example is better off with M-2."""
    made = certify(correlated(CyclicPoisson(parts=4, rate=0.04, assigned="example")), delta=1e-6, group_size=group)
    assert made.verdict.outcome == "verified"
    upper = float(made.document["claim"]["epsilon"]["upper"])
    assert upper <= {1: 2.946, 3: 14.99}[group]
    assert made.document["claim"]["tight"] == (group == 1)


@pytest.mark.parametrize(
    ("participation", "adjacency", "noise"),
    [
        (MinimumSeparation(separation=6, participations=10), "substitute", 20.0),
        (FixedEpochs(batches=100), "add-or-remove", 8.0),
        (CyclicPoisson(parts=7, rate=0.02, assigned="position"), "zero-out", 2.0),
        (SeparatedPoisson(separation=9, rate=0.01), "substitute", 3.0),
        (CyclicPoisson(parts=4, rate=1.0, assigned="person"), "remove", 60.0),
    ],
)
@pytest.mark.parametrize("normalisation", ["as-given", "unit-columns"])
def test_every_participation_with_few_bands_is_proved(
    participation: Any, adjacency: str, noise: float, normalisation: str
):
    run = correlated(participation, normalisation=normalisation, steps=1001, noise_multiplier=noise)
    made = certify(run, delta=1e-6, group_size=2, adjacency=adjacency)
    assert made.verdict.outcome == "verified"
    assert made.relative_width < 1e-9


def test_a_wrong_normalisation_is_refuted():
    """The noise is that of a column norm of 1, and the claim that of the matrix as it is: the column norm apart."""
    run = correlated(CyclicPoisson(parts=4, rate=0.04, assigned="person"), normalisation="unit-columns")
    document = copy.deepcopy(certify(run, delta=1e-6, group_size=2).document)
    document["claim"]["run"][0]["normalisation"] = "as-given"
    assert certificate_of(document["claim"]).verdict.outcome == "refuted"


def test_squares_are_exact_rationals_of_the_columns():
    """C-28, by hand: two columns of c = (1, 1/2) two rounds apart, and one cut at the end."""
    phase = {**PERSON, "column": ["1", "-0.5"], "parts": 2, "steps": 5}
    parts = composition([phase], Change("remove", 1, 0))
    assert [times for _, times in parts] == [2, 1]
    assert [float(one.unit * 2) ** 2 for one, _ in parts] == pytest.approx([1.25, 1.0], rel=1e-14)
    gaussian = {key: value for key, value in phase.items() if key not in ("parts", "rate", "assigned")}
    gaussian |= {"participation": "minimum-separation", "separation": 2, "participations": 2}
    (one, times), *rest = composition([gaussian], Change("substitute", 2, 2))
    assert (rest, times) == ([], 1)
    assert one.coin == [(1, 10)]  # (1.25 + 1.25) (2 + 2)^2 / 2^2


def test_windows_of_separated_sampling_are_those_of_m_11():
    """C-28, by hand: windows of two rounds, whose columns of c = (1, 1/2) share rows in equal halves."""
    phase = {key: value for key, value in PERSON.items() if key not in ("parts", "rate", "assigned")}
    phase |= {"participation": "separated-poisson", "separation": 3, "rate": "0.5", "shares": ["0.5", "0"]}
    phase |= {"column": ["1", "0.5"], "steps": 5}
    ((one, times),) = composition([phase], Change("remove", 1, 0))
    assert times == 3
    assert float(one.unit * 2) ** 2 == pytest.approx(2.25, rel=1e-14)  # column 0: 1 / (1 - 0.5) + 0.25 / (1 - 0)
    assert [float(part) for part in one.branches[0][0]] == [0.25, 0.75]
    claim = {**certificate(phase)["claim"], "tight": True}
    assert certificate_of(claim).verdict.outcome != "verified"
    assert certificate_of({**claim, "tight": False}).verdict.outcome == "verified"


@pytest.mark.parametrize(
    "change",
    [
        {"column": []},
        {"column": ["0"]},
        {"column": ["1", "1e-200"]},
        {"column": ["1", 0.5]},
        {"column": ["--1"]},
        {"column": "1"},
        {"rate": "0"},
        {"rate": "1.5"},
        {"parts": 0},
        {"parts": True},
        {"steps": 0},
        {"assigned": "anybody"},
        {"normalisation": "unit"},
        {"strategy": "blt"},
        {"participation": ["cyclic-poisson"]},
        {"shares": ["0.5"] * 4},
        {"surprise": 1},
    ],
    ids=str,
)
def test_hostile_phases_are_not_certificates(change: dict[str, Any]):
    document = certificate({**PERSON, **change})
    with pytest.raises(NotACertificate):
        verify(json.dumps(document), seconds=5)


@pytest.mark.parametrize(
    "change",
    [
        {"parts": 3},
        {"assigned": "position", "shares": ["0.5"] * 4},
        {"assigned": "example", "shares": ["0.5"] * 3},
        {"rate": "1", "assigned": "example", "shares": ["0.5"] * 4},
        {"assigned": "example", "shares": ["0"] * 4},
        {"assigned": "example", "shares": ["1"] * 4},
    ],
    ids=str,
)
def test_what_no_theorem_covers_is_never_verified(change: dict[str, Any]):
    document = certificate({**PERSON, **change})
    assert verify(json.dumps(document), seconds=5).outcome == "undecided"


def certificate(phase: dict[str, Any]) -> dict[str, Any]:
    """A modest claim; its one ordered change would be proved by Chernoff's bound."""
    claim = {
        "run": [phase],
        "adjacency": "remove",
        "group_size": 2,
        "delta": "1e-6",
        "epsilon": {"lower": "0", "upper": "1000"},
        "tight": False,
    }
    return {"format": "groupdp certificate", "version": 1, "claim": claim, "hints": {}}


@pytest.mark.parametrize(
    ("run", "argument"),
    [
        (correlated(FixedEpochs(batches=10), strategy=PrefixSum()), "strategy"),
        (correlated(FixedEpochs(batches=3)), "strategy"),
        (correlated(MinimumSeparation(separation=4, participations=2, together=False)), "together"),
        (correlated(CyclicPoisson(parts=600, rate=0.1, assigned="example")), "participation"),
        (correlated(SeparatedPoisson(separation=4, rate=1.0)), "participation"),
    ],
)
def test_what_the_checker_has_no_law_for_is_refused_in_one_sentence(run: CorrelatedNoise, argument: str):
    with pytest.raises(InvalidArgument) as refused:
        certify(run, delta=1e-6, group_size=2)
    assert refused.value.argument == argument
