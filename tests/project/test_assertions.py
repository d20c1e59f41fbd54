"""`python -O` removes assert statements: the package has none, and answers the same without them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import groupdp

PACKAGE = Path(groupdp.__file__).resolve().parent

QUESTIONS = """
import groupdp
from groupdp import pairs
run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=2000)
few = groupdp.DPSGD(sampling=groupdp.FixedBatchSampling(batch_size=20, dataset_size=999), noise_multiplier=1, steps=4)
answers = [groupdp.epsilon(run, delta=1e-6, group_size=9), groupdp.delta(run, epsilon=2.0, group_size=2)]
answers += [groupdp.epsilon(few, delta=1e-5, group_size=2), groupdp.delta(few, epsilon=0.5, group_size=1)]
print(*(side.hex() for bounds in answers for side in (bounds.lower, bounds.upper)))
for wrong in (lambda: groupdp.Bounds(2.0, 1.0), lambda: pairs.Side([1.0, 0.0], ([0.5, 0.5], [-0.7, -0.7]))):
    try:
        print("accepted", wrong())
    except AssertionError:
        print("refused")
"""


def test_no_module_has_an_assert_statement():
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assert)
    ]
    assert not found, "raise an error that python -O keeps: " + ", ".join(found)


def test_answers_without_assertions_are_the_same():
    first, second = (
        subprocess.run([sys.executable, *options, "-c", QUESTIONS], capture_output=True, text=True, check=True).stdout
        for options in ([], ["-O"])
    )
    assert first == second
    assert first.splitlines()[1:] == ["refused", "refused"]
