"""The kernel's core is plain C11 and knows nothing of Python; without extensions it gives the same answers."""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess

import pytest

from paths import ROOT

KERNEL = ROOT / "src/groupdp/engines/spectral/kernel"
CORE = sorted(path for path in KERNEL.glob("*.c") if not path.name.startswith("python_"))
FLAGS = ["-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]

#: One question, asked of the core alone: 2000 rounds of Binom(1, 0.01) against nothing.
DRIVER = """
#include "spectral.h"
#include <math.h>

int ask(double log_delta, double *lower, double *upper)
{
    double shift[2] = {0.0, 1.0}, p[2] = {0.99, 0.01}, log_p[2] = {log(0.99), log(0.01)};
    double zero[1] = {0.0}, one[1] = {1.0};
    branch of = {.right = {2, shift, p, log_p}, .left = {1, zero, one, zero}, .weight = 1.0};
    round_law law = {.branches = 1, .branch = &of, .count = 2000.0};
    job work = {.question = EPSILON, .argument = log_delta, .rounds = 1, .whole = &law};
    workspace space;
    take(&space, NULL);
    int answered = solve(&space, &work);
    forget(release(&space));
    *lower = work.found.lower;
    *upper = work.found.upper;
    return answered;
}

/* A law that sums to 0.74, past the gate: whether it is declined because its sides contradict each other. */
int ask_what_is_no_law(void)
{
    double shift[2] = {0.0, 1.0}, p[2] = {0.70641, 0.02936}, log_p[2] = {log(0.70641), log(0.02936)};
    double q[2] = {0.63, 0.37}, log_q[2] = {log(0.63), log(0.37)};
    branch of = {.right = {2, shift, p, log_p, 0.25}, .left = {2, shift, q, log_q, 0.25}, .weight = 1.0};
    round_law law = {.branches = 1, .branch = &of, .count = 1000.0};
    job work = {.question = LOG_DELTA, .argument = 6.462, .rounds = 1, .whole = &law};
    workspace space;
    take(&space, NULL);
    int declined = !is_law(&of.right) && is_coin(&law) && solve(&space, &work) == 0 && space.reason == CONTRADICTION;
    forget(release(&space));
    return declined;
}
"""


def test_the_core_includes_neither_python_nor_anything_but_the_standard_library():
    for path in [*CORE, *(KERNEL / f"{name}.h" for name in ("arithmetic", "envelope", "spectral"))]:
        included = {line.split()[1] for line in path.read_text().splitlines() if line.startswith("#include")}
        allowed = {"<float.h>", "<math.h>", "<setjmp.h>", "<stddef.h>", "<stdlib.h>", "<string.h>", "<time.h>"}
        assert included <= allowed | {'"arithmetic.h"', '"envelope.h"', '"spectral.h"'}


@pytest.fixture
def compiler() -> str:
    found = shutil.which("cc") or shutil.which("gcc")
    return found or pytest.skip("no C compiler on this machine")


@pytest.mark.parametrize("define", [[], ["-DGROUPDP_PLAIN_C"]])
def test_the_core_is_c11_without_a_warning(compiler, define):
    command = [compiler, *FLAGS, *define, "-fsyntax-only", f"-I{KERNEL}", *map(str, CORE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.thinned(1000)
@pytest.mark.parametrize(("plain", "optimised"), [(True, "-O0"), (True, "-O1"), (False, "-O1")])
def test_the_core_compiles_as_c11_and_answers_the_same_without_extensions(compiler, plain, optimised, tmp_path):
    (tmp_path / "driver.c").write_text(DRIVER)
    library = tmp_path / "core.so"
    define = ["-DGROUPDP_PLAIN_C"] if plain else []
    sources = [*map(str, CORE), str(tmp_path / "driver.c")]
    command = [
        compiler,
        *FLAGS,
        *define,
        optimised,
        "-shared",
        "-fPIC",
        f"-I{KERNEL}",
        *sources,
        "-o",
        str(library),
        "-lm",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lower, upper = ctypes.c_double(), ctypes.c_double()
    core = ctypes.CDLL(str(library))
    core.ask.argtypes = [ctypes.c_double, ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_double)]
    assert core.ask(math.log(1e-6), ctypes.byref(lower), ctypes.byref(upper)) == 1
    assert lower.value <= 2.9552459109439306 <= upper.value
    assert upper.value - lower.value < 1e-11
    assert core.ask_what_is_no_law() == 1  # was answered with a lower side above the upper one
