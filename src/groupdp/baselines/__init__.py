"""What one had before: Vadhan's lemma on an example-level guarantee, and the linear reference.

growth.py              how the lemma inflates delta, in its two forms
smallest_feasible.py   the smallest epsilon that meets a target, proved to be the smallest
vadhan.py              the lemma on the exact curve; the linear reference
renyi_divergence.py    Renyi divergences of one example
renyi.py               the lemma on a Renyi guarantee, in log space
tensorflow_privacy_model.py  the same in doubles, as the old tool does it
fdp.py                 the group bound of f-DP
poisson_claim.py       what Poisson accounting would claim of another sampling: no guarantee
one_example.py         the composition of one example, from which all of these start
group_renyi.py         Renyi divergences of group pairs, from above
adaptive.py            guarantees where parameters were chosen after looking: a Renyi filter, hyperparameter search
comparison.py          all of them beside the tight epsilon
"""

from groupdp.baselines.renyi import renyi_vadhan_epsilon
from groupdp.baselines.tensorflow_privacy_model import old_tool_epsilon
from groupdp.baselines.vadhan import linear_reference, vadhan_epsilon, vadhan_epsilons

__all__ = [
    "linear_reference",
    "old_tool_epsilon",
    "renyi_vadhan_epsilon",
    "vadhan_epsilon",
    "vadhan_epsilons",
]
