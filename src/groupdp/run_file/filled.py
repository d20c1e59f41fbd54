"""What a run file or a command may leave open: sizes that the data's manifest knows, and the adjacency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from groupdp.errors import InvalidArgument
from groupdp.fields import BATCH_SIZE, DATASET_SIZE
from groupdp.mechanisms import DPSGD, MECHANISMS
from groupdp.mechanisms.dpsgd import EPOCHS, steps_of_epochs
from groupdp.neighbours import ADJACENCIES, SAME_SIZE, SUBSTITUTE, ZERO_OUT
from groupdp.samplings import SAMPLINGS

if TYPE_CHECKING:
    from groupdp.data.manifest import Manifest


def with_sizes(values: Mapping[str, Any], data: Manifest, adjacency: str) -> Mapping[str, Any]:
    """The values of a phase with the dataset size that the data have, where it is left open; another one is refused.

    Where the sampling's own dataset size is that of the smaller of two neighbours, a person with all their examples is
    taken away first, and epochs are counted on all rows. A truncated sampling needs that size exactly, and it differs
    from person to person: it is never filled in.
    """
    kind = SAMPLINGS.get(values.get("sampling", ""))
    names = {field.name for field in kind.fields} if kind is not None else set()
    if kind is None or not kind.leaks_most_where_smallest or not {"sampling_rate", "dataset_size"} & names:
        return values
    rows, largest, what = (data.people, 1, "people") if kind.unit == "person" else (data.rows, data.largest, "rows")
    smaller = "dataset_size" in names and adjacency not in SAME_SIZE
    size = rows - largest if smaller else rows
    if "dataset_size" in values:
        given = DATASET_SIZE.read(values["dataset_size"])
        if given > size if smaller else given != size:
            least = "at most " if smaller else ""
            without = " without one person" if smaller else ""
            raise InvalidArgument("dataset_size", given, f"be {least}{size}, the {what} of {data.file}{without}")
        return values
    if "batch_size" not in values or "sampling_rate" in values:
        return values
    if smaller and EPOCHS.name in values and "steps" not in values:
        share = Fraction(BATCH_SIZE.read(values["batch_size"]), max(rows, 1))
        passes = EPOCHS.read(values[EPOCHS.name])
        values = {key: value for key, value in values.items() if key != EPOCHS.name}
        values["steps"] = steps_of_epochs(passes, share)
    return {**values, "dataset_size": size}


def adjacency_for(phases: Sequence[Mapping[str, Any]], *, several: bool = False) -> str:
    """The adjacency meant where none is given: the usual one, or the one for places that are kept.

    Where records have `several` owners, one that leaves the graph of owners as it is.
    """
    kinds = [_mechanism(phase) or SAMPLINGS.get(phase.get("sampling", "")) for phase in phases]
    known = [kind.adjacencies for kind in kinds if kind is not None]
    wanted = (ZERO_OUT, SUBSTITUTE) if several else (ADJACENCIES[0], ZERO_OUT)
    return next((one for one in wanted if all(one in names for names in known)), wanted[0])


def _mechanism(phase: Mapping[str, Any]) -> Any:
    """The mechanism of a phase that has no sampling."""
    kind = MECHANISMS.get(phase.get("mechanism", DPSGD.name))
    return None if kind is DPSGD else kind
