"""Trade-off curves: how well could an attacker tell whether the group took part?

closed_form.py   one round, exactly (half_lines, normal_tails, monotone); merge_rounds finds runs that amount to one
delta_curve.py   delta near chosen epsilons, certified
minorant.py      what a few values of a convex function say about it everywhere
enclosure.py     one point of the trade-off function, by duality; sketch: many points from few values of delta
rates.py         rates that are asked about, and what certified ones say of each other
function.py      the object to ask
gaussian.py      the closest Gaussian mechanism
risk.py          what it means for a person
"""

from groupdp.tradeoff.function import TradeOff, TradeOffCurve, trade_off

__all__ = ["TradeOff", "TradeOffCurve", "trade_off"]
