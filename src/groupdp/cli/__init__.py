"""The command line: one module per command, listed in `main.py`; `options`, `values` and `support` are shared."""

from groupdp.cli.main import main as main

__all__ = ["main"]
