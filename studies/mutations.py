"""Drops each charge of the certificate checker and of the compiled kernel in turn, and shows that a test notices.

    python studies/mutations.py [checker|kernel] [--only S-7]

Every mutation is a change of one line that forgets an error, a condition or half of a bound, so that a false number
could be called certified. The tests of the inequalities are run against a changed copy (of the kernel: compiled anew);
a mutation is caught if one of them fails. Those that cite its number are asked first, then all. Prints which test
caught it; exit status 1 if fewer than nine in ten are caught.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

import checker_mutations
import kernel_mutations
from mutation import Mutation

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
#: As in setup.py; less optimised, which changes no rounding.
FLAGS = ("-shared", "-fPIC", "-O1", "-std=gnu11", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")


class Checker:
    """The certificate checker, its mutations and the tests of C-1, C-2, ..."""

    folder = Path("groupdp/certificate/checker")
    mutations = checker_mutations.MUTATIONS
    tests = tuple(
        TESTS / "certificate" / f"test_certificate_{name}.py"
        for name in ("hidden", "envelope", "laws", "lattice", "noiseless", "inequalities", "golden")
    )

    def build(self, source: Path) -> None:
        """Nothing is compiled."""


class Kernel:
    """The compiled kernel, its mutations and the tests of S-1, S-2, ..."""

    folder = Path("groupdp/engines/spectral/kernel")
    mutations = kernel_mutations.MUTATIONS
    tests = tuple(
        TESTS / "engines" / "spectral" / f"test_{name}.py"
        for name in (
            "charges",
            "stated_errors",
            "branch_inequalities",
            "round_inequalities",
            "left_out",
            "contour",
            "kernel",
            "one_allocation_inequalities",
        )
    )

    def build(self, source: Path) -> None:
        """Compile the copy, in place of the module that was installed."""
        files = sorted(str(path) for path in (source / self.folder).glob("*.c"))
        target = (source / self.folder).parent / f"_kernel{sysconfig.get_config_var('EXT_SUFFIX')}"
        target.unlink(missing_ok=True)
        include = f"-I{sysconfig.get_path('include')}"
        subprocess.run(["cc", *FLAGS, include, *files, "-o", str(target), "-lm"], check=True)


def citing(tests: Sequence[Path], inequality: str) -> list[str]:
    """The tests that cite an inequality, as pytest names them."""
    found = []
    for path in tests:
        text = path.read_text()
        for one in ast.parse(text).body:
            if isinstance(one, ast.FunctionDef) and one.name.startswith("test_"):
                source = ast.get_source_segment(text, one) or ""
                if re.search(rf"\b{re.escape(inequality)}\b", source):
                    found.append(f"{path}::{one.name}")
    return found


def failing(source: Path, tests: Sequence[str]) -> str | None:
    """The first of these tests that fails."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--whole", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    found = re.search(r"^(?:FAILED|ERROR) \S*::(\S+)", done.stdout, re.MULTILINE)
    if done.returncode not in (0, 1):  # passed, failed
        raise SystemExit(f"the tests could not be run: {done.stdout}{done.stderr}")
    return found[1] if found else None


def caught(of: Checker | Kernel, mutation: Mutation | None) -> str | None:
    """The test that fails with the mutation, or as it stands; None if all pass."""
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        if mutation is not None:
            file = source / of.folder / mutation.file
            text = file.read_text()
            if text.count(mutation.old) != 1:
                times = text.count(mutation.old)
                raise SystemExit(f"{mutation.file} must have {mutation.old!r} exactly once, it has it {times} times.")
            file.write_text(text.replace(mutation.old, mutation.new))
        of.build(source)
        first = citing(of.tests, mutation.inequality) if mutation is not None else []
        return (failing(source, first) if first else None) or failing(source, list(map(str, of.tests)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("of", nargs="?", choices=("checker", "kernel"), help="both, if not given")
    parser.add_argument("--only", help="one inequality, such as C-13")
    options = parser.parse_args()
    number = asked = 0
    for name, of in {"checker": Checker(), "kernel": Kernel()}.items():
        chosen = [m for m in of.mutations if options.of in (None, name) and options.only in (None, m.inequality)]
        broken = caught(of, None) if chosen else None
        if broken is not None:
            raise SystemExit(f"without any mutation {broken} fails.")
        for mutation in chosen:
            found = caught(of, mutation)
            number, asked = number + (found is not None), asked + 1
            told = f"{mutation.inequality:5} without {mutation.forgets} ({mutation.file})"
            print(f"{told}: {found or 'NOT NOTICED'}", flush=True)
    print(f"{number} of {asked} mutations are noticed.")
    return 0 if 10 * number >= 9 * asked else 1


if __name__ == "__main__":
    sys.exit(main())
