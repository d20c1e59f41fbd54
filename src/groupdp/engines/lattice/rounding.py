"""The floating-point model every bound of this engine rests on (L-21).

IEEE double precision, round to nearest; NumPy's elementary functions within 4 units in the last place,
`scipy.special.erfcx` within 16; an FFT of length 2^a, 3 x 2^a or 5 x 2^a that is a Cooley-Tukey
factorisation (NumPy's is).
"""

from __future__ import annotations

import math

#: Unit roundoff: a single operation is off by at most this, relatively.
UNIT = 2.0**-53
#: Relative error of an elementary function: 4 units in the last place, of 2^-52 each.
ELEMENTARY = 8.0 * UNIT
#: Relative error of the Mills ratio: 16 units in the last place of erfcx, then the roundings of argument and factor.
MILLS = 40.0 * UNIT
#: Relative error of a complex product (Brent, Percival and Zimmermann 2007: sqrt(5) units), rounded up.
COMPLEX_PRODUCT = 2.5 * UNIT
#: Absolute room for underflow: far above the smallest normal double, far below anything that matters.
TINY = 1e-290


def fft_error(length: int) -> float:
    """Largest error of any output of a transform of length 2^a 3^b 5^c, relative to the sum of the inputs' moduli.

    Every output is a sum over the inputs of input x (product of one twiddle factor per level). A level of
    radix 2 multiplies by a factor that is off by one unit (1 u), rounds the product (sqrt(5) u) and the sum
    (1 u): below 4.3 u. Levels of radix 3 and 5 add up to 5 and 7 more roundings of real parts (sqrt(2) u
    each): below 10.4 u and 13.2 u. Charged are 8 u log2(radix), that is 8 u, 12.6 u and 18.5 u. Real
    transforms do the same operations on half of the outputs.
    """
    if length < 2 or _odd_part(length) not in (1, 3, 5):
        raise AssertionError("the length must be 2^a, 3 x 2^a or 5 x 2^a")
    return 8.0 * math.log2(length) * UNIT


def fft_error_in_norm(length: int) -> float:
    """Error of a transform of length 2^a 3^b 5^c in the Euclidean norm, relative to its exact output.

    A level of radix r is a multiplication by twiddle factors, off by (1 + sqrt(5)) u relatively, and r-point
    transforms, sqrt(r) times a unitary matrix (Higham 2002, Theorem 24.2). The sums of radix 2 are off by u:
    4.3 u in all. An output of radix 3 or 5 has up to 5 or 7 roundings (sqrt(2) u each, of at most sqrt(r)
    times the norm of its inputs), so a level is off by 5 sqrt(6) u + 3.3 u = 15.6 u or 7 sqrt(10) u + 3.3 u
    = 25.5 u. Charged are 12 u log2(radix), that is 12 u, 19 u and 27.8 u. Of real transforms, half of the
    outputs and half of the operations are mirror images.
    """
    return 1.5 * fft_error(length)


def _odd_part(length: int) -> int:
    return length // (length & -length)
