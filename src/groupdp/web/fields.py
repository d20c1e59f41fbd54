"""Every field of a question, once: name, unit, meaning and range, for the page's form and the API's description.

Names are those of run files and of the command line. Ranges are those of the sliders; what may be typed is decided by
the library alone.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from groupdp._version import VERSION
from groupdp.samplings import SAMPLINGS


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field: what it is called, what it means, and how it is dragged."""

    name: str
    label: str
    unit: str
    meaning: str
    kind: str
    """"number", "integer", "flag" or "table" (of a number for each source)."""
    default: Any
    low: float = 0.0
    high: float = 1.0


_FIELDS = (
    Field(
        name="sampling_rate",
        label="Sampling rate",
        unit="probability",
        meaning="Probability that an example joins a batch.",
        kind="number",
        default=0.01,
        low=1e-4,
        high=1.0,
    ),
    Field(
        name="sampling_rates",
        label="Sampling rates",
        unit="probability, by source",
        meaning="Probability that an example of each source joins a batch.",
        kind="table",
        default={"web": 0.01, "books": 0.001},
    ),
    Field(
        name="batch_size",
        label="Batch size",
        unit="examples",
        meaning="Examples in a batch.",
        kind="integer",
        default=500,
        low=1,
        high=100_000,
    ),
    Field(
        name="dataset_size",
        label="Dataset size",
        unit="examples",
        meaning="Examples in the dataset; of two neighbours, in the smaller one.",
        kind="integer",
        default=50_000,
        low=100,
        high=10_000_000,
    ),
    Field(
        name="largest_batch",
        label="Largest batch",
        unit="examples",
        meaning="A batch with more examples is cut to this many, at random.",
        kind="integer",
        default=600,
        low=1,
        high=100_000,
    ),
    Field(
        name="batches",
        label="Batches",
        unit="per epoch",
        meaning="How many batches an epoch has.",
        kind="integer",
        default=100,
        low=2,
        high=10_000,
    ),
    Field(
        name="participations",
        label="Participations",
        unit="per epoch",
        meaning="How many batches of an epoch an example is in.",
        kind="integer",
        default=1,
        low=1,
        high=100,
    ),
    Field(
        name="one_per_batch",
        label="One per batch",
        unit="",
        meaning="No batch holds two examples of the same person.",
        kind="flag",
        default=False,
    ),
    Field(
        name="noise_multiplier",
        label="Noise multiplier",
        unit="× clipping norm",
        meaning="Standard deviation of the noise of every round.",
        kind="number",
        default=1.0,
        low=0.3,
        high=30.0,
    ),
    Field(
        name="steps",
        label="Steps",
        unit="rounds",
        meaning="How many batches are used.",
        kind="integer",
        default=2000,
        low=1,
        high=100_000,
    ),
    Field(
        name="epochs",
        label="Epochs",
        unit="passes",
        meaning="Passes over the data; every pass is rounded up to whole rounds.",
        kind="number",
        default=20,
        low=0.1,
        high=1000.0,
    ),
    Field(
        name="microbatch_size",
        label="Microbatch",
        unit="examples",
        meaning="Examples averaged before clipping; 1 if each is clipped on its own.",
        kind="integer",
        default=1,
        low=1,
        high=64,
    ),
    Field(
        name="group_size",
        label="Examples of one person",
        unit="examples",
        meaning="Nobody has more than this many in the dataset.",
        kind="integer",
        default=9,
        low=1,
        high=32,
    ),
    Field(
        name="removed",
        label="Removed",
        unit="examples",
        meaning="How many examples the second dataset lacks.",
        kind="integer",
        default=4,
        low=0,
        high=32,
    ),
    Field(
        name="added",
        label="Added",
        unit="examples",
        meaning="How many examples the second dataset has instead.",
        kind="integer",
        default=4,
        low=0,
        high=32,
    ),
    Field(
        name="delta",
        label="Delta",
        unit="probability",
        meaning="Of (ε, δ): well below one over the number of people.",
        kind="number",
        default=1e-6,
        low=1e-12,
        high=1e-2,
    ),
    Field(
        name="epsilon",
        label="Target epsilon",
        unit="nats",
        meaning="The ε that the parameter is chosen for.",
        kind="number",
        default=8.0,
        low=0.1,
        high=100.0,
    ),
)
FIELDS = {field.name: field for field in _FIELDS}

#: Samplings and adjacencies that the older baselines are for.
CLASSIC_SAMPLINGS = ("poisson", "fixed-batch")
CLASSIC_ADJACENCIES = ("add-or-remove", "add", "remove")

#: Label and meaning of every sampling.
_SAMPLINGS = {
    "poisson": ("Poisson", "Every example joins every batch with the same probability, independently."),
    "fixed-batch": ("Fixed batches", "Every batch is a uniform subset of the dataset, drawn anew in every round."),
    "truncated-poisson": ("Poisson, cut", "Poisson sampling; a batch above the largest is cut to it at random."),
    "shuffled": ("Shuffled every epoch", "Every epoch deals a fresh permutation of the dataset into batches."),
    "shuffled-once": ("Shuffled once", "One permutation, dealt into the same batches in every epoch."),
    "fixed-order": ("Fixed order", "The order of the data is not random: no amplification by sampling."),
    "balls-in-bins": ("Balls in bins", "Every epoch deals each example to one of its batches, independently."),
    "spread": ("Spread", "Every epoch deals a person's examples to distinct batches, independently of other people."),
    "allocation": ("Allocation", "Every epoch deals each example to several distinct batches, independently."),
    "poisson-sources": ("Poisson, sources", "Every example joins every batch with the probability of its source."),
}

#: Label and meaning of every adjacency; "exchange" stands for the two numbers removed and added.
_ADJACENCIES = {
    "add-or-remove": ("add or remove", "One dataset is the other plus the person's examples."),
    "add": ("add", "The second dataset is the first plus the person's examples."),
    "remove": ("remove", "The second dataset is the first without the person's examples."),
    "substitute": ("substitute", "The person's examples are replaced by as many others."),
    "zero-out": ("zero out", "The person's examples keep their places, with gradients of zero."),
    "add-and-remove": ("add and remove", "Up to so many changes in all, added or removed in any split."),
    "exchange": ("removed and added", "So many examples leave while so many others join."),
}

#: Longest list of phases in one question.
MOST_PHASES = 20
#: Most group sizes of one curve.
MOST_GROUP_SIZES = 128


def as_json() -> dict[str, Any]:
    """What the page builds its form from."""
    return {
        "fields": {name: asdict(field) for name, field in FIELDS.items()},
        "samplings": [
            {
                "name": name,
                "label": _SAMPLINGS[name][0],
                "meaning": _SAMPLINGS[name][1],
                "fields": list(kind.fields),
                "adjacencies": list(kind.adjacencies),
                "has_baselines": name in CLASSIC_SAMPLINGS,
            }
            for name, kind in SAMPLINGS.items()
        ],
        "adjacencies": [
            {"name": name, "label": label, "meaning": meaning, "has_baselines": name in CLASSIC_ADJACENCIES}
            for name, (label, meaning) in _ADJACENCIES.items()
        ],
        "most_phases": MOST_PHASES,
        "version": VERSION,
    }
