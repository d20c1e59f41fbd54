"""The prover: writes the claim and finds the hints with which the checker proves it.

writer         the claim, from a run
proving        which method is to prove a claim, and what it can prove
chosen_laws    laws of hidden allocations for a claim
hints          where the contour should lie, and how fine and how far a lattice should be, in plain floats
float_rounds   a round's law in plain floats, for both; float_hidden: the same for hidden allocations
"""
