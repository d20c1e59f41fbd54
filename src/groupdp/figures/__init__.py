"""Pictures; matplotlib is imported only when one is drawn. Palette, frame and titles are in drawing.py.

layout.py     where the axes are, without drawing them first
curves.py     epsilon against group size
tradeoff.py   trade-off curves
people.py     people's epsilons, and caps
spending.py   the budget against steps
sweeps.py     a sweep, as curves or as a heat map
audit.py      what an audit saw beside what was claimed
paper.py      the paper's empirical section, computed
paper_figure.py  one of its figures, here or in a process of its own
"""

from groupdp.drawing import title_lines

__all__ = ["title_lines"]
