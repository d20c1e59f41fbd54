"""Until the engines take pairs: the mixtures they read."""

from __future__ import annotations

from typing import Any

from groupdp.mixture import MixtureOfGaussians

#: A composition: mixtures with the number of rounds of each.
Composition = tuple[tuple[MixtureOfGaussians, int], ...]


def compose_run(run: Any, group_size: Any) -> Composition:
    """The mixtures of a run whose rounds have one side only."""
    from groupdp.compositions import question_of
    from groupdp.engines.bridge import _as_mixtures

    ((_, composition),) = question_of(run, group_size=group_size, adjacency="remove").compositions
    mixtures, _ = _as_mixtures(composition)
    result: Composition = mixtures
    return result
