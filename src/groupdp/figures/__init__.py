"""Pictures; matplotlib is imported only when one is drawn.

curves.py     epsilon against group size
tradeoff.py   trade-off curves, people and caps
audit.py      what an audit saw beside what was claimed
pld.py        a privacy loss distribution
paper.py      the paper's empirical section, computed
"""

from __future__ import annotations

import textwrap


def title_lines(parts: list[str], width: int = 95) -> str:
    """A title from sentences about the run: wrapped, a line for each where there is room."""
    return "\n".join(line for part in parts for line in textwrap.wrap(part, width))
