"""Drawn indices against a claim: true claims stand, false ones are contradicted; p-values against SciPy's."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from scipy import stats

import groupdp
from command_line import assert_one_sentence
from command_line import groupdp as command
from groupdp.loading import BallsInBinsBatches, PoissonBatches, SpreadBatches
from groupdp.loading.draws import binomial, binomial_law, hypergeometric_law, quantile_counts
from groupdp.loading.fit import drawn_from, fit, steps_of_epoch

SIZE = 60
OWNERS = np.arange(SIZE) // 3

POISSON = groupdp.PoissonSampling(rate=0.1)
THROWN = groupdp.BallsInBinsSampling(batches=10)
SPREAD = groupdp.SpreadSampling(batches=10)
SHUFFLED = groupdp.ShuffledSampling(batch_size=6, dataset_size=SIZE)
FIXED = groupdp.FixedBatchSampling(batch_size=6, dataset_size=SIZE)
ORDER = groupdp.FixedOrderSampling(batch_size=6, dataset_size=SIZE)


def dealt(order):
    return [order[start : start + 6] for start in range(0, SIZE, 6)]


def sources(seed):
    """One epoch of each kind of loader, right ones first."""
    generator = np.random.default_rng(seed)
    poisson = PoissonBatches(SIZE, rate=0.1, seed=seed)
    thrown = BallsInBinsBatches(SIZE, batches=10, seed=seed)
    spread = SpreadBatches(OWNERS, batches=10, seed=seed)
    once = generator.permutation(SIZE)
    weights = np.linspace(0.2, 1.8, SIZE) / SIZE

    def buffered():
        """A shuffle buffer of 12 over a stream in a fixed order."""
        buffer, order = list(range(12)), []
        for new in range(12, SIZE):
            place = generator.integers(12)
            order.append(buffer[place])
            buffer[place] = new
        return dealt(np.array(order + generator.permutation(buffer).tolist()))

    def correlated():
        """Two halves that draw with the same coins, as ranks with one seed do."""
        for _ in range(10):
            half = np.flatnonzero(generator.random(SIZE // 2) < 0.1)
            yield np.concatenate((half, half + SIZE // 2))

    return {
        "poisson": poisson.arrays,
        "balls in bins": thrown.arrays,
        "spread": spread.arrays,
        "shuffled": lambda: dealt(generator.permutation(SIZE)),
        "fixed batches": lambda: [generator.choice(SIZE, 6, replace=False) for _ in range(10)],
        "in order": lambda: dealt(np.arange(SIZE)),
        "shuffled once": lambda: dealt(once),
        "with replacement": lambda: [generator.integers(0, SIZE, 6) for _ in range(10)],
        "weighted": lambda: [np.flatnonzero(generator.random(SIZE) < 6 * weights) for _ in range(10)],
        "buffer": buffered,
        "correlated": correlated,
        "rate too high": lambda: [np.flatnonzero(generator.random(SIZE) < 0.12) for _ in range(10)],
        "same batches": lambda: [np.arange(SIZE)[step::10] for step in range(10)],
        "a subset": lambda: [np.flatnonzero(generator.random(SIZE - 6) < 1 / 9) for _ in range(10)],
    }


def held_against(name, claim, seed=1, epochs=200):
    source = sources(seed)[name]
    drawn = drawn_from((source() for _ in range(epochs)), steps=10, dataset_size=SIZE)
    return fit(drawn, claim, people=OWNERS)


RIGHT = {
    "poisson": POISSON,
    "balls in bins": THROWN,
    "spread": SPREAD,
    "shuffled": SHUFFLED,
    "fixed batches": FIXED,
    "in order": ORDER,
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_true_claim_stands(name):
    for seed in range(5):
        result = held_against(name, RIGHT[name], seed, epochs=60)
        assert not result.contradicted, str(result)


WRONG = [
    *((name, POISSON) for name in sources(0) if name != "poisson"),
    *((name, THROWN) for name in sources(0) if name not in ("balls in bins",)),
    *((name, SPREAD) for name in sources(0) if name not in ("spread",)),
    *((name, SHUFFLED) for name in sources(0) if name not in ("shuffled",)),
    *((name, FIXED) for name in sources(0) if name not in ("fixed batches",)),
    # Whatever visits nobody twice in an epoch, in batches no larger, is covered by the law of a fixed order.
    *((name, ORDER) for name in sources(0) if name in ("poisson", "balls in bins", "with replacement", "weighted")),
]


@pytest.mark.parametrize(("name", "claim"), WRONG, ids=[f"{name} as {claim.name}" for name, claim in WRONG])
def test_a_false_claim_is_contradicted(name, claim):
    assert held_against(name, claim).contradicted


@pytest.mark.parametrize(("count", "trials", "chance"), [(0, 10, 0.3), (10, 10, 0.3), (4, 10, 0.3), (70, 1000, 0.1)])
def test_p_values_are_twice_the_smaller_tail(count, trials, chance):
    law = stats.binom(trials, chance)
    expected = min(1.0, 2 * min(law.cdf(count), law.sf(count - 1)))
    assert binomial("x", count, trials, chance).p_value == pytest.approx(expected, rel=1e-5)


def test_a_family_pays_for_its_size():
    alone = binomial("x", 30, 100, 0.1).p_value
    assert binomial("x", [30, 10, 11, 9], 100, 0.1).p_value == pytest.approx(4 * alone)


@pytest.mark.parametrize(("value", "named"), [(6, "exactly 6"), (60, f"at most {stats.binom.ppf(0.98, 60, 0.1):.0f}")])
def test_a_finding_names_the_value_that_it_counts(value, named):
    found = quantile_counts("Batches with {} examples", np.full(500, value), binomial_law(60, 0.1))
    assert found.what.startswith(f"Batches with {named} examples: ")


def test_laws_are_scipys():
    assert binomial_law(30, 0.2) == pytest.approx(stats.binom.pmf(np.arange(31), 30, 0.2))
    assert hypergeometric_law(6, 60) == pytest.approx(stats.hypergeom.pmf(np.arange(7), 60, 6, 6))
    assert hypergeometric_law(5, 8) == pytest.approx(stats.hypergeom.pmf(np.arange(6), 8, 5, 5))


def test_the_false_alarm_rate_is_kept():
    """400 true logs at a rate of 5 %: more than 45 alarms have a probability below 1e-5 if the rate is kept."""
    generator = np.random.default_rng(3)
    alarms = 0
    for _ in range(400):
        values = generator.binomial(60, 0.1, size=100)
        alarms += quantile_counts("x", values, binomial_law(60, 0.1)).p_value < 0.05
    assert alarms <= 45


def test_what_has_no_test_is_refused():
    for sampling in (
        groupdp.ShuffledOnceSampling(batch_size=6, dataset_size=SIZE),
        groupdp.AllocationSampling(batches=10, participations=2),
    ):
        with pytest.raises(groupdp.InvalidArgument) as refused:
            steps_of_epoch(sampling, SIZE)
        assert refused.value.argument == "sampling"


def write_log(path, name, *, seed=1, epochs=60, **columns):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["step", "index", *columns])
        for epoch in range(epochs):
            for step, batch in enumerate(sources_of(path, seed)[name]()):
                for index in np.asarray(batch).tolist():
                    number = step if "epoch" in columns else epoch * 10 + step
                    extra = {"epoch": epoch, "person": f"p{OWNERS[index]}"}
                    writer.writerow([number, index, *(extra[one] for one in columns)])


_KEPT: dict = {}


def sources_of(path, seed):
    return _KEPT.setdefault((path, seed), sources(seed))


CLAIMS = {
    "poisson": "--sampling poisson --sampling-rate 1/10",
    "balls in bins": "--sampling balls-in-bins --batches 10",
    "spread": "--sampling spread --batches 10",
    "shuffled": "--sampling shuffled --batch-size 6",
    "fixed batches": "--sampling fixed-batch --batch-size 6",
    "in order": "--sampling fixed-order --batch-size 6",
}


@pytest.mark.parametrize("columns", [{}, {"epoch": 1}], ids=["global steps", "epochs"])
@pytest.mark.parametrize("name", CLAIMS)
def test_the_doctor_reads_a_log(tmp_path, name, columns):
    write_log(tmp_path / "log.csv", name, **columns, person=1)
    log = f"{tmp_path / 'log.csv'}"
    answer = command(f"doctor '{log}' {CLAIMS[name]} --dataset-size {SIZE} --json").json
    assert answer["contradicted"] is False
    assert answer["epochs"] == 60
    other = CLAIMS["shuffled" if name == "poisson" else "poisson"]
    wrong = command(f"doctor '{log}' {other} --dataset-size {SIZE}")
    assert wrong.status == 1
    assert "contradict" in wrong.output


def test_the_doctor_reads_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    shuffled = sources(1)["shuffled"]
    drawn = drawn_from((shuffled() for _ in range(40)), steps=10, dataset_size=SIZE)
    table = pyarrow.table({"step": drawn.rounds, "index": drawn.index})
    parquet.write_table(table, tmp_path / "log.parquet")
    log = f"doctor '{tmp_path / 'log.parquet'}' --dataset-size {SIZE}"
    assert command(f"{log} {CLAIMS['shuffled']}").status == 0
    assert command(f"{log} {CLAIMS['poisson']}").status == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--sampling poisson", "sampling_rate"),
        ("--sampling nothing --sampling-rate 0.1", "sampling"),
        ("--sampling poisson --sampling-rate 0.1 --batches 3", "batches"),
        ("--sampling spread --batches 10", "people"),
        ("--sampling poisson --sampling-rate 2", "rate"),
        ("--sampling poisson --sampling-rate 0.001", "whole epochs"),
        ("--sampling poisson --sampling-rate 0.1 --false-alarm 0", "false_alarm"),
    ],
)
def test_the_doctor_refuses_in_one_sentence(tmp_path, options, words):
    write_log(tmp_path / "log.csv", "poisson")
    assert_one_sentence(command(f"doctor '{tmp_path / 'log.csv'}' {options} --dataset-size {SIZE}"), words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("step,wrong\n1,2\n", "index"),
        ("step,index\n1,x\n", "integer"),
        ("step,index\n", "row"),
        ("step,index\n-1,2\n", "step"),
        ("step,index,person\n0,2,\n1,3,a\n", "person"),
    ],
)
def test_a_log_that_is_none_is_refused_in_one_sentence(tmp_path, text, words):
    (tmp_path / "log.csv").write_text(text, encoding="utf-8")
    line = f"doctor '{tmp_path / 'log.csv'}' --sampling poisson --sampling-rate 0.1 --dataset-size 10"
    assert_one_sentence(command(line), words)


def test_an_index_outside_of_the_dataset_contradicts_every_claim(tmp_path):
    write_log(tmp_path / "log.csv", "shuffled")
    wrong = command(f"doctor '{tmp_path / 'log.csv'}' --sampling poisson --sampling-rate 0.1 --dataset-size 59")
    assert wrong.status == 1
