"""Trade-off curves: how well could an attacker tell whether the group took part?

delta_curve.py   delta near chosen epsilons, certified
minorant.py      what a few values of a convex function say about it everywhere
enclosure.py     one point of the trade-off function, by duality
function.py      the object to ask
"""

from groupdp.tradeoff.function import TradeOff, TradeOffCurve, trade_off

__all__ = ["TradeOff", "TradeOffCurve", "trade_off"]
