"""Calibration: the least noise, the most steps, the largest batch or group that meets a target.

target.py   the target, one certified trial, and what is returned with the evidence of optimality in it
search.py   the secant search, for real parameters and for counts; where to start
real.py     the least noise and the largest rate: certificates on both sides; many searches in batches
counts.py   the most steps, the largest batch and group: the next count fails
"""

from groupdp.calibration.counts import calibrate_batch_size, calibrate_group_size, calibrate_steps
from groupdp.calibration.real import calibrate_noise, calibrate_rate
from groupdp.calibration.target import Calibration

__all__ = [
    "Calibration",
    "calibrate_batch_size",
    "calibrate_group_size",
    "calibrate_noise",
    "calibrate_rate",
    "calibrate_steps",
]
