"""Many related questions at once: every combination of the values that vary.

grid.py    the points: which values, which run and question each of them means
sweep.py   the sweep: chunks over threads, an executor or Dask workers; rows as CSV or Parquet, resumable
spend.py   epsilon against steps
"""

from groupdp.sweeps.sweep import Row, sweep

__all__ = ["Row", "sweep"]
