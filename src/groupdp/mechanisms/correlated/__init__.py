"""Correlated noise (DP-FTRL, BandMF, BLT): the theorems are in docs/correlated-noise.md.

strategies.py      the matrices C: norms of columns, errors of prefix sums
toeplitz.py        those whose entries depend on the distance from the diagonal
sensitivities.py   how far a group moves C x: worst patterns, shares of a row's variance
participation.py   who takes part when, and the rounds that follow
mechanism.py       the mechanism; BandMF described by numbers alone
"""

from groupdp.mechanisms.correlated.mechanism import BandMF, CorrelatedNoise
from groupdp.mechanisms.correlated.participation import CyclicPoisson, FixedEpochs, MinimumSeparation
from groupdp.mechanisms.correlated.strategies import LowerTriangular, Tree
from groupdp.mechanisms.correlated.toeplitz import BandedToeplitz, BufferedLinearToeplitz, PrefixSum

__all__ = [
    "BandMF",
    "BandedToeplitz",
    "BufferedLinearToeplitz",
    "CorrelatedNoise",
    "CyclicPoisson",
    "FixedEpochs",
    "LowerTriangular",
    "MinimumSeparation",
    "PrefixSum",
    "Tree",
]
