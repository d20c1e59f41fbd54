"""A run as a file (TOML).

read.py         from a TOML file to a run, every error with its line
toml_lines.py   where in the file a key stands
"""

from groupdp.run_file.read import RunFile, read_run_file

__all__ = ["RunFile", "read_run_file"]
