"""Hypothesis strategies: runs, groups and mixtures as a user might describe them; how many examples are drawn."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from groupdp import DPSGD, FixedBatchSampling, MixtureOfGaussians, PoissonSampling

deltas = st.floats(-30.0, -2.0).map(lambda exponent: 10.0**exponent)
directions = st.sampled_from(["add", "remove"])
group_sizes = st.integers(1, 12)
rates = st.floats(-5.0, 0.0).map(lambda exponent: min(1.0, 10.0**exponent))
noise_multipliers = st.floats(0.5, 50.0)


def examples(number: int, **others: Any) -> settings:
    """So many examples with --whole, and a third of them otherwise."""
    suite = settings.get_current_profile_name() == "suite"
    return settings(max_examples=-(-number // 3) if suite else number, **others)


@st.composite
def poisson_runs(draw: st.DrawFn, *, least_steps: int = 1, most_steps: int = 10**6) -> DPSGD:
    return DPSGD(
        sampling=PoissonSampling(rate=draw(rates)),
        noise_multiplier=draw(noise_multipliers),
        steps=draw(st.integers(least_steps, most_steps)),
    )


@st.composite
def fixed_batch_runs(draw: st.DrawFn, *, least_steps: int = 1, most_steps: int = 10**6) -> DPSGD:
    dataset_size = draw(st.integers(12, 10**6))  # never smaller than the largest of group_sizes
    return DPSGD(
        sampling=FixedBatchSampling(batch_size=draw(st.integers(1, dataset_size)), dataset_size=dataset_size),
        noise_multiplier=draw(noise_multipliers),
        steps=draw(st.integers(least_steps, most_steps)),
    )


def phases(*, least_steps: int = 1, most_steps: int = 10**6) -> st.SearchStrategy[DPSGD]:
    """One phase, with either sampling."""
    return st.one_of(
        poisson_runs(least_steps=least_steps, most_steps=most_steps),
        fixed_batch_runs(least_steps=least_steps, most_steps=most_steps),
    )


def runs(*, least_steps: int = 1, most_steps: int = 10**6) -> st.SearchStrategy[DPSGD | list[DPSGD]]:
    """A run of one phase, or a schedule of two or three."""
    phase = phases(least_steps=least_steps, most_steps=most_steps)
    return st.one_of(phase, st.lists(phase, min_size=2, max_size=3))


@st.composite
def laws(draw: st.DrawFn, *, largest_size: int = 6) -> tuple[list[float], list[float]]:
    """Sensitivities in any order, possibly equal, and probabilities that sum to exactly 1 (some may be 0)."""
    sensitivities = draw(
        st.lists(
            st.one_of(st.just(0.0), st.sampled_from([0.5, 1.0, 2.0]), st.floats(1e-3, 20.0)),
            min_size=1,
            max_size=largest_size,
        )
    )
    cuts = sorted(
        draw(st.lists(st.integers(0, 1024), min_size=len(sensitivities) - 1, max_size=len(sensitivities) - 1))
    )
    edges = [0, *cuts, 1024]
    return sensitivities, [(high - low) / 1024 for low, high in itertools.pairwise(edges)]


@st.composite
def mixtures(draw: st.DrawFn) -> MixtureOfGaussians:
    sensitivities, probabilities = draw(laws())
    return MixtureOfGaussians(sensitivities, probabilities, draw(noise_multipliers))
