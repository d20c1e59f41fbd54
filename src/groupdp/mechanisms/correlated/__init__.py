"""Correlated noise (DP-FTRL, BandMF, BLT): the theorems are in docs/internals/correlated-noise.md.

strategies.py      the matrices C: norms of columns, errors of prefix sums
toeplitz.py        those whose entries depend on the distance from the diagonal
sensitivities.py   how far a group moves C x: worst patterns, shares of a row's variance
participation.py   who takes part when, and the rounds that follow
noise.py           the mechanism; BandMF described by numbers alone
"""

from groupdp.mechanisms.correlated.noise import BandMF as BandMF
from groupdp.mechanisms.correlated.noise import CorrelatedNoise as CorrelatedNoise
from groupdp.mechanisms.correlated.participation import CyclicPoisson as CyclicPoisson
from groupdp.mechanisms.correlated.participation import FixedEpochs as FixedEpochs
from groupdp.mechanisms.correlated.participation import MinimumSeparation as MinimumSeparation
from groupdp.mechanisms.correlated.strategies import LowerTriangular as LowerTriangular
from groupdp.mechanisms.correlated.strategies import Tree as Tree
from groupdp.mechanisms.correlated.toeplitz import BandedToeplitz as BandedToeplitz
from groupdp.mechanisms.correlated.toeplitz import BufferedLinearToeplitz as BufferedLinearToeplitz
from groupdp.mechanisms.correlated.toeplitz import PrefixSum as PrefixSum
