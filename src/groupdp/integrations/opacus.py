"""Group-level guarantees inside Opacus.

    groupdp.integrations.opacus.register(group_size=8)
    engine = PrivacyEngine(accountant="groupdp-8")        # everything else stays as it is
    engine.get_epsilon(1e-6)                              # for groups of up to 8 examples

or, with the refusals made before anything is wrapped and the noise calibrated to the steps that are really run,

    engine = GroupPrivacyEngine(group_size=8)

Opacus makes its accountants without arguments and stores their names in checkpoints, so there is a class and a name
for every group size and adjacency. What is returned is the upper side of groupdp's bounds, bit for bit.

Adaptive clipping: every step also releases how many gradients were not clipped, with noise of standard deviation s_u.
Opacus raises the gradients' noise to (s^-2 - (2 s_u)^-2)^(-1/2), as if that count moved by 1/2 with every example
(Andrew et al. 2021, Theorem 1, for centred bits); it moves by 1. Gradient and count together are one Gaussian mechanism
in which an example moves by 1 with noise s' = (s^-2 - (2 s_u)^-2 + s_u^-2)^(-1/2): s' is what is accounted for.
"""

from __future__ import annotations

import math
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar

import groupdp
from groupdp.bounds import Bounds
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords, require_choice, require_integer, require_number, shown
from groupdp.groups import LARGEST_GROUP
from groupdp.integrations import (
    calling_frames,
    poisson_rate_of,
    require_package,
    require_poisson,
    warn_about_empty_batches,
)
from groupdp.integrations.import_run import Entry, entries_of
from groupdp.integrations.import_run import from_opacus as from_opacus
from groupdp.integrations.import_run import to_opacus as to_opacus
from groupdp.loading.known_loaders import read_batch_sampler
from groupdp.loading.reading import Reading
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.neighbours import ADD_OR_REMOVE, SAME_SIZE

_opacus: Any = require_package("opacus", extra="opacus", tool="Opacus")
_accountants: Any = require_package("opacus.accountants", extra="opacus", tool="Opacus")

#: Adjacencies with a law for Poisson sampling that an accountant may be registered for.
ADJACENCIES = (ADD_OR_REMOVE, *SAME_SIZE)


class GroupAccountant(_accountants.IAccountant):  # type: ignore[misc]
    """An accountant of Opacus for groups; use a subclass made by `register` or `accountant_class`.

    Formal guarantee: after the steps in `history`, each with Poisson sampling at its rate, all iterates together are
    (get_epsilon(delta), delta)-DP for datasets that differ by a group, in the sense of `adjacency`.
    """

    group_size: ClassVar[int]
    adjacency: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.history: list[Entry] = []

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Counts one step; equal ones in a row are one entry of the history."""
        noise, rate = float(noise_multiplier), float(sample_rate)
        if self.history and self.history[-1][:2] == (noise, rate):
            noise, rate, steps = self.history.pop()
            self.history.append((noise, rate, steps + 1))
        else:
            self.history.append((noise, rate, 1))

    def get_epsilon(self, delta: float, **options: Any) -> float:
        """The guarantee so far. Opacus's calibration passes the arguments of `make_private` on: of these only
        `unclipped_num_std` (adaptive clipping) matters.
        """
        return self.get_epsilon_bounds(delta, unclipped_num_std=options.get("unclipped_num_std")).upper

    def get_epsilon_bounds(self, delta: float, *, unclipped_num_std: float | None = None) -> Bounds:
        """Certified bounds on the smallest epsilon so far."""
        target = require_number("delta", delta, above=0.0, below=1.0)
        history = self.history
        if unclipped_num_std is not None:
            history = [(accounted_noise(noise, unclipped_num_std), rate, steps) for noise, rate, steps in history]
        if not history:
            return Bounds(0.0, 0.0)
        return groupdp.epsilon(from_opacus(history), delta=target, group_size=self.group_size, adjacency=self.adjacency)

    def __len__(self) -> int:
        """Steps counted so far."""
        return sum(steps for _, _, steps in self.history)

    @classmethod
    def mechanism(cls) -> str:
        """The name it is registered under, which checkpoints carry."""
        return accountant_name(cls.group_size, cls.adjacency)

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """The hook that counts an optimizer's steps.

        Refuses if it can see that the engine that asks has a loader which does not draw Poisson samples at this rate.
        """
        for name, variables in calling_frames("opacus"):
            if name == "make_private" and not isinstance(variables.get("self"), GroupPrivacyEngine):
                require_poisson(variables.get("data_loader"), sample_rate)
                warn_about_empty_batches(variables.get("data_loader"))
        return self.hook_at(sample_rate)

    def hook_at(self, sample_rate: float) -> Callable[[Any], None]:
        """The hook for an optimizer whose batches are known to be Poisson samples at this rate."""
        rate = require_number("sample_rate", sample_rate, above=0.0, at_most=1.0)

        def count(optimizer: Any) -> None:
            if optimizer.accumulated_iterations != 1:
                reason = (
                    "an example may be in several of the batches whose gradients were added up, so a step at the "
                    "summed rate is not a bound; BatchMemoryManager splits one batch instead"
                )
                got = InWords(optimizer.accumulated_iterations)
                raise InvalidArgument("accumulated_iterations", got, "be 1", reason)
            self.step(noise_multiplier=_accounted_noise_of(optimizer), sample_rate=rate)

        return count

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue a history that was saved under the same group size and adjacency; anything else is refused."""
        saved = state_dict.get("mechanism") if isinstance(state_dict, Mapping) else None
        if saved != self.mechanism():
            needed = f"be of the accountant {self.mechanism()!r}"
            reason = "a checkpoint keeps its group size and adjacency (from_opacus reads its history for any)"
            raise InvalidArgument("state_dict", InWords(f"one of {shown(saved)}"), needed, reason)
        self.history = entries_of(state_dict.get("history"))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.group_size, self.adjacency, list(self.history))

    def state_dict(self, destination: Any = None) -> Any:
        """Opacus's own layout."""
        destination = OrderedDict() if destination is None else destination
        destination["history"] = list(self.history)
        destination["mechanism"] = self.mechanism()
        return destination


