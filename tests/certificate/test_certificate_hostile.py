"""Files from someone who wants a false claim verified, or the checker to hang, crash or eat the memory.

A checker that hangs hangs the suite: no test here reads the clock."""

from __future__ import annotations

import copy
import json
import math
import random
from fractions import Fraction

import pytest

from certificate_claims import ABSURD, claim, golden, named, places, replaced
from groupdp.certificate.checker import verify
from groupdp.certificate.checker.reading import NotACertificate, number
from groupdp.certificate.prover import certificate_of

TRUTH = next(truth for truth in golden() if named(truth) == "fixed-batch-sigma10-remove-k12-1e-5")
GOOD = certificate_of(claim(TRUTH, "-1e-9", "1e-9")).document
#: The same hints with a claim that is false by 1e-9, on one side or the other.
FALSE = [{**GOOD, "claim": claim(TRUTH, *sides)} for sides in (("-2e-9", "-1e-9"), ("1e-9", "2e-9"))]


def test_the_good_one_is_verified():
    assert verify(json.dumps(GOOD)).outcome == "verified"
    assert verify(json.dumps(GOOD).encode()).outcome == "verified"


@pytest.mark.parametrize("path", places(GOOD["hints"]), ids=str)
def test_absurd_hints_verify_nothing_false(path):
    for value in ABSURD:
        for document in FALSE:
            changed = {**document, "hints": replaced(document["hints"], path, value)}
            assert verify(json.dumps(changed), seconds=5.0).outcome != "verified"


@pytest.mark.parametrize("path", places(GOOD["claim"]), ids=str)
def test_absurd_claims_are_refused_or_not_verified(path):
    for value in [*ABSURD, "1e999", "-1", "nan", "infinity", "0x1.8p+9999", "9" * 100_000, {"a": {"b": 1}}]:
        changed = {**GOOD, "claim": replaced(GOOD["claim"], path, value)}
        if value == "infinity" and path == ("epsilon", "upper"):
            continue  # which claims nothing on that side
        try:
            verdict = verify(json.dumps(changed), seconds=5.0)
        except NotACertificate:
            continue
        same = path == ("tight",) and value is True
        weaker = path[-1] == "lower"  # a smaller lower side claims less
        assert verdict.outcome != "verified" or same or weaker


def test_a_claim_that_is_weaker_stays_true_and_a_stronger_one_is_refuted():
    for side, factor, outcome in (
        ("upper", 1.001, "verified"),
        ("upper", 0.999, "refuted"),
        ("lower", 0.999, "verified"),
        ("lower", 1.0000001, "refuted"),
    ):
        changed = copy.deepcopy(GOOD)
        changed["claim"]["epsilon"][side] = repr(float(TRUTH["epsilon"]) * factor)
        if float(changed["claim"]["epsilon"]["lower"]) > float(changed["claim"]["epsilon"]["upper"]):
            with pytest.raises(NotACertificate):
                verify(json.dumps(changed))
        else:
            assert verify(json.dumps(changed)).outcome == outcome


@pytest.mark.parametrize(
    ("name", "value"),
    [("delta", "1.00001e-5"), ("delta", "9.9999e-6"), ("group_size", 11), ("group_size", 13), ("adjacency", "add")],
)
def test_an_altered_claim_is_refuted(name, value):
    changed = copy.deepcopy(GOOD)
    changed["claim"][name] = value
    if name == "adjacency":
        changed["hints"]["add"] = certificate_of(changed["claim"]).document["hints"]["add"]
    assert verify(json.dumps(changed)).outcome == "refuted"


