"""Drops each charge of the certificate checker in turn, and shows that a test notices.

    python studies/mutations.py [--only C-13]

Every mutation is a change of one line of the checker or its laws that forgets an error, a condition or half of a bound,
so that a false claim could be verified. The tests of the inequalities are run against the changed copy; a mutation is
caught if one of them fails. Prints which test caught it; exit status 1 if fewer than nine in ten are caught.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ("envelope", "laws", "inequalities", "golden")

#: (inequality, file, what stands there, what replaces it, what that forgets)
MUTATIONS = (
    ("C-1", "laws", 'return always or (phase["sampling"]', 'return True or (phase["sampling"]', "which laws are tight"),
    ("C-2", "laws", "max(0, m - room)", "0", "the displaced examples"),
    ("C-3", "laws", "fmpq(size + 2 * pairs)", "fmpq(size + pairs)", "half of the pairs"),
    ("C-4", "checker", "normal(-j * unit - u)", "normal(-j * unit - u) / 2", "half of Q after one round"),
    ("C-4", "checker", "if a.degree() < 1 and", "if a.degree() < 2 and", "the branches with one shift"),
    ("C-5", "checker", "upper.upper()) + self.dropped).upper()", "upper.upper())).upper()", "dropped shifts of P"),
    ("C-6", "checker", "- left - right - self.raised", "- left - right", "dropped shifts of Q"),
    ("C-7", "checker", "(at.step * at.count) ** 2", "2 * (at.step * at.count) ** 2", "the decay of Gaussian rounds"),
    ("C-8", "checker", "error = tails + most * branch.error(at.c, at.step * j)", "error = tails", "the strip bound"),
    ("C-8", "checker", "s * self.strip * (self.x[1] + self.y[1])", "0", "the growth of the strip bound with s"),
    ("C-8", "checker", "- z * self.cosine.log()", "", "the cosine in the strip bound"),
    ("C-9", "checker", "error = tails + most *", "error = most *", "both tails of the quadrature"),
    ("C-9", "checker", "found[0] / left.expm1() + found[-1]", "found[-1]", "the left tail"),
    ("C-9", "checker", "+ found[-1] / right.expm1()", "", "the right tail"),
    ("C-10", "checker", "(sa_next + sb)", "(sa_next + sb) / 2", "half of the slope"),
    ("C-10", "lines", "x.sinc() if x < arb.pi() / 2 else 1 / x", "x.sinc() ** 2", "the envelope"),
    ("C-11", "checker", "return c * c.log() - (1 + c)", "return c * c.log() - 2 * (1 + c)", "Chernoff's constant"),
    ("C-12", "checker", ".real * (2 if j else 1)", ".real * 2", "that j = 0 counts once"),
    ("C-13", "checker", "((total + rest).upper()", "(total.upper()", "truncation, from above"),
    ("C-13", "checker", "total - rest - left", "total - left", "truncation, from below"),
    ("C-14", "checker", "- rest - left", "- rest", "left aliases"),
    ("C-15", "checker", "- left - right", "- left", "right aliases"),
    ("C-16", "checker", "if eps + period >= self.largest:", "if True:", "that losses may be unbounded"),
    ("C-16", "checker", "or arb(epsilon) >= largest_loss(parts)", "or arb(epsilon) >= 1", "the largest loss"),
    ("C-17", "checker", "if upper is not None and not all(", "if upper is not None and not any(", "all but one pair"),
    ("C-17", "checker", "if lower > 0 and not any(", "if False and not any(", "the lower side"),
    (
        "C-18",
        "envelope",
        "if not all(self.is_proved(piece) for piece in self.pieces)",
        "if False",
        "to prove active sets",
    ),
    ("C-19", "envelope", "return total + ball(beyond)", "return total", "the end of the envelope's integral"),
    ("C-19", "envelope", "+ (-z * log).exp()) * phi", ") * phi", "losses below zero"),
    ("C-20", "envelope", "* weight / slope", "* weight * 4 / slope", "a fourth of the envelope's density"),
)


def caught(name: str, old: str, new: str) -> str | None:
    """The first test that fails with `old` replaced by `new`; None if all pass."""
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        file = source / "groupdp" / "certificate" / f"{name}.py"
        text = file.read_text()
        if text.count(old) != 1:
            raise SystemExit(f"{name}.py must have {old!r} exactly once, it has it {text.count(old)} times.")
        file.write_text(text.replace(old, new))
        tests = [str(ROOT / "tests" / "certificate" / f"test_certificate_{test}.py") for test in TESTS]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        found = re.search(r"^(?:FAILED|ERROR) \S*::(\S+)", done.stdout, re.MULTILINE)
        if done.returncode not in (0, 1):
            raise SystemExit(f"the tests could not be run: {done.stdout}{done.stderr}")
        return found[1] if found else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="one inequality, such as C-13")
    only = parser.parse_args().only
    chosen = [mutation for mutation in MUTATIONS if only in (None, mutation[0])]
    number = 0
    for inequality, name, old, new, forgets in chosen:
        found = caught(name, old, new)
        number += found is not None
        print(f"{inequality:5} without {forgets}: {found or 'NOT NOTICED'}", flush=True)
    print(f"{number} of {len(chosen)} mutations are noticed.")
    return 0 if 10 * number >= 9 * len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