def accountant_name(group_size: int, adjacency: str = "add-or-remove") -> str:
    """ "groupdp-8", or "groupdp-8-substitute" for an adjacency other than the default."""
    size = require_integer("group_size", group_size, at_least=1, at_most=LARGEST_GROUP)
    chosen = require_choice("adjacency", adjacency, ADJACENCIES)
    return f"groupdp-{size}" if chosen == "add-or-remove" else f"groupdp-{size}-{chosen}"


def accountant_class(group_size: int, adjacency: str = "add-or-remove") -> type[GroupAccountant]:
    """The accountant's class for one group size and adjacency: always the same one."""
    return _class_of(accountant_name(group_size, adjacency), int(group_size), adjacency)


@cache
def _class_of(name: str, group_size: int, adjacency: str) -> type[GroupAccountant]:
    members = {"group_size": group_size, "adjacency": adjacency, "__module__": __name__, "__doc__": f"{name}."}
    return type(f"GroupAccountant_{name.removeprefix('groupdp-').replace('-', '_')}", (GroupAccountant,), members)


def register(*, group_size: int, adjacency: str = "add-or-remove") -> str:
    """Make `PrivacyEngine(accountant=name)` work, and return the name: "groupdp-8" for groups of up to 8 examples."""
    name = accountant_name(group_size, adjacency)
    # Registering again is harmless: the class is the same. The name is ours, so nothing else is overwritten.
    _accountants.register_accountant(name, accountant_class(group_size, adjacency), force=True)
    return name


def _restored(group_size: int, adjacency: str, history: list[Entry]) -> GroupAccountant:
    """An accountant that was pickled; its class is made anew where it is needed."""
    accountant = accountant_class(group_size, adjacency)()
    accountant.history = history
    return accountant


class GroupPrivacyEngine(_opacus.PrivacyEngine):  # type: ignore[misc]
    """Opacus's engine for groups of up to `group_size` examples, which refuses what it cannot account for.

    `make_private` records the rate that the loader really draws with (Opacus itself records 1 / 92 for a loader of 93
    batches, which samples with 1 / 93), and `make_private_with_epsilon` finds the least noise for the steps that the
    loader really runs.
    """

    def __init__(self, *, group_size: int, adjacency: str = "add-or-remove", secure_mode: bool = False) -> None:
        super().__init__(accountant=register(group_size=group_size, adjacency=adjacency), secure_mode=secure_mode)

    def make_private(self, *, data_loader: Any, poisson_sampling: bool = True, **options: Any) -> Any:
        """Opacus's `make_private`; `poisson_sampling=False` needs a loader that draws Poisson samples itself."""
        if not poisson_sampling:
            require_poisson(data_loader)
        wrapped = super().make_private(data_loader=data_loader, poisson_sampling=poisson_sampling, **options)
        optimizer, loader = wrapped[1], wrapped[-1]
        rate = require_poisson(loader)
        warn_about_empty_batches(loader)
        optimizer.attach_step_hook(self.accountant.hook_at(rate))
        return wrapped

    def make_private_with_epsilon(
        self, *, data_loader: Any, target_epsilon: float, target_delta: float, epochs: float, **options: Any
    ) -> Any:
        """`make_private` with the least noise for which `epochs` passes stay within the target, spent budget apart."""
        if len(self.accountant) > 0:
            warnings.warn(
                "This engine has counted steps already: the noise is chosen for the new ones alone, so that the "
                "guarantee for all of them is weaker than the target.",
                stacklevel=2,
            )
        options.pop("epsilon_tolerance", None)  # Opacus's search has one; this noise is the least there is
        replaced = options.get("poisson_sampling", True)
        run = poisson_run(data_loader, noise_multiplier=1.0, epochs=epochs, poisson_sampling=replaced)
        accounted = groupdp.calibrate_noise(
            run,
            epsilon=target_epsilon,
            delta=target_delta,
            group_size=self.accountant.group_size,
            adjacency=self.accountant.adjacency,
        ).value
        if options.get("clipping") == "adaptive":
            accounted = gradient_noise(accounted, options.get("unclipped_num_std"))
        return self.make_private(data_loader=data_loader, noise_multiplier=accounted, **options)

    def get_epsilon_bounds(self, delta: float) -> Bounds:
        """Certified bounds on the smallest epsilon so far."""
        bounds: Bounds = self.accountant.get_epsilon_bounds(delta)
        return bounds


