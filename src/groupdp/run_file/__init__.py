"""A run as a file (TOML) and in JSON answers.

read.py         from a TOML file to a run, every error with its line
toml_lines.py   where in the file a key stands
describe.py     a run's description in JSON answers
"""

from groupdp.run_file.read import RunFile, read_run_file

__all__ = ["RunFile", "read_run_file"]
