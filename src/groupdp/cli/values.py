"""Reading what was typed: numbers, group sizes, a run."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from groupdp._validation import LARGEST_DATASET, require_choice, require_integer, require_number, shown
from groupdp.adjacency import ADJACENCIES
from groupdp.errors import InvalidArgument

if TYPE_CHECKING:
    from groupdp.dpsgd import DPSGD

#: Longer texts are not numbers anybody means.
LONGEST_NUMBER = 100
#: Most points of one curve.
LARGEST_CURVE = 1000

_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{0,15})?)\s*([KMGT]?)B?", re.ASCII | re.IGNORECASE)
_BYTES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def read_number(name: str, text: str, **limits: float | None) -> float:
    """The finite number that `text` spells, within `limits` (those of `require_number`)."""
    return require_number(name, _finite(name, text), **limits)


def read_fraction(name: str, text: str, *, above: float) -> Fraction:
    """The exact decimal that `text` spells, for arithmetic that must not round."""
    require_number(name, _finite(name, text), above=above)
    return Fraction(text.strip())  # finite and not 0 as a double, so its exponent is small


def read_integer(name: str, text: str, *, at_least: int = 0, **limits: int) -> int:
    """The integer that `text` spells."""
    if len(text) > LONGEST_NUMBER or not _INTEGER.fullmatch(text.strip()):
        raise InvalidArgument(f"{name} must be an integer of at least {at_least}, got {shown(text)}.")
    return require_integer(name, int(text), at_least=at_least, **limits)


def read_memory(text: str) -> int:
    """The bytes that a size such as 512M, 1.5G or 64000000 spells; K, M, G and T are powers of a thousand."""
    from groupdp.engines.interface import SMALLEST_MEMORY

    found = _SIZE.fullmatch(text.strip()) if len(text) <= LONGEST_NUMBER else None
    size = int(Fraction(found[1]) * _BYTES[found[2].upper()]) if found else 0
    if size < SMALLEST_MEMORY:
        least = f"{SMALLEST_MEMORY // 10**6}M"
        raise InvalidArgument(f"memory must be a size of at least {least}, such as 512M or 2G, got {shown(text)}.")
    return size


def read_adjacency(text: str) -> str:
    """One of the three adjacencies."""
    return require_choice("adjacency", text, ADJACENCIES)


def read_group_sizes(text: str) -> list[int]:
    """The group sizes that `first:last`, `first:last:step` or a list `1,2,4` spells, in increasing order."""
    from groupdp.adjacency import LARGEST_GROUP

    sizes: Sequence[int] = ()
    if re.fullmatch(r"\d{1,9}:\d{1,9}(:\d{1,9})?", text, re.ASCII):
        first, last, *step = (int(part) for part in text.split(":"))
        if step != [0]:
            sizes = range(first, last + 1, *step)
    elif len(text) <= 100_000 and re.fullmatch(r"\d{1,9}(,\d{1,9})*", text, re.ASCII):
        sizes = sorted({int(part) for part in text.split(",")})
    if not sizes:
        raise InvalidArgument(f"group_sizes must look like 1:32, 1:32:4 or 1,2,4, got {shown(text)}.")
    if len(sizes) > LARGEST_CURVE:
        raise InvalidArgument(f"group_sizes must be at most {LARGEST_CURVE} in number, got {len(sizes)}.")
    for size in (sizes[0], sizes[-1]):
        require_integer("group_sizes", size, at_least=1, at_most=LARGEST_GROUP)
    return list(sizes)


def _finite(name: str, text: str) -> float:
    stripped = text.strip()
    number = float(stripped) if len(text) <= LONGEST_NUMBER and _DECIMAL.fullmatch(stripped) else math.nan
    if not math.isfinite(number):
        raise InvalidArgument(f"{name} must be a finite number, got {shown(text)}.")
    return number


def run_from_options(
    *,
    sampling_rate: str | None,
    batch_size: str | None,
    dataset_size: str | None,
    noise_multiplier: str,
    steps: str | None,
    epochs: str | None,
    microbatch_size: str = "1",
) -> DPSGD:
    """The run that the options describe: Poisson sampling by a rate, fixed batches by a batch size."""
    from groupdp.dpsgd import DPSGD
    from groupdp.epochs import steps_of_epochs
    from groupdp.samplings import FixedBatchSampling, PoissonSampling, Sampling

    sampling: Sampling
    if sampling_rate is not None:
        if batch_size is not None:
            raise InvalidArgument("sampling_rate and batch_size exclude each other: give one of them.")
        if dataset_size is not None:
            raise InvalidArgument("dataset_size belongs to batch_size: Poisson sampling does not need it.")
        sampling = PoissonSampling(rate=read_number("sampling_rate", sampling_rate, above=0.0, at_most=1.0))
        fraction_of_data = read_fraction("sampling_rate", sampling_rate, above=0.0)
    elif batch_size is None:
        raise InvalidArgument("sampling_rate or batch_size must be given: how are batches chosen?")
    elif dataset_size is None:
        raise InvalidArgument("dataset_size must be given with batch_size: fixed batches need both.")
    else:
        sampling = FixedBatchSampling(
            batch_size=read_integer("batch_size", batch_size, at_least=1, at_most=LARGEST_DATASET),
            dataset_size=read_integer("dataset_size", dataset_size, at_least=1, at_most=LARGEST_DATASET),
        )
        fraction_of_data = sampling.share_of_data()
    if (steps is None) == (epochs is None):
        raise InvalidArgument("steps or epochs must be given, and not both.")
    if steps is not None:
        rounds = read_integer("steps", steps)
    else:
        assert epochs is not None
        rounds = steps_of_epochs(read_fraction("epochs", epochs, above=0.0), fraction_of_data)
    return DPSGD(
        sampling=sampling,
        noise_multiplier=read_number("noise_multiplier", noise_multiplier),
        steps=rounds,
        microbatch_size=read_integer("microbatch_size", microbatch_size, at_least=1),
    )
