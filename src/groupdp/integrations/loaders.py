"""Each loader's own rule for rates and steps, in plain numbers: what a configuration really runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from groupdp._validation import LARGEST_COUNT, require_integer, require_number
from groupdp.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Epoch:
    """What one pass of a loader does."""

    rate: float
    """The probability with which every example is in a batch, or the share of the data that a batch is."""
    steps: int


def opacus_epoch(batches: int) -> Epoch:
    """Opacus's Poisson loader made from a loader of so many batches.

    The rate is the double 1 / batches, and a pass has int(1 / rate) steps, rounded twice: of 93 batches it runs 92.
    """
    rate = 1 / require_integer("batches", batches, at_least=1)
    return Epoch(rate, int(1 / rate))


def batches_of(dataset_size: int, batch_size: int, *, drop_last: bool = False) -> int:
    """The length of PyTorch's DataLoader: the incomplete last batch counts unless it is dropped."""
    size = require_integer("dataset_size", dataset_size, at_least=1)
    batch = require_integer("batch_size", batch_size, at_least=1)
    batches = size // batch if drop_last else -(-size // batch)
    if batches == 0:
        raise InvalidArgument("batch_size", batch, f"be at most dataset_size={size} if the last batch is dropped")
    return batches


def opacus_steps(epochs: Any, rate: float) -> int:
    """The steps that Opacus's own calibration assumes for `epochs` passes: int(epochs / rate)."""
    return int(require_number("epochs", epochs, above=0.0) / rate)


def tensorflow_privacy_steps(epochs: Any, batch_size: int, dataset_size: int) -> int:
    """TensorFlow Privacy's steps: epochs / (batch size / examples) in double precision, rounded up once at the end."""
    steps = math.ceil(require_number("epochs", epochs, above=0.0) / (batch_size / dataset_size))
    if steps > LARGEST_COUNT:
        raise InvalidArgument("epochs", epochs, f"amount to at most {LARGEST_COUNT} steps")
    return steps


def drawn_rate(rate: float) -> float:
    """The probability of `torch.rand(...) < rate`, whose variates are multiples of 2^-24 below 1.

    Opacus samples so. The scalar is rounded to single precision, then the multiples below it are counted: the
    probability is `rate` up to 2^-24 more or less.
    """
    import struct

    single: float = struct.unpack("f", struct.pack("f", require_number("rate", rate, above=0.0, at_most=1.0)))[0]
    return math.ceil(single * 2.0**24) / 2.0**24
