"""Privacy loss distributions as objects.

distribution.py   both measures of a composition on a lattice, with what can be read off
files.py          as files
"""

from groupdp.pld.distribution import PrivacyLossDistribution

__all__ = ["PrivacyLossDistribution"]
