"""Earlier methods: Vadhan's lemma on an example-level guarantee, and the linear reference.

one_example          the composition of one example, from which all of these start, and its Renyi divergences
smallest_feasible    how the lemma inflates delta; the smallest epsilon that meets a target, proved to be the smallest
vadhan               the lemma on the exact curve; the linear reference
renyi                the lemma on a Renyi guarantee, in log space, and in doubles as TensorFlow Privacy does it
fdp                  the group bound of f-DP
adaptive             guarantees where parameters were chosen after looking: a Renyi filter, hyperparameter search
comparison           all of them beside the tight epsilon; Poisson accounting's claim for another sampling
"""

from groupdp.baselines.renyi import old_tool_epsilon, renyi_vadhan_epsilon
from groupdp.baselines.vadhan import linear_reference, vadhan_epsilon, vadhan_epsilons

__all__ = [
    "linear_reference",
    "old_tool_epsilon",
    "renyi_vadhan_epsilon",
    "vadhan_epsilon",
    "vadhan_epsilons",
]
