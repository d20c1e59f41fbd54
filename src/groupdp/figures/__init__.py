"""Pictures; matplotlib is imported only when one is drawn. What they share is in drawing.py.

curves.py   epsilon against group size and steps; trade-off curves; what an audit saw beside what was claimed
studies.py  people's epsilons, caps and plans; a sweep, as curves or as a heat map
paper.py    the paper's empirical section, computed and drawn
"""
