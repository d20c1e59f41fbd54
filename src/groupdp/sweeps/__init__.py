"""Many related questions at once: every combination of the values that vary.

grid.py       the points: which values, which run and question each of them means
evaluate.py   certified bounds for many points, the kernel's batches without the interpreter's lock
sweep.py      the sweep: chunks over threads or an executor, progress, rows
files.py      rows as CSV or Parquet, resumable
"""

from groupdp.sweeps.sweep import Row, sweep

__all__ = ["Row", "sweep"]