@pytest.mark.parametrize(("name", "value"), [("steps", 499), ("batch_size", 255), ("noise_multiplier", "10.0001")])
def test_an_altered_run_is_refuted(name, value):
    changed = copy.deepcopy(GOOD)
    changed["claim"]["run"][0][name] = value
    assert verify(json.dumps(changed)).outcome == "refuted"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "1",
        "null",
        "{",
        "{}",
        '{"format": "groupdp certificate"}',
        '{"format": "groupdp certificate", "version": 2}',
        '{"format": "groupdp certificate", "version": true}',
        '{"format": "groupdp certificate", "version": 1}',
        '{"format": "groupdp certificate", "version": 1, "claim": {}, "hints": {}}',
        '{"format": "groupdp certificate", "version": 1, "version": 1}',
        '{"format": "groupdp certificate", "version": 1, "claim": NaN}',
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 50_000 + "1" + "}" * 50_000,
        '{"format": "groupdp certificate", "version": 1, "claim": ' + "9" * 10_000 + "}",
        "x" * 2_000_000,
        "\ud800",
    ],
    ids=lambda text: text[:60],
)
def test_what_is_no_certificate_is_refused(text):
    with pytest.raises(NotACertificate):
        verify(text)


def test_bytes_that_are_no_text_are_refused():
    with pytest.raises(NotACertificate):
        verify(b"\xff\xfe\x00{")


def test_unknown_names_are_refused():
    # they could say something that changes the claim's meaning
    for path in ((), ("claim",), ("claim", "epsilon"), ("claim", "run", 0)):
        changed = copy.deepcopy(GOOD)
        inner = changed
        for key in path:
            inner = inner[key]
        inner["assuming"] = "the moon is full"
        with pytest.raises(NotACertificate):
            verify(json.dumps(changed))


def test_random_damage_never_verifies_a_false_claim():
    source = random.Random(5)
    for _ in range(60):
        text = list(json.dumps(source.choice(FALSE)["hints"]))
        for _ in range(source.randint(1, 4)):
            text[source.randrange(len(text))] = source.choice('0123456789.-e{}[],"')
        try:
            hints = json.loads("".join(text))
        except (ValueError, RecursionError):
            continue
        document = {**source.choice(FALSE), "hints": hints}
        try:
            assert verify(json.dumps(document), seconds=0.5).outcome != "verified"
        except NotACertificate:
            continue


@pytest.mark.parametrize(
    "run",
    [
        {"sampling": "poisson", "sampling_rate": "1e-300", "noise_multiplier": "1", "steps": 10**9},
        {"sampling": "poisson", "sampling_rate": "0.5", "noise_multiplier": "1e-9", "steps": 10**9},
        {"sampling": "poisson", "sampling_rate": "0." + "3" * 40, "noise_multiplier": "1", "steps": 2},
        {"sampling": "fixed-batch", "batch_size": 10**14, "dataset_size": 10**15, "noise_multiplier": "1", "steps": 2},
        {"sampling": "balls-in-bins", "batches": 10**15, "noise_multiplier": "1", "steps": 10**9},
        {"sampling": "shuffled", "batch_size": 1, "dataset_size": 10**15, "noise_multiplier": "1", "steps": 10**9},
        {"sampling": "shuffled-once", "batch_size": 10**15, "dataset_size": 1, "noise_multiplier": "1", "steps": 1},
        {"sampling": "truncated-poisson", "sampling_rate": "0.5", "largest_batch": 1, "dataset_size": 10**15}
        | {"noise_multiplier": "1", "steps": 7},
        {"sampling": "fixed-order", "batch_size": 1, "dataset_size": 1, "noise_multiplier": "0", "steps": 7},
    ],
    ids=lambda run: run["sampling"],
)
@pytest.mark.parametrize(("adjacency", "size"), [("add-or-remove", 300), ("zero-out", 64), ("add-and-remove", 64)])
def test_extreme_runs_end(run, adjacency, size):
    hints = {**GOOD["hints"]["remove"], "precision": 2000}
    names = ["remove", "add", "substitute", "zero-out", "zero-out, reversed"]
    names += [f"remove {i}, add {size - i}" for i in range(size)]
    asked = {"run": [run] * 3, "adjacency": adjacency, "group_size": size, "delta": "1e-300", "tight": False}
    asked["epsilon"] = {"lower": "1", "upper": "2"}
    document = {**GOOD, "claim": asked, "hints": {name: {**hints, "rounds": hints["rounds"] * 3} for name in names}}
    try:
        verdict = verify(json.dumps(document), seconds=0.3)
    except NotACertificate:
        return
    assert verdict.outcome in ("undecided", "refuted")


