"""Privacy loss distributions as objects.

distribution     both measures of a composition on a lattice, with what can be read off
build            both measures of one round, from the lattice engine; mean and variance of its loss
measures         measures with a mass at +infinity, their composition under several tilts, probabilities
files            as files and pictures
"""

from groupdp.pld.distribution import PrivacyLossDistribution

__all__ = ["PrivacyLossDistribution"]
