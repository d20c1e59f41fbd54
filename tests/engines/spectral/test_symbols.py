"""No library in the same process can stand in for a function of the kernel."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest

from paths import ROOT

HEADER = ROOT / "src/groupdp/engines/spectral/kernel/spectral.h"

QUESTIONS = """
import ctypes, os, sys
if len(sys.argv) > 1:
    library = ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW | os.RTLD_GLOBAL)
    library.solve  # the library is there, with its own name
import groupdp
run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=2000)
epsilon = groupdp.epsilon(run, delta=1e-6, group_size=9)
delta = groupdp.delta(run, epsilon=2.5, group_size=1)
assert epsilon.provenance.engine == delta.provenance.engine == "spectral"
print(*(value.hex() for value in (epsilon.lower, epsilon.upper, delta.lower, delta.upper)))
"""


def asked(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", QUESTIONS, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no global symbols")
def test_a_library_with_the_names_of_the_kernel_changes_no_bit(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    names = re.findall(r"^[a-z][\w *]*?\b(\w+)\([^()]*\)?[^;{]*;", HEADER.read_text(), re.MULTILINE)
    assert {"solve", "release", "plan", "log_alias", "corrected", "build"} <= set(names)
    source, library = tmp_path / "names.c", tmp_path / "names.so"
    source.write_text("".join(f"double {name}(void) {{ return 0.0; }}\n" for name in names))
    command = [compiler, "-shared", "-fPIC", "-fno-builtin", "-w", str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    assert asked(str(library)) == asked()
