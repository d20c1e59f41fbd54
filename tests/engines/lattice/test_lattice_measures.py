"""One round on the lattice: the upper measure dominates and the lower one is dominated, entry by rounded entry."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from engines.lattice_balls import BITS, ExactCurve, binomial_mixture, branch_loss, composed, exact_loss, exact_mixture
from groupdp.engines.lattice.cells import width_exponents
from groupdp.engines.lattice.parts import TransformGrid, cells_of
from groupdp.engines.lattice.planning import prepare, rounded_step
from groupdp.engines.lattice.support import invert, log_importance, loss_table, support_of
from oracle import closed as oracle_closed

CASES = [  # group size, rate, noise, direction, step, tilt
    (1, 0.01, 1.0, "remove", 1e-3, 6.0),
    (1, 0.01, 1.0, "add", 1e-3, 9.0),
    (4, 0.01, 1.0, "remove", 2e-3, 1.6),
    (4, 0.01, 1.0, "add", 1e-3, 2.0),
    (16, 0.05, 0.5, "remove", 0.05, 0.2),
    (16, 0.05, 0.5, "add", 0.02, 0.5),
    (2, 1.0, 3.0, "remove", 0.003, 1.0),
    (8, 0.1, 20.0, "add", 1e-2, 20.0),
    (64, 0.01, 4.0, "remove", 0.01, 1.0),
    (1, 1e-4, 0.5, "add", 1e-5, 500.0),
]


def measure_of(composition, step, tilt, up):
    """The tilted measure of one round of the first part, and the lattice points that its cells are built on."""
    plan = prepare(composition, log_delta=-30.0, tolerance=1e-6)
    part, step = plan.parts[0], rounded_step(step)
    grid = TransformGrid(rate=tilt, step=step, length=1 << 22, left=0.0, theta_left=-0.1, theta_right=0.1)
    log_mass = log_importance(part.law, rate=tilt, epsilon=0.0, survival=None)
    mass = part.measure(grid, log_mass, share=1.0, up=up, advance=lambda _: None)
    exponents = width_exponents(part.law, log_mass, rate=tilt, step=step, share=1.0)
    points = []
    for piece in part.pieces:
        table = piece.table.shifted(mass.tilt.offset)
        points += [own.indices for own in cells_of(table, exponents[piece.begin : piece.end], step)]
    return mass, mass.tilt.offset + step * np.unique(np.concatenate(points))


@pytest.mark.thinned(8)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("up", [False, True], ids=["lower", "upper"])
def test_one_round_is_bracketed_at_every_order(case, up):
    # tries to break L-2, L-3, L-4, L-5 and L-6
    group_size, rate, noise, direction, step, tilt = case
    composition = composed((binomial_mixture(group_size, rate, noise), 1000), direction=direction)
    exact = exact_mixture(group_size, rate, noise)
    rng = np.random.default_rng(7)
    with ctx.workprec(BITS):
        mass, dots = measure_of(composition, step, tilt, up)
        curve = ExactCurve(mass)
        live = dots[[bool(curve.delta(loss) > 1e-15) for loss in dots.tolist()]]
        chosen = rng.choice(live, size=min(12, len(live)), replace=False)
        # at lattice points, where connecting the dots touches the curve, just beside them and in between
        between = chosen + step * rng.random(len(chosen))
        epsilons = np.concatenate((chosen, np.nextafter(chosen, 9.0), between, [0.0, -0.3]))
        closest = math.inf
        for epsilon in epsilons.tolist():
            truth = oracle_closed._one_round(exact, arb(epsilon), direction)[0].exp()
            bound = curve.delta(epsilon)
            assert not (bound < truth if up else bound > truth)
            if truth > 1e-12:
                closest = min(closest, float(abs(bound / truth - 1).mid()))
    if up:  # the dots are connected to a few roundings, not to a safety margin
        assert closest < 1e-10


@given(
    group_size=st.integers(1, 40),
    rate=st.floats(1e-5, 1.0),
    noise=st.floats(0.2, 30.0),
    direction=st.sampled_from(["add", "remove"]),
    offset=st.sampled_from([0.0, 0.37]),
)
def test_losses_and_densities_are_within_their_errors(group_size, rate, noise, direction, offset):
    loss = branch_loss(binomial_mixture(group_size, rate, noise), direction).shifted(offset)
    interval = support_of(loss, log_cut=-80.0).intervals[0]
    nodes = np.linspace(*interval, 12)
    values = loss.evaluate(nodes)
    exact = exact_mixture(group_size, rate, noise)
    with ctx.workprec(BITS):
        for i, t in enumerate(nodes.tolist()):
            true_loss, log_density = exact_loss(exact, t, direction)
            assert abs(true_loss - arb(offset) - arb(float(values.loss[i]))) <= float(values.loss_error[i])
            assert abs(log_density - arb(float(values.log_density[i]))) <= float(values.density_error[i])
    assert np.all(values.loss_error < 1e-11 * (1.0 + np.abs(values.loss) + offset))


@pytest.mark.parametrize("case", [(64, 0.01, 4.0, "remove"), (1, 1e-3, 0.3, "add"), (9, 0.5, 1.0, "remove")])
def test_the_loss_is_inverted_wherever_it_is(case):
    # k = 64, q = 0.01: a loss is not between those of the smallest and the largest sensitivity alone
    *law, direction = case
    loss = branch_loss(binomial_mixture(*law), direction)
    table = loss_table(loss, support_of(loss, log_cut=-60.0))
    ends = table.values.loss[[0, -1]]
    targets = np.sort(np.random.default_rng(3).uniform(*ends, 2000))
    found = invert(loss, table, 0, targets)
    assert np.all(np.abs(found.loss - targets) <= 2.0 * found.loss_error)
    again = loss.evaluate(found.nodes)
    assert np.all(np.abs(again.loss - found.loss) <= again.loss_error + found.loss_error)
