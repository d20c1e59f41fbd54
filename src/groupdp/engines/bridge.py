"""Until the engines take pairs: one-sided compositions given to them as mixtures and a direction."""

from __future__ import annotations

import math
import time
from typing import Any

from groupdp.engines import spectral as _spectral
from groupdp.errors import LimitExceeded
from groupdp.mixture import MixtureOfGaussians
from groupdp.pairs import Composition


def _as_mixtures(composition: Composition) -> tuple[Any, Any]:
    direction = None
    parts = []
    for one, times in composition:
        branches: tuple[Any, ...] = getattr(one, "branches", ())
        if len(branches) != 1:
            raise LimitExceeded("coins are not yet answered.")
        branch = branches[0]
        this = "remove" if branch.left.is_zero else "add" if branch.right.is_zero else None
        if this is None or direction not in (None, this):
            raise LimitExceeded("two-sided pairs are not yet answered.")
        direction = this
        side = branch.right if this == "remove" else branch.left
        parts.append(
            (MixtureOfGaussians.from_law(side.shifts, (side.probabilities, side.log_probabilities), 1.0), times)
        )
    return tuple(parts), direction


class spectral:
    @staticmethod
    def epsilon(composition: Composition, **rest: Any) -> Any:
        mixtures, direction = _as_mixtures(composition)
        return _spectral.epsilon(mixtures, direction=direction, **rest)

    @staticmethod
    def log_delta(composition: Composition, **rest: Any) -> Any:
        mixtures, direction = _as_mixtures(composition)
        return _spectral.log_delta(mixtures, direction=direction, **rest)

    @staticmethod
    def epsilon_ceiling(composition: Composition, **rest: Any) -> Any:
        mixtures, direction = _as_mixtures(composition)
        return _spectral.epsilon_ceiling(mixtures, direction=direction, **rest)


class lattice:
    @staticmethod
    def _ask(question: str, composition: Composition, deadline: float, progress: Any, **rest: Any) -> Any:
        from groupdp.engines import lattice as _lattice

        mixtures, direction = _as_mixtures(composition)

        def report(fraction: float) -> None:
            if time.monotonic() > deadline:
                raise LimitExceeded("the lattice engine did not finish within its limit of 60 seconds.")
            if progress is not None:
                progress(fraction)

        return getattr(_lattice, question)(mixtures, direction=direction, progress=report, **rest)

    @staticmethod
    def epsilon(composition: Composition, *, deadline: float = math.inf, progress: Any = None, **rest: Any) -> Any:
        return lattice._ask("epsilon", composition, deadline, progress, **rest)

    @staticmethod
    def log_delta(composition: Composition, *, deadline: float = math.inf, progress: Any = None, **rest: Any) -> Any:
        return lattice._ask("log_delta", composition, deadline, progress, **rest)


def neighbourhood(composition: Composition, *, epsilon: float, log_delta: float) -> Any:
    from groupdp.engines.spectral.neighbourhood import neighbourhood as by_numpy

    mixtures, direction = _as_mixtures(composition)
    return by_numpy(mixtures, direction=direction, epsilon=epsilon, log_delta=log_delta)
