"""The compiled part: everything else about the package is in pyproject.toml.

Optional: where it cannot be built, the lattice engine answers instead, more slowly.
"""

import sys
from pathlib import Path

from setuptools import Extension, setup

KERNEL = Path("src/groupdp/engines/spectral/kernel")

WINDOWS = sys.platform == "win32"

# The error bounds assume that every operation is rounded on its own: no contraction, no reordering. errno and traps are
# not used, so that square roots and comparisons become plain instructions. The module's init is the only symbol that is
# visible (Python declares it so): no library in the same process can stand in for one of the kernel's functions.
FLAGS = (
    ["/O2", "/std:c11", "/fp:precise"]
    if WINDOWS
    else ["-O3", "-std=gnu11", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fvisibility=hidden"]
)
# ELF linkers bind what is left to the extension itself. On macOS and Windows that is how extensions are linked anyway.
LINK = [] if WINDOWS or sys.platform == "darwin" else ["-Wl,-Bsymbolic"]

setup(
    ext_modules=[
        Extension(
            "groupdp.engines.spectral._kernel",
            sources=sorted(path.as_posix() for path in KERNEL.glob("*.c")),
            depends=sorted(path.as_posix() for path in KERNEL.glob("*.h")),
            extra_compile_args=FLAGS,
            extra_link_args=LINK,
            libraries=[] if WINDOWS else ["m"],
            optional=True,
        )
    ]
)
