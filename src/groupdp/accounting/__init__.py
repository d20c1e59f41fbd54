"""Between the question and the engines: what is exact, which engine, how long it may take.

exact_parts.py     one composition: rounds without noise peeled off in closed form
engine_choice.py   the noisy rest: closed-form bounds, the choice of an engine, tolerance
"""

from groupdp.accounting.engine_choice import ENGINES, Options
from groupdp.accounting.exact_parts import epsilon_ceiling_of, epsilon_of, log_delta_of, log_revealed

__all__ = ["ENGINES", "Options", "epsilon_ceiling_of", "epsilon_of", "log_delta_of", "log_revealed"]
