"""Exact laws of how much of a group is in a batch, correct to the last bits of a double.

decimals.py       40-digit arithmetic, and laws rounded from it
counts.py         how many of the group are drawn: binomial, hypergeometric, sums of binomials
double_double.py  vectors of 106-bit numbers
large_groups.py   binomial laws of thousands, in such vectors
truncated.py      Poisson batches cut to a largest size: members kept and others displaced
allocation.py     sums of squared counts when a group is dealt to batches
"""

from groupdp.laws.counts import binomial_law, hypergeometric_law, sum_of_binomials_law

__all__ = ["binomial_law", "hypergeometric_law", "sum_of_binomials_law"]
