"""The number that orders a person's examples: fixed values, no ambiguity, the same in SQL."""

from __future__ import annotations

import uuid

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupdp.data.choice import literal, priority, priority_sql
from groupdp.data.duckdb_engine import Engine
from refusals import refused

TEXTS = st.one_of(st.text(max_size=12), st.text("0123456789:-", max_size=6)).filter(lambda text: "\x00" not in text)


def test_the_numbers_never_change():
    """By another program: printf '4:seed5:alice2:17' | md5sum, whose bytes are read from the last to the first."""
    assert priority("seed", "alice", 17) == int.from_bytes(
        bytes.fromhex("cab4d8c49010aa3feb1f83ad7d9f07d4")[::-1], "big"
    )


@given(one=st.lists(st.none() | TEXTS, max_size=4), other=st.lists(st.none() | TEXTS, max_size=4))
def test_different_fields_have_different_numbers(one, other):
    assert (priority("s", "", *one) == priority("s", "", *other)) == (one == other)


@pytest.mark.parametrize(
    ("value", "text"), [(np.int64(-7), "-7"), (uuid.UUID(int=5), str(uuid.UUID(int=5))), (2**63, str(2**63))]
)
def test_identifiers_are_their_text(value, text):
    assert priority("s", value, 1) == priority("s", text, "1")


@pytest.mark.parametrize("value", [1.0, True, b"x", [1]])
def test_values_without_one_text_are_refused(value):
    with refused("identifiers"):
        priority("s", value, 1)


@given(rows=st.lists(st.tuples(TEXTS, TEXTS, st.none() | TEXTS), min_size=1, max_size=20), seed=TEXTS)
def test_sql_gives_the_same_numbers(rows, seed, engine):
    values = ", ".join(
        "(" + ", ".join("NULL" if value is None else literal(value) for value in row) + ")" for row in rows
    )
    sql = f"SELECT CAST({priority_sql(seed, ['a', 'b', 'c'])} AS VARCHAR) FROM (VALUES {values}) t(a, b, c)"
    assert sorted(int(row[0]) for row in engine.connection.execute(sql).fetchall()) == sorted(
        priority(seed, *row) for row in rows
    )


@pytest.fixture(scope="module")
def engine():
    with Engine(threads=1) as opened:
        yield opened