def test_numbers_are_exact():
    assert number("0.1", "x", 0, 1) * 10 == 1
    assert number("1e-300", "x", 0, 1) * 10**300 == 1
    assert number("0x1.8p-3", "x", 0, 1) * 16 == 3
    assert number("0x1.0p-1200", "x", 0, 1) * 2**1200 == 1
    spelled_wrongly = ["", "1.", ".5", "1e", "1e1000", "+1", "-1", "1_0", " 1", "1 ", "0x1p3", "١", "1,0", "9" * 31]
    for wrong in [*spelled_wrongly, 1, 0.5, None]:
        with pytest.raises(NotACertificate):
            number(wrong, "x", 0, 10)


def test_phases_that_were_not_read_are_before_they_are_called_tight():
    order = {"sampling": "fixed-order", "batch_size": 10, "dataset_size": 5, "noise_multiplier": "1", "steps": 3}
    wordy = {"sampling": "poisson", "sampling_rate": "0." + "1" * 40, "noise_multiplier": "1", "steps": 3}
    sources = {"sampling": "poisson-sources", "sampling_rates": {"a": "0." + "1" * 40}, **_only(wordy)}
    about = {"adjacency": "substitute", "delta": "0.1", "epsilon": {"lower": "0", "upper": "5"}, "tight": True}
    file = {"format": "groupdp certificate", "version": 1, "hints": {}}
    assert verify(json.dumps({**file, "claim": {**about, "run": [order], "group_size": 2}})).outcome == "refuted"
    for changed, size in (
        ({"batch_size": 0}, 900),
        ({"batch_size": "x"}, 900),
        ({"steps": "x"}, 900),
        ({}, {"a": 900}),
    ):
        run = [sources if isinstance(size, dict) else wordy, {**order, **changed}]
        with pytest.raises(NotACertificate):
            verify(json.dumps({**file, "claim": {**about, "run": run, "group_size": size}}))


def _only(phase):
    return {name: phase[name] for name in ("noise_multiplier", "steps")}


def test_those_who_are_left_over_do_not_attain_a_fixed_order():
    """C-1: 2 full batches of 2 hold 4 of 5; that they hold 5 is valid, and not tight."""
    phase = {"sampling": "fixed-order", "batch_size": 2, "dataset_size": 5, "noise_multiplier": "3", "steps": 4}
    asked = {"run": [phase], "adjacency": "zero-out", "delta": "1e-5", "epsilon": {"lower": "0", "upper": "50"}}
    for size, outcome in ((4, "verified"), (5, "refuted")):
        claimed = {**asked, "group_size": size, "tight": True}
        file = {"format": "groupdp certificate", "version": 1, "claim": claimed, "hints": {}}
        assert verify(json.dumps(file)).outcome == outcome


def test_branches_left_out_count_beyond_the_largest_loss_of_the_others():
    """C-16, C-5: batches of fewer than 10 of 1000 are rarer than 2^-700, and lose log 2 where the others lose 0.01."""
    phase = {
        "sampling": "truncated-poisson",
        "sampling_rate": "0.5",
        "largest_batch": 10,
        "dataset_size": 1000,
        "noise_multiplier": "0.01",
        "steps": 1,
    }
    claim = {
        "run": [phase],
        "adjacency": "add",
        "group_size": 1,
        "delta": "1e-290",
        "epsilon": {"lower": "0", "upper": "0.02"},
        "tight": False,
    }
    few = Fraction(sum(math.comb(1000, size) for size in range(10)), 2**1000)
    assert few / 3 > Fraction(1, 10**290)  # such a batch has no member with probability 1/2: delta is near few / 2
    document = {"format": "groupdp certificate", "version": 1, "claim": claim, "hints": {}}
    assert verify(json.dumps(document)).outcome == "undecided"
