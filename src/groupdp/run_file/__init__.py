"""A run as a file (TOML).

run.py    what it says: phases and question, what may be left open; several runs as one; as TOML; remarks
read.py   from a TOML file to a run, every error with its line
"""

from groupdp.run_file.read import read_run_file
from groupdp.run_file.run import RunFile

__all__ = ["RunFile", "read_run_file"]
