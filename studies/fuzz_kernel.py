"""The kernel's C core under AddressSanitizer and UndefinedBehaviorSanitizer, on inputs that a fuzzer invents.

    python studies/fuzz_kernel.py [--runs 100000]

With clang: libFuzzer, guided by coverage. With another compiler: the same harness on random bytes. Every answer must
have its lower side at or below its upper one, and every refusal a reason (studies/fuzz_kernel.c). Exit status 1 at a
report, with the input that caused it in build/fuzz. A call may do 1/1000 of the usual work: many fit in an hour.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNEL = ROOT / "src/groupdp/engines/spectral/kernel"
BUILD = ROOT / "build" / "fuzz"
SANITIZERS = "address,undefined,float-cast-overflow"
FLAGS = ("-std=gnu11", "-O2", "-g", "-ffp-contract=off", "-fno-omit-frame-pointer", "-DLARGEST_WORK=6e5", f"-I{KERNEL}")


def built() -> tuple[Path, bool]:
    """The harness, and whether it is guided by coverage."""
    core = sorted(str(path) for path in KERNEL.glob("*.c") if not path.name.startswith("python_"))
    sources = [*core, str(Path(__file__).with_suffix(".c"))]
    BUILD.mkdir(parents=True, exist_ok=True)
    target = BUILD / "fuzz_kernel"
    clang, other = shutil.which("clang"), shutil.which("cc") or shutil.which("gcc")
    options = [f"-fsanitize={SANITIZERS}", "-fno-sanitize-recover=all"]
    if clang is not None:
        # Recording every comparison of doubles would take four fifths of the time.
        guided = [clang, *FLAGS, *options, "-fsanitize=fuzzer", "-fno-sanitize-coverage=trace-cmp", *sources]
        guided += ["-o", str(target), "-lm"]
        if subprocess.run(guided, capture_output=True, check=False).returncode == 0:
            return target, True
        print("clang has no libFuzzer here: random bytes instead.")
    if other is None:
        raise SystemExit("make fuzz needs clang, or another C compiler.")
    subprocess.run([other, *FLAGS, *options, "-DSTANDALONE", *sources, "-o", str(target), "-lm"], check=True)
    return target, False


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=100_000, help="inputs; each is one or two calls of the kernel")
    runs = parser.parse_args().runs
    target, guided = built()
    corpus = BUILD / "corpus"
    corpus.mkdir(exist_ok=True)
    command = [str(target), str(runs)]
    if guided:
        command = [str(target), f"-runs={runs}", "-seed=1", "-max_len=1024", "-len_control=0"]
        command += [
            "-rss_limit_mb=2048",
            "-verbosity=0",
            "-print_final_stats=1",
            f"-artifact_prefix={BUILD}/",
            str(corpus),
        ]
    return int(subprocess.run(command, check=False).returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
