"""Privacy loss distributions as objects.

distribution.py   both measures of a composition on a lattice, with what can be read off
build.py          both measures of one round, from the lattice engine
loss_moments.py   mean and variance of one round's loss
measures.py       measures with a mass at +infinity, and their composition under several tilts
probabilities.py  probabilities of the loss from the hockey-stick curve
files.py          as files
picture.py        as pictures
"""

from groupdp.pld.distribution import PrivacyLossDistribution

__all__ = ["PrivacyLossDistribution"]
