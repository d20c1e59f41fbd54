"""Make .venv-bench, the peers' environment, unless the same requirements are installed there already.

A peer that does not install is left out: the benchmark then reports that it is not available.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parent / ".venv-bench"
#: Each file is installed by itself, so that one that fails does not take others with it.
REQUIREMENTS = (
    "requirements.txt",
    "requirements-allocation.txt",
    "requirements-autodp.txt",
    "requirements-opacus.txt",
    "requirements-jax.txt",
)


def main() -> None:
    stamp = FOLDER / "installed.txt"
    wanted = "".join((HERE / name).read_text() for name in REQUIREMENTS)
    if stamp.exists() and stamp.read_text() == wanted:
        return
    venv.create(FOLDER, with_pip=True)
    pip = [str(FOLDER / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for name in REQUIREMENTS:
        print(f"installing {name}", flush=True)
        if subprocess.run([*pip, "--requirement", str(HERE / name)], check=False).returncode != 0:
            print(f"{name} does not install here: reported as not available", file=sys.stderr, flush=True)
    stamp.write_text(wanted)


if __name__ == "__main__":
    main()
