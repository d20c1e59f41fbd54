"""Passes over the data, as a number of rounds."""

from __future__ import annotations

import math
from fractions import Fraction

from groupdp._validation import LARGEST_COUNT
from groupdp.errors import InvalidArgument


def steps_of_epochs(epochs: Fraction, fraction_of_data: Fraction) -> int:
    """Rounds in `epochs` passes, each round visiting `fraction_of_data` of the data.

    That fraction is the sampling rate, or batch size / dataset size. Every pass is rounded up to whole rounds
    on its own, the incomplete last one too: a loader with an incomplete last batch per pass runs that many,
    and no usual meaning of an epoch is more. Who runs fewer can give the exact number as steps instead.
    The arithmetic is exact: 20 epochs at a rate of 0.01 are 2000 rounds, not 2001.
    """
    whole, part = divmod(epochs, 1)
    steps = whole * math.ceil(1 / fraction_of_data) + math.ceil(part / fraction_of_data)
    if steps > LARGEST_COUNT:
        raise InvalidArgument("epochs", float(epochs), f"amount to at most {LARGEST_COUNT} steps")
    return steps
