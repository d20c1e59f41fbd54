"""Exact laws of how much of a group is in a batch, correct to the last bits of a double.

precise       40-digit arithmetic and laws rounded from it; vectors of 106-bit numbers
counts        how many of the group are drawn: binomial, hypergeometric, sums of binomials, people
truncated     Poisson batches cut to a largest size: members kept and others displaced
allocation    sums of squared counts when a group is dealt to batches (allocation_tails, allocation_transform)
blocks        coins over allocations, from the laws of collisions (histograms)
"""

from groupdp.laws.counts import binomial_law, hypergeometric_law, people_law, sum_of_binomials_law

__all__ = ["binomial_law", "hypergeometric_law", "people_law", "sum_of_binomials_law"]
