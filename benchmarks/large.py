"""Large inputs: the per-person view of 10^7 people, and a sweep on one and on two Dask workers.

    python benchmarks/large.py [--people 10000000] [--sweep] [--points 1000000]

Stores what it measured in results.json, and writes the report again. The sweeps take a quarter of an hour: without
--sweep the report keeps those measured last, with their date.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import report
import work

import groupdp
from groupdp.people import people_view
from groupdp.sweeps import Parts, finished_chunks, grid_of

HERE = Path(__file__).resolve().parent
SWEEP = "sweep to Parquet"


def people(number: int) -> dict[str, str]:
    """Seconds for the view of people whose numbers of examples are heavy-tailed; the least of three."""
    counts = np.minimum(np.random.default_rng(1).zipf(1.8, number), 10**6)
    run = groupdp.DPSGD(groupdp.PoissonSampling(rate=0.001), noise_multiplier=1.0, steps=2000)
    seconds = []
    for turn in range(3):
        begun = time.perf_counter()
        view = people_view(run, counts, delta=1e-6 * (1.0 + turn / 100.0))
        seconds.append(time.perf_counter() - begun)
    told = f"{min(seconds):.2f} s, {len(view.counts)} different counts"
    return {"what": "per-person view", "how": f"{number:.0e} people", "result": told}


def sweep(points: int, workers: int) -> dict[str, str]:
    """Points a second in either half, and the memory of the process that collects them."""
    from distributed import LocalCluster

    sizes = 50
    noises = [1.0 + 3.0 * place / (points // sizes) for place in range(points // sizes)]
    grid = grid_of(
        groupdp.DPSGD(groupdp.PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=2000),
        delta=1e-6,
        group_size=1,
        adjacency="add-or-remove",
        vary={"noise_multiplier": noises, "group_size": list(range(1, sizes + 1))},
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
    ):
        parts = Parts(str(Path(folder) / "grid.parquet"), grid)
        parts.begin()
        done = [(time.perf_counter(), 0)]
        for start, rows in finished_chunks(grid, scheduler=cluster.scheduler_address):
            parts.write(start, rows)
            done.append((time.perf_counter(), done[-1][1] + len(rows)))
        parts.assemble()
        seconds = time.perf_counter() - done[0][0]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    half = len(done) // 2
    first, last = _pace(done[: half + 1]), _pace(done[half:])
    told = f"{seconds:.0f} s; {first:.0f} points/s in the first half, {last:.0f} in the second; {memory:.0f} MB"
    return {"what": SWEEP, "how": f"{len(grid)} points, Dask workers: {workers}", "result": told}


def _pace(done: list[tuple[float, int]]) -> float:
    return (done[-1][1] - done[0][1]) / max(done[-1][0] - done[0][0], 1e-9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--people", type=int, default=10_000_000)
    parser.add_argument("--sweep", action="store_true", help="measure the sweeps, too")
    parser.add_argument("--points", type=int, default=1_000_000)
    arguments = parser.parse_args()
    file = HERE / "results.json"
    stored = json.loads(file.read_text())
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
    found: list[dict[str, str]] = []
    for workers in (0, 1, 2) if arguments.sweep else (0,):
        one = sweep(arguments.points, workers) if workers else people(arguments.people)
        one["how"] += f" (load {os.getloadavg()[0]:.0f})"
        one["at"] = now
        print(one, flush=True)
        found.append(one)
    if not arguments.sweep:
        found += [one for one in stored.get("large", []) if one["what"] == SWEEP]
    stored["large"] = found
    file.write_text(json.dumps(stored, indent=1) + "\n")
    report.write(stored, json.loads((HERE / "truth.json").read_text()), work.items(), report.FOLDER)


if __name__ == "__main__":
    main()