def _accounted_noise_of(optimizer: Any) -> float:
    """The noise multiplier that one step of this optimizer amounts to."""
    noise = float(optimizer.noise_multiplier)
    if getattr(optimizer, "_adjusted_noise_multiplier", None) is not None:
        needed = (
            "not be adaptive together with ghost clipping: the noise then depends on the size of the batch, which is "
            "private, and no guarantee is proved; clipping='adaptive' with grad_sample_mode='hooks' is counted"
        )
        raise InvalidArgument("clipping", NOT_SHOWN, needed)
    unclipped = getattr(optimizer, "unclipped_num_std", None)
    if unclipped is None:
        return noise
    warnings.warn(
        "Adaptive clipping in Opacus divides by the size of the sampled batch, which is private under Poisson "
        "sampling: the guarantee is for what is released besides that size.",
        stacklevel=4,
    )
    return accounted_noise(noise, float(unclipped)) if math.isfinite(noise) else noise


def accounted_noise(noise_multiplier: float, unclipped_num_std: float) -> float:
    """s' for a noise multiplier s and a count with noise s_u, rounded down."""
    count = require_number("unclipped_num_std", unclipped_num_std, above=0.0)
    if noise_multiplier == 0.0:
        return 0.0
    return (1.0 - 2.0**-50) / math.sqrt(1.0 / noise_multiplier**2 + 0.75 / count**2)


def gradient_noise(accounted: float, unclipped_num_std: Any) -> float:
    """The noise multiplier s for which s' is at least `accounted`."""
    count = require_number("unclipped_num_std", unclipped_num_std, above=0.0)
    rest = 1.0 / accounted**2 - 0.75 / count**2
    if rest <= 0.0:
        needed = f"be above {math.sqrt(0.75) * accounted!r} for this target"
        raise InvalidArgument("unclipped_num_std", unclipped_num_std, needed)
    noise = 1.0 / math.sqrt(rest)
    while accounted_noise(noise, count) < accounted:
        noise = max(noise * (1.0 + 2.0**-48), math.nextafter(noise, math.inf))
    return noise


def poisson_run(
    data_loader: Any, *, noise_multiplier: float, epochs: Any, poisson_sampling: bool | None = None
) -> DPSGD:
    """The run of `epochs` passes over a loader that `make_private` returned, or that it is going to be given.

    With `poisson_sampling`, by default for a loader that draws no Poisson samples, `make_private` replaces a loader of
    n batches by one that draws with the rate q = 1 / n in double precision, int(1 / q) times a pass: of 93 batches it
    runs 92. Without it the loader stays. A part of a pass is rounded up to whole steps.
    """
    steps = len(data_loader)
    replaced = poisson_rate_of(data_loader) is None if poisson_sampling is None else poisson_sampling
    if replaced:
        rate = 1 / require_integer("batches", steps, at_least=1)
        steps = int(1 / rate)
    else:
        rate = require_poisson(data_loader)
    return _run_of(groupdp.PoissonSampling(rate=rate), steps, noise_multiplier, epochs)


def shuffled_run(data_loader: Any, *, noise_multiplier: float, epochs: Any) -> DPSGD:
    """The run of `epochs` passes over a loader that is left as it is (`poisson_sampling=False`).

    A loader that shuffles gives shuffled epochs, one that goes in order gives epochs in a fixed order; any other
    sampler is refused. Ask `groupdp.epsilon` with an adjacency that keeps the dataset's size.
    """
    reading = Reading("a loader", dataset_size=len(data_loader.dataset))
    read_batch_sampler(reading, getattr(data_loader, "batch_sampler", None), None)
    if not isinstance(reading.sampling, groupdp.ShuffledSampling | groupdp.FixedOrderSampling):
        needed = "shuffle the whole dataset or go through it in order"
        raise InvalidArgument("data_loader", data_loader, needed, *reading.problems[:1])
    return _run_of(reading.sampling, len(data_loader), noise_multiplier, epochs)


def _run_of(sampling: Any, steps: int, noise_multiplier: float, epochs: Any) -> DPSGD:
    passes = require_number("epochs", epochs, above=0.0)
    return DPSGD(sampling=sampling, noise_multiplier=noise_multiplier, steps=math.ceil(passes * steps))
