"""From a call to the kernel: few files, nothing made twice, and the bits of the long way."""

from __future__ import annotations

import math
import sys
from functools import _lru_cache_wrapper
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import groupdp
from groupdp import DPSGD, Bounds, PoissonSampling
from groupdp.engines import spectral
from groupdp.guarantees import epsilons
from groupdp.laws import binomial_law
from groupdp.pairs import Composition, Round, Side
from strategies import deltas, examples, group_sizes, poisson_runs

PACKAGE = Path(groupdp.__file__).resolve().parent

pytestmark = pytest.mark.skipif(not spectral.AVAILABLE, reason="the kernel is not compiled")


def forget_everything() -> None:
    """Empty every cache of the package: the next answer is made from nothing."""
    for name, module in list(sys.modules.items()):
        if name.startswith("groupdp"):
            for value in vars(module).values():
                if isinstance(value, _lru_cache_wrapper):
                    value.cache_clear()


@given(poisson_runs(least_steps=20), group_sizes, st.lists(deltas, min_size=2, max_size=3, unique=True))
@examples(20)
def test_a_warm_call_returns_the_bits_of_a_cold_one(run: DPSGD, group_size: int, several: list[float]) -> None:
    def answers(*, cold: bool) -> list[tuple[Bounds, Any] | str]:
        found: list[tuple[Bounds, Any] | str] = []
        for delta in several:
            if cold:
                forget_everything()
            try:
                bounds = groupdp.epsilon(run, delta=delta, group_size=group_size, engine="spectral")
                found.append((bounds, bounds.provenance))
            except groupdp.LimitExceeded as error:
                found.append(str(error))
        return found

    forget_everything()
    warm = answers(cold=False)
    assert answers(cold=False) == warm == answers(cold=True)


@given(st.floats(1e-3, 0.05), st.floats(0.6, 4.0), st.integers(500, 5000), group_sizes, st.floats(-9.0, -5.0))
@examples(25)
def test_the_answer_is_the_worst_of_what_the_kernel_says_of_each_order(
    rate: float, noise: float, steps: int, group_size: int, exponent: float
) -> None:
    """The short way beside the long one: laws, rounds and engine calls written out."""
    delta = 10.0**exponent
    run = DPSGD(PoissonSampling(rate=rate), noise_multiplier=noise, steps=steps)
    asked = groupdp.epsilon(run, delta=delta, group_size=group_size)
    here = Side(*_scaled(group_size, rate, noise))
    nobody = Side.point(0.0)
    both = [_alone(((Round.of(*sides), steps),), delta) for sides in ((here, nobody), (nobody, here))]
    assert asked.upper == max(one.upper for one in both)
    assert asked.lower == max(one.lower for one in both)


def _scaled(group_size: int, rate: float, noise: float) -> tuple[Any, Any]:
    return np.arange(group_size + 1.0) / noise, binomial_law(group_size, rate)


def _alone(composition: Composition, delta: float) -> Bounds:
    return spectral.epsilon(composition, log_delta=math.log(delta))


def test_a_warm_call_passes_through_eight_files():
    run = DPSGD(PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=2000)
    groupdp.epsilon(run, delta=1e-6, group_size=1)
    files: set[str] = set()
    calls = 0

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            files.add(path.relative_to(PACKAGE).as_posix())
            calls += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        groupdp.epsilon(run, delta=1.1e-6, group_size=1)
    finally:
        sys.setprofile(before)
    assert len(files) <= 8, sorted(files)
    assert calls <= 60  # 130 before what does not depend on delta was kept


@given(
    st.lists(
        st.tuples(st.floats(0.005, 0.05), st.floats(0.8, 8.0), group_sizes, st.floats(1e-9, 1e-5)),
        min_size=9,
        max_size=12,
    )
)
@examples(6)
def test_a_batch_on_threads_has_the_answers_of_single_calls(settings_of_runs: list[tuple[float, ...]]) -> None:
    """The worst order, both sides and what is said about them; one question of the batch is refused."""
    asked = [
        (DPSGD(PoissonSampling(rate=rate), noise_multiplier=noise, steps=2000), {"group_size": size, "delta": delta})
        for rate, noise, size, delta in settings_of_runs
    ]
    *several, refused = epsilons([*asked, (asked[0][0], {"group_size": -1, "delta": 1e-6})], threads=2)
    assert isinstance(refused, groupdp.InvalidArgument)
    assert refused.argument == "group_size"
    for (run, keywords), found in zip(asked, several, strict=True):
        alone = groupdp.epsilon(run, **keywords)
        assert isinstance(found, Bounds)
        assert (found, found.tight, found.provenance) == (alone, alone.tight, alone.provenance)
