"""Adaptive clipping in Opacus: what its noisy count of unclipped gradients costs a group.

Besides the gradients, every step releases how many of them were not clipped, with noise of standard deviation s_u.
Opacus raises the gradients' noise to (s^-2 - (2 s_u)^-2)^(-1/2), as if a count moved by 1/2 with every example (it
would, were the bits centred; Andrew et al. 2021, Theorem 1). Its count is of bits 0 and 1 and moves by 1. Gradient and
count together are then one Gaussian mechanism in which an example moves by 1 with noise

    s' = (s^-2 - (2 s_u)^-2 + s_u^-2)^(-1/2) = (s^-2 + (3/4) s_u^-2)^(-1/2),

and a group's examples add up in it as they do in plain DP-SGD. That s' is what is accounted for.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from groupdp._validation import require_number
from groupdp.errors import InvalidArgument


def accounted_noise(noise_multiplier: float, unclipped_num_std: float) -> float:
    """s' for a noise multiplier s and a count with noise s_u, rounded down."""
    count = require_number("unclipped_num_std", unclipped_num_std, above=0.0)
    if noise_multiplier == 0.0:
        return 0.0
    return (1.0 - 2.0**-50) / math.sqrt(1.0 / noise_multiplier**2 + 0.75 / count**2)


def gradient_noise(accounted: float, unclipped_num_std: Any) -> float:
    """The noise multiplier s for which s' is at least `accounted`."""
    count = require_number("unclipped_num_std", unclipped_num_std, above=0.0)
    rest = 1.0 / accounted**2 - 0.75 / count**2
    if rest <= 0.0:
        raise InvalidArgument(
            "unclipped_num_std", unclipped_num_std, f"be above {math.sqrt(0.75) * accounted!r} for this target"
        )
    noise = 1.0 / math.sqrt(rest)
    while accounted_noise(noise, count) < accounted:
        noise = max(noise * (1.0 + 2.0**-48), math.nextafter(noise, math.inf))
    return noise


def warn_about_batch_size() -> None:
    """Says what no accountant covers."""
    warnings.warn(
        "Adaptive clipping in Opacus divides by the size of the sampled batch, which is private under Poisson "
        "sampling: the guarantee is for what is released besides that size.",
        stacklevel=4,
    )
