"""On a cluster of two workers the identical rows are chosen, also when a worker dies in the middle."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from data import reference
from groupdp.data import bound, count
from refusals import refused

pytestmark = pytest.mark.filterwarnings("ignore")  # of other packages, at the start and the end of a cluster


def started(*, processes: bool):
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=processes, dashboard_address=":0") as running,
        Client(running) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def cluster():
    """Two workers in this process, which start at once."""
    yield from started(processes=False)


@pytest.fixture
def processes():
    """Two workers with processes of their own, which take seconds to start."""
    yield from started(processes=True)


@pytest.fixture(scope="module")
def rows() -> list[tuple[str, int]]:
    rng = random.Random(3)
    return [(f"p{int(60 * rng.random() ** 2)}", key) for key in range(3000)]


@pytest.fixture(scope="module")
def folder(rows, tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("rows")
    mixed = rows[:]
    random.Random(4).shuffle(mixed)
    for part in range(6):
        mine = mixed[500 * part : 500 * part + 500]
        table = pyarrow.table({"who": [who for who, _ in mine], "key": [key for _, key in mine]})
        pyarrow.parquet.write_table(table, place / f"{part}.parquet")
    return place


def test_the_same_rows_as_on_one_machine(cluster, rows, folder, tmp_path):
    import dask.dataframe

    alone = bound(folder, by="who", key="key", at_most=5, seed="s")
    out = tmp_path / "out.parquet"
    by_address = bound(folder, by="who", key="key", at_most=5, seed="s", out=out, client=cluster.scheduler.address)
    frame = dask.dataframe.read_parquet(folder)
    in_frame = bound(frame, by="who", key="key", at_most=5, seed="s")  # the client that is running
    assert alone.as_json() == by_address.as_json() == in_frame.as_json()
    expected = reference.kept(rows, 5, "s", key=1)
    for table in (alone.table, pyarrow.parquet.read_table(out), pyarrow.Table.from_pandas(in_frame.table.compute())):
        assert Counter(zip(table["who"].to_pylist(), table["key"].to_pylist(), strict=True)) == expected
    assert count(folder, by="who", client=cluster).people_with.tolist() == count(folder, by="who").people_with.tolist()


def test_without_a_key_too(cluster, rows, folder):
    alike = pyarrow.table({"who": [who for who, _ in rows], "word": [str(key % 3) for _, key in rows]})
    import dask.dataframe

    frame = dask.dataframe.from_pandas(alike.to_pandas(), npartitions=4)
    alone, spread = (bound(source, by="who", at_most=5, seed="s") for source in (alike, frame))
    assert alone.as_json() == spread.as_json()


def test_what_one_machine_refuses_the_cluster_refuses(cluster, folder, tmp_path):
    with refused("column"):
        count(folder, by="nobody", client=cluster)
    pyarrow.parquet.write_table(pyarrow.table({"who": ["a"] * 4, "key": [1, 1, 1, 1]}), tmp_path / "a.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"who": ["a"] * 2, "key": [1, 2]}), tmp_path / "b.parquet")
    for client in (None, cluster):
        with refused("key"):
            bound(tmp_path, by="who", key="key", at_most=2, client=client)
    with refused("files"):
        count("-", by="who", client=cluster)


@pytest.mark.whole
def test_a_worker_that_dies_in_the_middle_changes_nothing(processes, folder):
    """Killed while the tasks run; the nanny starts another, and lost results are computed again."""
    alone = bound(folder, by="who", key="key", at_most=5, seed="s")
    victim = next(iter(processes.run(os.getpid).values()))
    killed, over = [], threading.Event()

    def kill() -> None:
        while not (over.is_set() or any(processes.has_what().values())):  # until something has been computed
            time.sleep(0.01)
        os.kill(victim, signal.SIGKILL)
        killed.append(victim)

    killer = threading.Thread(target=kill)
    killer.start()
    found = bound(folder, by="who", key="key", at_most=5, seed="s", client=processes)
    over.set()
    killer.join()
    assert killed
    assert found.as_json() == alone.as_json()
    assert Counter(found.table.compute()["who"]) == Counter(alone.table["who"].to_pylist())


def test_people_who_look_alike_are_counted_across_partitions(cluster, tmp_path):
    for number, user in enumerate(["zoe k", "zoe\u00a0k", "zoe\u200b k", "zoe"]):
        (tmp_path / f"{number}.csv").write_text(f"u,k\r\n{user},1\n{user},2\n")  # line ends mixed, too
    assert count(tmp_path, by="u", client=cluster).alike == 3
    found = bound(tmp_path, by="u", key="k", at_most=1, client=cluster, out=tmp_path / "kept.parquet")
    assert (found.alike, found.kept) == (3, 4)
