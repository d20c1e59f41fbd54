"""What the checker needs of a round on the line Re z = c, and how fast a characteristic function falls."""

from __future__ import annotations

import math
from dataclasses import dataclass

from flint import acb, acb_mat, arb

from groupdp.certificate.reading import Clock


@dataclass
class Line:
    """A round on Re z = c."""

    samples: list[acb]  # G(c + i j step)
    far: arb  # G(beyond), from above
    decay: arb  # |G(c + i s) / G(c)| for every s past the last sample, from above
    dropped: arb  # the probability under P of what was left out (C-5)
    raised: arb  # what leaving out large shifts of Q may have raised delta by (C-6)


@dataclass
class Place:
    """Where the contour lies: Re z = c, Im z = 0, step, ..., (count - 1) step; `beyond` > c is for the aliases."""

    c: arb
    beyond: arb
    step: arb
    count: int
    clock: Clock


def transform(losses: list[arb], weights: list[arb], at: Place) -> list[acb]:
    """sum_n weight_n e^{i j step loss_n} for j < count, as products of matrices: j = width * row + column."""
    count = max(at.count, 1)
    width = math.isqrt(count - 1) + 1
    total = acb_mat(-(-count // width), width)
    for start in range(0, len(losses), 500):
        at.clock.check()
        part = list(zip(losses[start : start + 500], weights[start : start + 500], strict=True))
        columns = [turns(at.step * loss, width) for loss, _ in part]
        rows = [[w * turn for turn in turns(at.step * width * loss, total.nrows())] for loss, w in part]
        total += acb_mat(rows).transpose() * acb_mat(columns)
    return list(total.entries()[:count])


def turns(angle: arb, count: int) -> list[acb]:
    """e^{i j angle} for j < count, each from two of half its exponent: balls would grow along a chain."""
    values = [acb(1), acb(angle.cos(), angle.sin())]
    for j in range(2, count):
        values.append(values[j // 2] * values[j - j // 2])
    return values[:count]


def layers(edges: list[arb], heights: list[arb], s: arb) -> arb:
    """C-10: sum of t W (1 - env(s W / 2)) over the layers of a piecewise constant function, from below.

    `heights` are exact, between increasing `edges`.
    """
    total, stack = arb(0), [(edges[0], arb(0))]
    for edge, height in zip(edges, [*heights, arb(0)], strict=True):
        start = edge
        while stack[-1][1] > height:
            start, top = stack.pop()
            width = (edge - start).lower()
            if width > 0:
                x = s * width / 2
                env = x.sinc() if x < arb.pi() / 2 else 1 / x
                total += (top - height.max(stack[-1][1])) * width * (1 - env)
        if height > stack[-1][1]:
            stack.append((start, height))
    return total.lower().max(arb(0))


def log_kappa(c: arb) -> arb:
    """C-11: delta(epsilon) <= kappa(c) e^{K(c) - c epsilon}, kappa(c) = c^c / (1 + c)^(1 + c)."""
    return c * c.log() - (1 + c) * (1 + c).log()
