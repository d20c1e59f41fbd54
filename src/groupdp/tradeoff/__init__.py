"""Trade-off curves: how well could an attacker tell whether the group took part?

closed_form      one round, exactly (half_lines; runs that amount to one round)
delta_curve      delta near chosen epsilons, certified, by contours that serve many of them
minorant         what a few values of a convex function say about it everywhere
enclosure        one point of the trade-off function, by duality; many points from few values of delta
function         the trade-off function, which keeps what it computed
risk             what it means for a person; the closest Gaussian mechanism
"""

from groupdp.tradeoff.function import TradeOff, TradeOffCurve, trade_off

__all__ = ["TradeOff", "TradeOffCurve", "trade_off"]
