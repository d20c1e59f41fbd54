"""Calibration: the least noise, the most steps, the largest batch or group that meets a target.

result.py       what is returned, and the evidence of optimality in it
target.py       the target, and one certified trial
search.py       the secant search, for real parameters and for counts; where to start
real.py         real parameters: certificates on both sides; many searches in batches
noise.py        the least noise
parameters.py   the most steps, the largest rate, batch and group; counts: the next one fails
"""

from groupdp.calibration.noise import calibrate_noise
from groupdp.calibration.parameters import calibrate_batch_size, calibrate_group_size, calibrate_rate, calibrate_steps
from groupdp.calibration.result import Calibration

__all__ = [
    "Calibration",
    "calibrate_batch_size",
    "calibrate_group_size",
    "calibrate_noise",
    "calibrate_rate",
    "calibrate_steps",
]
