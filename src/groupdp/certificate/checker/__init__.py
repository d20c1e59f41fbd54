"""The checker: proves or refutes a claim in ball arithmetic, and imports nothing else of groupdp.

verify          the verdict on a claim
reading         a file of unknown origin: bounded before it is used; what is claimed, in sentences
laws            the laws a claim is about, rebuilt as exact rationals
allocations     a group dealt to batches: the law of the sum of squares, and allocations that stay hidden
runs            the phases of a run, of correlated noise too: read, and composed
contour         many rounds, by a contour
lines           what a contour needs of a round; the moments of hidden allocations
envelope        the same for fixed batches with examples replaced
closed_forms    tails of one round, one round and rounds without noise in closed form
lattice         few rounds and rare large losses, by measures on a lattice
"""
