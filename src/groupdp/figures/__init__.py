"""Pictures; matplotlib is imported only when one is drawn. What they share is in drawing.py.

curves.py  epsilon against group size and steps; trade-off curves
people.py  people's epsilons, and caps
sweeps.py  a sweep, as curves or as a heat map
audit.py   what an audit saw beside what was claimed
paper.py   the paper's empirical section, computed and drawn
"""
