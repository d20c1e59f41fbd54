"""TensorFlow Privacy has no place for another accountant, so its hyperparameters are read and a statement in the layout
of its own is written. The package is not imported.

    print(statement(from_tensorflow_privacy(
        number_of_examples=10_000, batch_size=100, num_epochs=20, noise_multiplier=4.0, used_microbatching=False,
        max_examples_per_user=8), delta=1e-6))

Its own statement derives a user's epsilon from an example's by Vadhan's lemma; here it is computed for the group.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import Any

import groupdp
from groupdp.baselines.renyi import old_tool_epsilon
from groupdp.bounds import Bounds
from groupdp.errors import (
    LARGEST_COUNT,
    NOT_SHOWN,
    InvalidArgument,
    InWords,
    require_boolean,
    require_integer,
    require_number,
)
from groupdp.groups import LARGEST_GROUP
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.neighbours import ZERO_OUT
from groupdp.printing import round_up

#: Digits of the numbers in the statement, rounded up.
_DIGITS = 6


def steps_of(epochs: Any, batch_size: int, examples: int) -> int:
    """TensorFlow Privacy's steps: epochs / (batch size / examples) in double precision, rounded up once at the end."""
    steps = math.ceil(require_number("epochs", epochs, above=0.0) / (batch_size / examples))
    if steps > LARGEST_COUNT:
        raise InvalidArgument("epochs", epochs, f"amount to at most {LARGEST_COUNT} steps")
    return steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Hyperparameters:
    """What TensorFlow Privacy's `compute_dp_sgd_privacy_statement` is given, by its names."""

    number_of_examples: int
    batch_size: int
    num_epochs: float
    noise_multiplier: float
    used_microbatching: bool
    max_examples_per_user: int

    def __post_init__(self) -> None:
        examples = require_integer("number_of_examples", self.number_of_examples, at_least=1)
        require_integer("batch_size", self.batch_size, at_least=1, at_most=examples)
        require_number("num_epochs", self.num_epochs, above=0.0)
        require_number("noise_multiplier", self.noise_multiplier, at_least=0.0)
        require_boolean("used_microbatching", self.used_microbatching)
        require_integer("max_examples_per_user", self.max_examples_per_user, at_least=1, at_most=LARGEST_GROUP)

    @property
    def steps(self) -> int:
        """Steps under Poisson sampling."""
        return steps_of(self.num_epochs, self.batch_size, self.number_of_examples)

    @property
    def poisson_run(self) -> DPSGD:
        """The run, if batches are Poisson samples."""
        return self._run(groupdp.PoissonSampling(rate=self.batch_size / self.number_of_examples), self.steps)

    @property
    def shuffled_run(self) -> DPSGD:
        """The run, if every epoch goes through the data in a new random order."""
        sampling = groupdp.ShuffledSampling(batch_size=self.batch_size, dataset_size=self.number_of_examples)
        return self._run(sampling, self._steps_in_whole_epochs)

    @property
    def ordered_run(self) -> DPSGD:
        """The run, if every epoch goes through the data in an order that anybody may know."""
        sampling = groupdp.FixedOrderSampling(batch_size=self.batch_size, dataset_size=self.number_of_examples)
        return self._run(sampling, self._steps_in_whole_epochs)

    @property
    def _steps_in_whole_epochs(self) -> int:
        """An epoch that was begun counts; how its last, smaller batch is handled does not matter."""
        return math.ceil(self.num_epochs) * (self.number_of_examples // self.batch_size)

    def _run(self, sampling: Any, steps: int) -> DPSGD:
        # Averages of any number of gradients above one move by up to twice the clipping norm: two stands for them all.
        size = 2 if self.used_microbatching else 1
        return DPSGD(sampling, noise_multiplier=self.noise_multiplier, steps=steps, microbatch_size=size)


def from_tensorflow_privacy(
    *, used_microbatching: bool = True, max_examples_per_user: int | None = None, **others: Any
) -> Hyperparameters:
    """The fields of `Hyperparameters`, checked; `max_examples_per_user` must be given."""
    if max_examples_per_user is None:
        reason = "without a bound on a user's examples there is no guarantee for users (1: for single examples)"
        raise InvalidArgument("max_examples_per_user", None, "be given", reason)
    own: dict[str, Any] = {"used_microbatching": used_microbatching, "max_examples_per_user": max_examples_per_user}
    return Hyperparameters(**others, **own)


def to_tensorflow_privacy(run: DPSGD, *, number_of_examples: int, max_examples_per_user: int) -> dict[str, Any]:
    """The keyword arguments that describe a Poisson run to `compute_dp_sgd_privacy_statement`, delta apart.

    The rate must be that of a whole batch, and the steps must be what its own rounding gives back.
    """
    examples = require_integer("number_of_examples", number_of_examples, at_least=1)
    if not isinstance(run.sampling, groupdp.PoissonSampling):
        raise InvalidArgument("run", NOT_SHOWN, "have Poisson sampling to be described to TensorFlow Privacy")
    batch_size = round(run.sampling.rate * examples)
    if batch_size < 1 or batch_size / examples != run.sampling.rate:
        raise InvalidArgument("rate", run.sampling.rate, f"be batch_size / {examples} for a whole batch_size")
    epochs = run.steps * run.sampling.rate
    if steps_of(epochs, batch_size, examples) > run.steps:  # the product was rounded up
        epochs = math.nextafter(epochs, 0.0)
    if steps_of(epochs, batch_size, examples) != run.steps:
        raise InvalidArgument("steps", InWords(run.steps), "be a number of epochs that a double holds")
    described: dict[str, Any] = {
        "number_of_examples": examples,
        "batch_size": batch_size,
        "num_epochs": epochs,
        "noise_multiplier": run.noise_multiplier,
        "used_microbatching": run.microbatch_size > 1,
        "max_examples_per_user": max_examples_per_user,
    }
    Hyperparameters(**described)  # refuses what they do not allow
    return described


def statement(hyperparameters: Hyperparameters, *, delta: float) -> str:
    """A privacy statement in the layout of TensorFlow Privacy's own: what was run, one example, one user, the caveat.

    The lines for orders other than Poisson sampling are for records replaced by zero gradients, where both
    datasets have the same size; every number is rounded up.
    """
    h = hyperparameters
    target = require_number("delta", delta, above=0.0, below=1.0)
    micro = "with" if h.used_microbatching else "without"
    what = (
        f"DP-SGD over {h.number_of_examples} examples in batches of {h.batch_size}, noise multiplier "
        f"{h.noise_multiplier!r}, {h.num_epochs!r} epochs ({h.steps} steps), {micro} microbatching, at most "
        f"{h.max_examples_per_user} examples per user."
    )
    lines = [*textwrap.wrap(what, width=100), "", "The guarantee covers every model checkpoint, not only the last.", ""]
    lines += _table("Example-level DP", h, 1, target)
    lines += _table(f"User-level DP, {h.max_examples_per_user} examples per user", h, h.max_examples_per_user, target)
    lines.append("(*) Only if batches are Poisson samples: for shuffled data the number is not a guarantee.")
    if h.max_examples_per_user > 1 and not h.used_microbatching:
        old = old_tool_epsilon(h.poisson_run, delta=target, group_size=h.max_examples_per_user)
        lines += [
            "",
            "For comparison: an example's Renyi guarantee, extended to the user by Vadhan's lemma as TensorFlow",
            f"Privacy does it, gives {round_up(old, _DIGITS)} under Poisson sampling.",
        ]
    return "\n".join(lines) + "\n"


def _table(title: str, h: Hyperparameters, group_size: int, delta: float) -> list[str]:
    def epsilon(run: DPSGD, adjacency: str) -> Bounds:
        return groupdp.epsilon(run, delta=delta, group_size=group_size, adjacency=adjacency)

    rows = (
        ("Epsilon in an order that anybody may know", epsilon(h.ordered_run, ZERO_OUT)),
        ("Epsilon with every epoch shuffled anew", epsilon(h.shuffled_run, ZERO_OUT)),
        ("Epsilon under Poisson sampling (*), add or remove", epsilon(h.poisson_run, "add-or-remove")),
    )
    width = max(len(label) for label, _ in rows)
    return [
        f"{title}, at delta = {delta!r}, by groupdp {groupdp.__version__}:",
        "",
        *(f"    {label + ':':<{width + 1}} {round_up(bounds.upper, _DIGITS):>12}" for label, bounds in rows),
        "",
    ]
