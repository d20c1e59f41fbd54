"""A run as a file (TOML).

run.py          what it says: phases and question; several runs as one
read.py         from a TOML file to a run, every error with its line
filled.py       what may be left open: sizes that the data know, the adjacency
write.py        from a run to a TOML file, and remarks on its question
toml_lines.py   where in the file a key stands
"""

from groupdp.run_file.read import read_run_file
from groupdp.run_file.run import RunFile

__all__ = ["RunFile", "read_run_file"]
