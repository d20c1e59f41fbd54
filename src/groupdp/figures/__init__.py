"""Pictures; matplotlib is imported only when one is drawn.

curves.py     epsilon against group size
tradeoff.py   trade-off curves, people and caps
audit.py      what an audit saw beside what was claimed
pld.py        a privacy loss distribution
paper.py      the paper's empirical section, computed
"""
