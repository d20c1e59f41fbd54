"""Runs the tests where they are seldom run. `make test-pythons` and `make test-configurations` call it.

`pythons` runs the tests of this directory under each supported Python that is found, each in an environment of its own.
`clones` runs `make test` in fresh clones of what is committed, in the configurations below. What could not be tried is
said, and what fails is listed at the end.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ("3.11", "3.12", "3.13")
#: The user who is not root: made if it is missing, which only root can do.
USER = "groupdp-tests"
#: What NumPy may choose at run time on this processor, beyond what it was compiled for.
DISPATCHED = """
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
print(" ".join(name for name in __cpu_dispatch__ if __cpu_features__.get(name)))
"""


@dataclass(frozen=True)
class Configuration:
    """One way to run the tests of a clone."""

    version: str
    folder: str
    environment: dict[str, str]
    other_user: bool = False
    no_dispatch: bool = False

    def __str__(self) -> str:
        said = [f"Python {self.version}", f"in {self.folder!r}", *(f"{k}={v}" for k, v in self.environment.items())]
        said += ["another user"] * self.other_user + ["without NumPy's dispatched instructions"] * self.no_dispatch
        return ", ".join(said)


CONFIGURATIONS = (
    Configuration("3.11", "plain", {}, no_dispatch=True),
    Configuration("3.12", "a path with spaces", {"HOME": "/nonexistent"}, other_user=True),
    Configuration("3.13", "plain", {"LC_ALL": "C"}),
)


def _number(interpreter: Path) -> list[int]:
    """[3, 11, 10] of versions/3.11.10/bin/python3, which is newer than 3.11.9."""
    return [int(part) for part in re.findall(r"\d+", interpreter.parts[-3])]


def python_of(version: str) -> Path | None:
    """The interpreter of this version: pyenv's, or the one on the path."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    newest = sorted(pyenv.glob(f"{version}.*/bin/python3"), key=_number)[-1:]
    if newest:
        return newest[0]
    on_path = shutil.which(f"python{version}")
    return Path(on_path) if on_path else None


def run(*command: str | Path, cwd: Path = ROOT, environment: dict[str, str] | None = None) -> bool:
    """Whether the command succeeds; its output is shown."""
    print("$", *command, flush=True)
    return subprocess.run(command, cwd=cwd, env={**os.environ, **(environment or {})}, check=False).returncode == 0


def pythons() -> list[str]:
    """The tests of this directory under every version; the names of those that fail."""
    failed = []
    for version in VERSIONS:
        interpreter = python_of(version)
        if interpreter is None:
            print(f"Python {version} is not found, neither on the path nor in pyenv: not tested.")
            continue
        place = f".venv-{version}"
        made = run("make", f"VENV={place}", f"PYTHON={interpreter}", f"{place}/.installed")
        if not (made and run(f"{place}/bin/python", "-m", "pytest", "-n", "2")):
            failed.append(f"Python {version}")
    return failed


def clones() -> list[str]:
    """`make test` of a fresh clone in every configuration; those that fail."""
    failed = []
    for configuration in CONFIGURATIONS:
        interpreter = python_of(configuration.version)
        if interpreter is None:
            print(f"Python {configuration.version} is not found: not tested ({configuration}).")
        elif configuration.other_user and os.getuid() != 0:
            print(f"Only root can become another user: not tested ({configuration}).")
        else:
            print(f"\n{configuration}", flush=True)
            with tempfile.TemporaryDirectory() as scratch:
                if not _try_out(configuration, interpreter, Path(scratch)):
                    failed.append(str(configuration))
    return failed


def _try_out(configuration: Configuration, interpreter: Path, scratch: Path) -> bool:
    clone = scratch / configuration.folder
    environment = dict(configuration.environment)
    if not run("git", "clone", "--quiet", "--no-hardlinks", ROOT, clone):
        return False
    if configuration.other_user:
        interpreter = _hand_over(scratch, interpreter)
        environment["LD_LIBRARY_PATH"] = str(interpreter.parents[1] / "lib")  # of a copy, its own library
    if configuration.no_dispatch:
        if not run("make", f"PYTHON={interpreter}", ".venv/.installed", cwd=clone):
            return False
        command = [str(clone / ".venv/bin/python"), "-c", DISPATCHED]
        names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        print(f"NPY_DISABLE_CPU_FEATURES={names}", flush=True)
        environment["NPY_DISABLE_CPU_FEATURES"] = names
    as_user = ["runuser", "-u", USER, "--"] if configuration.other_user else []
    return run(*as_user, "make", "test", f"PYTHON={interpreter}", cwd=clone, environment=environment)


def _hand_over(scratch: Path, interpreter: Path) -> Path:
    """Gives the folder to the other user, with a copy of an interpreter that lies where that user cannot read."""
    try:
        pwd.getpwnam(USER)
    except KeyError:
        subprocess.run(["useradd", "--no-create-home", USER], check=True)
    readable = subprocess.run(["runuser", "-u", USER, "--", interpreter, "-c", ""], capture_output=True, check=False)
    if readable.returncode != 0:
        installed = interpreter.parents[1]
        shutil.copytree(installed, scratch / "python", symlinks=True)
        interpreter = scratch / "python/bin" / interpreter.name
    subprocess.run(["chown", "-R", USER, scratch], check=True)
    return interpreter


def main() -> None:
    kinds: dict[str, Callable[[], list[str]]] = {"pythons": pythons, "clones": clones}
    failed = kinds[sys.argv[1]]()
    sys.exit("These fail:\n" + "\n".join(failed) if failed else None)


if __name__ == "__main__":
    main()
