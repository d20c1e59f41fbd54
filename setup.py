"""The compiled part: everything else about the package is in pyproject.toml.

Optional: where it cannot be built, the lattice engine answers instead, more slowly.
"""

import sys
from pathlib import Path

from setuptools import Extension, setup

KERNEL = Path("src/groupdp/engines/spectral/kernel")

# The error bounds assume that every operation is rounded on its own: no contraction, no reordering. errno and traps are
# not used, so that square roots and comparisons become plain instructions.
FLAGS = (
    ["/O2", "/std:c11", "/fp:precise"]
    if sys.platform == "win32"
    else ["-O3", "-std=gnu11", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
)

setup(
    ext_modules=[
        Extension(
            "groupdp.engines.spectral._kernel",
            sources=sorted(path.as_posix() for path in KERNEL.glob("*.c")),
            depends=sorted(path.as_posix() for path in KERNEL.glob("*.h")),
            extra_compile_args=FLAGS,
            libraries=[] if sys.platform == "win32" else ["m"],
            optional=True,
        )
    ]
)
