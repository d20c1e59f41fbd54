"""The whole story of the tutorial on a table of two million rows: eight commands, no number typed twice.

    .venv/bin/python studies/story.py

Prints the seconds of each command and fails if one of them does, or if the statement lacks what the manifest says.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet

from groupdp.data.manifest import read_manifest

ROOT = Path(__file__).resolve().parents[1]
ROWS = 2_000_000
#: What is larger here than in the tutorial.
LARGER = {
    "examples/rows.csv": "rows.parquet",
    "bounded.csv": "bounded.parquet",
    "--batch-size 50": "--batch-size 4096",
    "--delta 1e-3": "--delta 1e-7",
}


def main() -> None:
    story = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8").partition("## Part two")[2]
    commands = [line.removeprefix("$ groupdp ") for line in story.splitlines() if line.startswith("$ groupdp ")]
    assert len(commands) <= 8
    random = np.random.default_rng(5)
    people = np.minimum(random.pareto(1.2, ROWS) * 30_000, 200_000).astype(np.int64)
    with tempfile.TemporaryDirectory() as folder:
        rows = pyarrow.table({"user_id": people, "example_id": np.arange(ROWS)})
        pyarrow.parquet.write_table(rows, Path(folder) / "rows.parquet")
        for command in commands:
            for small, large in LARGER.items():
                command = command.replace(small, large)
            started = time.perf_counter()
            program = Path(sys.executable).with_name("groupdp")
            subprocess.run([program, *command.split()], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            print(f"{time.perf_counter() - started:6.1f} s  groupdp {command}")
        manifest = read_manifest(Path(folder) / "bounded.parquet")
        text = (Path(folder) / "statement.md").read_text(encoding="utf-8")
        for known in (manifest.sha256, str(manifest.digest), f"the seed '{manifest.seed}'", "Verified independently"):
            assert known in text, known


if __name__ == "__main__":
    main()
