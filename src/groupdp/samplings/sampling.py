"""What every sampling says about itself. A sampling is one file, and a line in the package's registry
or a call of `groupdp.samplings.register`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from groupdp.fields import Field
from groupdp.neighbours import Change, require_law
from groupdp.pairs import Rounds as Rounds
from groupdp.samplings.audited import AuditedDataset

BoolArray = npt.NDArray[np.bool_]
DIVIDED_BY_A_CONSTANT = "The sum of clipped gradients is divided by a number that does not depend on the data."
EXAMPLES_CLIPPED = "Every example's gradient is clipped to the clipping norm on its own before anything is summed."

#: What clipped averages of microbatches need, in a sentence.
FIXED_MICROBATCHES = (
    "The microbatch of an example does not depend on which other examples were sampled; its position in the batch does."
)


class Described(ABC):
    """A frozen description by fields: a sampling or a mechanism."""

    __slots__ = ()

    #: In run files and on the command line.
    name: ClassVar[str]
    #: In prose: "Poisson sampling".
    title: ClassVar[str]
    #: What it does, in one sentence.
    meaning: ClassVar[str] = ""
    #: What describes it in run files, on the command line, in the page's form and in questions of the API.
    fields: ClassVar[tuple[Field, ...]] = ()
    #: Adjacencies it has a law for; "exchange" is removed=a, added=b.
    adjacencies: ClassVar[tuple[str, ...]]
    #: Why it has none for each of the others.
    refusals: ClassVar[Mapping[str, str]] = {}

    def __post_init__(self) -> None:
        """Check every field by its kind and range."""
        for field in self.fields:
            object.__setattr__(self, field.attribute, field.checked(getattr(self, field.attribute)))

    def values(self) -> dict[str, Any]:
        """Its fields by their names in run files."""
        return {field.name: getattr(self, field.attribute) for field in self.fields}

    def describe(self) -> str:
        """In a line: "Poisson sampling, sampling rate 0.01"."""
        parts = (field.stated(getattr(self, field.attribute)) for field in self.fields)
        return ", ".join((self.title, *filter(None, parts)))

    def require_adjacency(self, adjacency: str) -> None:
        """Refuse, with the reason, an adjacency that no law is proved for."""
        require_law(adjacency, self.title, self.adjacencies, self.refusals)


class Sampling(Described):
    """How a run chooses its batches, and what that means for a group's privacy."""

    __slots__ = ()

    #: The field that alone says that this sampling is meant, where no sampling is named.
    meant_by: ClassVar[str] = ""
    #: What a batch is drawn from, and a group size counts: "example" or "person".
    unit: ClassVar[str] = "example"
    #: Attributes in which epsilon grows, so that a calibration may solve for them.
    epsilon_grows_with: ClassVar[tuple[str, ...]] = ()
    #: Whether no larger dataset leaks more, so that what holds for one example holds on a walk to a larger group.
    leaks_most_where_smallest: ClassVar[bool] = True
    #: Whether its bounds hold only while the batches stay secret, once an allocation decides a whole epoch.
    secret_allocation: ClassVar[bool] = False
    #: Whether such runs are often, and wrongly, accounted as Poisson sampling.
    mistaken_for_poisson: ClassVar[bool] = False
    #: What has to hold of the training code, in sentences, for all fields and microbatches.
    needed: ClassVar[tuple[str, ...]] = ()
    #: Whether batches have random sizes, so that a place in a batch depends on who else was sampled.
    has_random_sizes: ClassVar[bool] = False
    #: Whether it shuffles, so that spread allocation may take its place in a loader.
    shuffles: ClassVar[bool] = False

    @abstractmethod
    def rounds(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> Rounds:
        """The rounds that dominate `steps` steps for a change of a supported adjacency, in units of the noise."""

    def alternatives(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> tuple[Rounds, ...]:
        """Other rounds that dominate the same steps: the smallest answer of all of them is valid."""
        return ()

    @abstractmethod
    def is_tight(self, change: Change, *, steps: int) -> bool:
        """Whether some loss and datasets attain the rounds of so many steps, so that no better guarantee exists."""

    def assumptions(self, *, microbatches: bool) -> tuple[str, ...]:
        """What the training code must do for the guarantee to hold, in sentences."""
        return (*self.needed, FIXED_MICROBATCHES) if microbatches and self.has_random_sizes else self.needed

    @abstractmethod
    def share_of_data(self) -> Fraction:
        """The fraction of the data that one step visits: an epoch is its inverse in steps."""

    @abstractmethod
    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        """Really sampled: for each step, a (trials, dataset_size) array that says who is in the batch."""

    @abstractmethod
    def audited_datasets(self, change: Change, *, ordinary_examples: int) -> tuple[AuditedDataset, AuditedDataset]:
        """Two datasets of this change that leak as much as is known, with the exact densities of what they release.

        `ordinary_examples` is the size of the common part where the sampling does not say it.
        """

    @property
    def clipping(self) -> str:
        """What is clipped, in a sentence."""
        return EXAMPLES_CLIPPED

    @property
    def sources(self) -> tuple[str, ...] | None:
        """The names of its sources, if a group is counted source by source."""
        return None

    def largest_group(self, adjacency: str) -> int | None:
        """The largest group the datasets allow under an adjacency; None where they do not say."""
        return None
