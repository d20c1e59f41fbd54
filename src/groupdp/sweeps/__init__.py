"""Many related questions at once: every combination of the values that vary.

sweep.py   the points and their questions; chunks over threads, an executor or Dask; rows as CSV or Parquet, resumable
spend.py   epsilon against steps
"""

from groupdp.sweeps.sweep import Row, sweep

__all__ = ["Row", "sweep"]
