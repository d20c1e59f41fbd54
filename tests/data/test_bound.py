"""At most k examples of each person: the rows of the plain-Python reference, whatever the order and the files."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from pathlib import Path

import polars
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from data import reference
from groupdp.data import bound, priority
from refusals import refused
from strategies import examples

USERS = st.sampled_from(["a", "b", "7", "007", "Zoë", "x:1", "a b"])


def rows_of(table) -> Counter:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def table_of(rows):
    columns = list(zip(*rows, strict=True))
    return pyarrow.table({name: list(column) for name, column in zip(("who", "key", "word"), columns, strict=False)})


def some_rows(people: int = 12, rows: int = 200) -> list[tuple[str, int, str]]:
    rng = random.Random(5)
    return [(f"p{int(people * rng.random() ** 2)}", i, rng.choice(["red", "green"])) for i in range(rows)]


@examples(20)
@given(users=st.lists(USERS, min_size=1, max_size=40), at_most=st.integers(1, 6), seed=st.text("ab'é", max_size=3))
def test_the_rows_kept_are_those_of_the_definition(users, at_most, seed):
    rows = [(user, key) for key, user in enumerate(users)]
    found = bound(table_of(rows), by="who", key="key", at_most=at_most, seed=seed)
    assert rows_of(found.table) == reference.kept(rows, at_most, seed, key=1)
    assert found.digest == reference.digest(list(rows_of(found.table).elements()), key=1)
    assert found.kept == sum(min(at_most, n) for n in Counter(users).values())
    assert found.largest_kept == min(at_most, found.largest)


@examples(20)
@given(
    rows=st.lists(st.tuples(USERS, st.integers(0, 2), st.none() | st.sampled_from("xy")), min_size=1, max_size=40),
    at_most=st.integers(1, 4),
)
def test_without_a_key_the_rows_themselves_decide_and_copies_are_told_apart(rows, at_most):
    table = pyarrow.table(
        {
            "who": [row[0] for row in rows],
            "key": [row[1] for row in rows],
            "word": pyarrow.array([row[2] for row in rows], pyarrow.string()),
        }
    )
    found = bound(table, by="who", at_most=at_most, seed="s")
    assert rows_of(found.table) == reference.kept(rows, at_most, "s")
    assert found.digest == reference.digest(list(rows_of(found.table).elements()))


def test_order_files_formats_and_tables_do_not_matter(tmp_path: Path):
    rows = some_rows()
    expected = reference.kept(rows, 5, "s", key=1)
    shuffled = rows[:]
    random.Random(1).shuffle(shuffled)
    table, mixed = table_of(rows), table_of(shuffled)
    (tmp_path / "parts").mkdir()
    for place in range(3):
        pyarrow.parquet.write_table(mixed.slice(70 * place, 70), tmp_path / "parts" / f"{place}.parquet")
    pyarrow.csv.write_csv(mixed, tmp_path / "one.csv")
    with gzip.open(tmp_path / "two.csv.gz", "wt", newline="") as file:
        file.write("\ufeffwho;key;word\r\n" + "".join(f"{a};{b};{c}\r\n" for a, b, c in rows))
    (tmp_path / "rows.jsonl").write_text(
        "".join(f'{{"who": "{a}", "key": {b}, "word": "{c}"}}\n' for a, b, c in shuffled)
    )
    sources = [
        table,
        mixed,
        mixed.to_pandas(),
        polars.from_arrow(mixed),
        polars.from_arrow(mixed).lazy(),
        tmp_path / "parts",
        str(tmp_path / "parts" / "*.parquet"),
        tmp_path / "one.csv",
        tmp_path / "two.csv.gz",
        tmp_path / "rows.jsonl",
    ]
    digests = set()
    for source in sources:
        found = bound(source, by="who", key="key", at_most=5, seed="s")
        kept = {(who, int(key)) for who, key, _ in rows_of(found.table)}
        assert kept == {(who, key) for who, key, _ in expected}
        digests.add(found.digest)
    assert digests == {reference.digest(list(expected.elements()), key=1)}


def test_a_duckdb_relation_is_a_source():
    import duckdb

    rows = some_rows()
    connection = duckdb.connect()
    connection.register("rows", table_of(rows))
    found = bound(connection.sql("SELECT * FROM rows WHERE who <> 'p0'"), by="who", key="key", at_most=2)
    assert rows_of(found.table) == reference.kept([row for row in rows if row[0] != "p0"], 2, "0", key=1)


def test_nobody_s_choice_depends_on_the_rows_of_others():
    rows = some_rows()
    alone = bound(table_of([row for row in rows if row[0] == "p1"]), by="who", key="key", at_most=3, seed="s")
    among = bound(table_of(rows), by="who", key="key", at_most=3, seed="s")
    assert rows_of(alone.table) == Counter({row: n for row, n in rows_of(among.table).items() if row[0] == "p1"})


def test_the_choice_is_uniform_over_seeds():
    """3 of 10 examples, 4000 seeds: by the definition alone, which the engines reproduce (the tests above)."""
    times = Counter()
    for seed in range(4000):
        times.update(sorted(range(10), key=lambda key: priority(str(seed), "user", key))[:3])
    statistic = chisquare([times[key] for key in range(10)])
    # Three are drawn without replacement, which makes the statistic 7/9 of a chi-squared variable: conservative.
    assert statistic.pvalue > 1e-4


def test_pairs_are_chosen_uniformly_by_the_engine_too():
    """One table with 3000 people of 5 examples, alike but for their name: every pair is kept about equally often."""
    rows = [(f"u{person}", key, "w") for person in range(3000) for key in range(5)]
    pairs = Counter()
    mine: dict[str, list[int]] = {}
    for who, key, _ in rows_of(bound(table_of(rows), by="who", key="key", at_most=2, seed="s").table):
        mine.setdefault(who, []).append(key)
    pairs.update(tuple(sorted(keys)) for keys in mine.values())
    assert len(pairs) == 10
    assert chisquare(list(pairs.values())).pvalue > 1e-4


def test_caps_per_source():
    rows = some_rows()
    caps = {"red": 2, "green": 0}
    found = bound(table_of(rows), by="who", key="key", at_most=caps, per="word", seed="s")
    expected = reference.kept([row for row in rows if row[2] == "red"], 2, "s", key=1)
    assert rows_of(found.table) == expected
    both = bound(table_of(rows), by="who", key="key", at_most=3, per="word", seed="s")
    halves = [reference.kept([row for row in rows if row[2] == word], 3, "s", key=1) for word in caps]
    assert rows_of(both.table) == halves[0] + halves[1]
    content = bound(table_of(rows), by="who", at_most={"red": 1, "green": 2}, per="word")
    counts = Counter((who, word) for who, _, word in rows_of(content.table).elements())
    assert all(n <= (1 if word == "red" else 2) for (_, word), n in counts.items())
    with refused("at_most", value="none for 'green'"):
        bound(table_of(rows), by="who", key="key", at_most={"red": 1}, per="word")


def test_columns_named_like_our_own_do_no_harm():
    rows = some_rows()
    table = table_of(rows)
    for names in (["g0", "h", "n"], ["n", "place", "repeated"], ["people", "crowded", "c"], ['"', "a'b", "ü"]):
        renamed = table.rename_columns(names)
        found = bound(renamed, by=names[0], key=names[1], at_most=5, seed="s")
        assert rows_of(found.table) == reference.kept(rows, 5, "s", key=1)


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"key": "word"}, "key"),
        ({"by": "nobody"}, "column"),
        ({"key": "nothing"}, "column"),
        ({"at_most": 0}, "at_most"),
        ({"at_most": {"red": 1}}, "at_most"),
        ({"seed": 1.5}, "seed"),
        ({"seed": "a\x00"}, "a name, path or seed"),
        ({"memory": 1000}, "memory"),
        ({"out": "rows.xlsx"}, "out"),
    ],
)
def test_bad_questions_get_a_sentence(change, argument):
    question = {"by": "who", "key": "key", "at_most": 2, "seed": "s"}
    with refused(argument):
        bound(table_of(some_rows()), **{**question, **change})


@pytest.mark.parametrize(
    ("values", "got"),
    [
        ([1.0, 2.0], "DOUBLE"),
        ([None, "a"], "1 row without it, row 1"),
        (["", "a"], "1 row without it, row 1"),
        (["a", "a "], "a "),
        ([b"a", b"b"], "BLOB"),
    ],
)
def test_bad_identifiers_get_a_sentence(values, got):
    with refused("'who'", value=got):
        bound(pyarrow.table({"who": values, "key": [1, 2]}), by="who", key="key", at_most=1)


def test_content_that_has_no_single_text_needs_a_key():
    table = pyarrow.table({"who": ["a", "a"], "x": [1.5, 2.5]})
    with refused("'x'", value="DOUBLE"):
        bound(table, by="who", at_most=1)
