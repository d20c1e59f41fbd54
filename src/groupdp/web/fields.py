"""What the page's form is made from: the fields of samplings, mechanisms and questions; samplings and adjacencies.

Names are those of run files and of the command line. The fields of samplings and mechanisms are declared on their
classes (groupdp/fields.py); those of every question are here.
"""

from __future__ import annotations

from typing import Any

from groupdp._version import VERSION
from groupdp.fields import Field, Slider
from groupdp.mechanisms import DPSGD, MECHANISMS
from groupdp.mechanisms.named_values import phase_fields
from groupdp.neighbours import MEANINGS
from groupdp.samplings import SAMPLINGS

#: Who the guarantee is about, and its target.
QUESTION_FIELDS = (
    Field(
        name="group_size",
        label="Examples of one person",
        unit="examples",
        meaning="Nobody has more than this many in the dataset.",
        kind="integer",
        at_least=0,
        slider=Slider(start=9, low=1, high=32, logarithmic=False),
    ),
    Field(
        name="removed",
        unit="examples",
        meaning="How many examples the second dataset lacks.",
        kind="integer",
        at_least=0,
        slider=Slider(start=4, low=0, high=32, logarithmic=False),
    ),
    Field(
        name="added",
        unit="examples",
        meaning="How many examples the second dataset has instead.",
        kind="integer",
        at_least=0,
        slider=Slider(start=4, low=0, high=32, logarithmic=False),
    ),
    Field(
        name="delta",
        unit="probability",
        meaning="Of (ε, δ): well below one over the number of people.",
        kind="number",
        at_least=0.0,
        slider=Slider(start=1e-6, low=1e-12, high=1e-2),
    ),
    Field(
        name="epsilon",
        label="Target epsilon",
        unit="nats",
        meaning="The ε that the parameter is chosen for.",
        kind="number",
        at_least=0.0,
        slider=Slider(start=8.0, low=0.1, high=100.0),
    ),
)

#: Samplings and adjacencies that the older baselines are for.
CLASSIC_SAMPLINGS = ("poisson", "fixed-batch")
CLASSIC_ADJACENCIES = ("add-or-remove", "add", "remove")

#: Longest list of phases in one question.
MOST_PHASES = 20
#: Most group sizes of one curve.
MOST_GROUP_SIZES = 128


def fields() -> dict[str, Field]:
    """Every field of a question, by its name."""
    return {**phase_fields(), **{field.name: field for field in QUESTION_FIELDS}}


def as_json() -> dict[str, Any]:
    """What the page builds its form from."""
    return {
        "fields": {name: field.as_json() for name, field in fields().items()},
        "mechanisms": [
            {**_described(kind), "fields": [field.as_json() for field in kind.fields], "has_sampling": kind is DPSGD}
            for kind in MECHANISMS.values()
        ],
        "samplings": [
            {
                **_described(kind),
                "fields": [field.name for field in kind.fields],
                "has_baselines": kind.name in CLASSIC_SAMPLINGS,
            }
            for kind in SAMPLINGS.values()
        ],
        "adjacencies": [
            {"name": name, "label": label, "meaning": meaning, "has_baselines": name in CLASSIC_ADJACENCIES}
            for name, (label, meaning) in MEANINGS.items()
        ],
        "most_phases": MOST_PHASES,
        "version": VERSION,
    }


def _described(kind: Any) -> dict[str, Any]:
    """What the form says of a sampling or mechanism."""
    label = kind.title.removeprefix("a ")
    return {
        "name": kind.name,
        "label": label[:1].upper() + label[1:],
        "meaning": kind.meaning,
        "adjacencies": list(kind.adjacencies),
    }
