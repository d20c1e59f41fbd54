"""The kernel's sources compiled with functions that show what its answers rest on; groupdp ships none of them.

    view.c        reads a composition, calls one function on it, cleans up
    inspection.c  the quantities inside of an answer, each with the bound that is claimed for it
    allocation_view.c  tables of random allocations, and the bound of each of their errors
    one_allocation_view.c  one round of one allocation
    envelope_view.c  envelopes: sums over nodes, decay, one round
    charges.c     those that whole answers cannot show: cells of a minorant, a root with what certifies it

`from kernel_inspect import kernel` compiles them, with the kernel's sources beside the imported `groupdp` (of a mutated
copy: the mutated ones), into build/kernel_inspect, once for each content. Several processes may do so at the same time.
The tests that need it are skipped where there are no C sources or no compiler: an installed wheel has neither. Where
groupdp is built both are there, and a failing compiler is an error.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType

import pytest

import groupdp

NAME = "kernel_inspect_compiled"
HERE = Path(__file__).resolve().parent
PACKAGE = Path(groupdp.__file__).resolve().parent
KERNEL = PACKAGE / "engines" / "spectral" / "kernel"
#: As in setup.py; less optimised, which changes no rounding. Coins may have lost branches, as inside of an answer.
FLAGS = (
    "-DBRANCHES_MAY_BE_LOST",
    "-fPIC",
    "-O1",
    "-std=gnu11",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
)
HIDDEN = "-fvisibility=hidden"


def compiler() -> list[str] | None:
    """The command that links an extension, as Python's own build had it; None if there is no such program."""
    for command in (sysconfig.get_config_var("LDSHARED"), "cc -shared", "gcc -shared", "clang -shared"):
        words = shlex.split(command or "")
        if words and shutil.which(words[0]):
            return words
    return None


def built(command: list[str]) -> Path:
    """The extension, compiled unless a file for the same sources, compiler and Python is there."""
    sources = sorted([*KERNEL.glob("*.c"), *HERE.glob("*.c")])
    digest = hashlib.sha256(repr((command, FLAGS, sysconfig.get_config_var("SOABI"))).encode())
    for path in [*sources, *sorted([*KERNEL.glob("*.h"), *HERE.glob("*.h")])]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    folder = PACKAGE.parents[1] / "build" / "kernel_inspect"
    target = folder / f"{digest.hexdigest()[:32]}{sysconfig.get_config_var('EXT_SUFFIX')}"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    include = [f"-I{KERNEL}", f"-I{sysconfig.get_path('include')}", f"-I{sysconfig.get_path('platinclude')}"]
    with tempfile.TemporaryDirectory(dir=folder) as place:
        fresh = Path(place) / target.name
        done = subprocess.run(
            [*command, *FLAGS, HIDDEN, *include, *map(str, sources), "-o", str(fresh), "-lm"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"the tests' view of the kernel does not compile:\n{done.stderr}")
        os.replace(fresh, target)  # whoever is second replaces a file by an equal one
    return target


def loaded() -> ModuleType:
    """The extension; the tests that ask are skipped where it cannot be compiled."""
    command = compiler()
    if not (KERNEL / "spectral.h").exists():
        pytest.skip("the kernel's C sources are not installed", allow_module_level=True)
    if command is None:
        pytest.skip("there is no C compiler on this machine", allow_module_level=True)
    path = str(built(command))
    spec = importlib.util.spec_from_loader(NAME, ExtensionFileLoader(NAME, path))
    if spec is None:
        raise ImportError(f"{path} is not an extension module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


kernel = loaded()
