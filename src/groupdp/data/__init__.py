"""From a table of examples with a user column to a dataset in which nobody has more than k.

keyed_hash.py     the number that orders a person's examples: defined here, the same in Python and in SQL
choice.py         what to keep: user, key, caps, seed; and the SQL that says it
relations.py      files, standard input and tables in memory as one relation; what is refused by line
duckdb_engine.py  one machine: a budget of memory, spilling, progress, errors as sentences
counting.py       examples of each person
bounding.py       at most k examples of each person
owners.py         the same where records have several owners
dask_engine.py    the same on a cluster, with the same rows chosen
report.py         what was counted and kept
manifest.py       the same in a file beside the table written, for later commands

DuckDB and pyarrow (extra `data`) and Dask (extra `dask`) are imported when first used.
"""

from groupdp.data.bounding import bound
from groupdp.data.counting import count
from groupdp.data.keyed_hash import priority
from groupdp.data.report import Bounded, Counts

__all__ = ["Bounded", "Counts", "bound", "count", "priority"]
