"""Checkpoints of Opacus: resumed with the same group size, refused with another."""

from __future__ import annotations

import pytest

import groupdp
from refusals import refused

pytest.importorskip("opacus", reason="needs the extra opacus: make test-integrations")

import torch
from opacus import PrivacyEngine
from opacus.schedulers import StepNoise

from groupdp.integrations import opacus as group_opacus
from integrations.opacus_training import parts, train

pytestmark = [
    pytest.mark.filterwarnings("ignore:Secure RNG turned off"),
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),
]
PRIVATE = {"noise_multiplier": 2.0, "max_grad_norm": 1.0}


def saved(path, name, *, steps=4, batch_size=31):
    """A checkpoint after a few steps; returns the module's weights at that point."""
    engine = PrivacyEngine(accountant=name)
    module, optimizer, loader = engine.make_private(**parts(batch_size=batch_size), **PRIVATE)
    train(module, optimizer, loader, steps=steps)
    engine.save_checkpoint(path=path, module=module, optimizer=optimizer)
    return {key: value.clone() for key, value in module.state_dict().items()}


def test_training_goes_on_where_it_stopped(tmp_path):
    name = group_opacus.register(group_size=8)
    weights = saved(tmp_path / "checkpoint.pt", name, batch_size=6)
    engine = PrivacyEngine(accountant=name)
    module, optimizer, loader = engine.make_private(**parts(batch_size=6), **PRIVATE)
    engine.load_checkpoint(path=tmp_path / "checkpoint.pt", module=module, optimizer=optimizer)
    assert all(torch.equal(value, weights[key]) for key, value in module.state_dict().items())
    assert engine.accountant.history == [(2.0, 1 / 31, 4)]
    train(module, optimizer, loader, steps=3)
    assert engine.accountant.history == [(2.0, 1 / 31, 7)]
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=1 / 31), noise_multiplier=2.0, steps=7)
    assert engine.get_epsilon(1e-5) == groupdp.epsilon(run, delta=1e-5, group_size=8).upper


def test_schedulers_go_on_too(tmp_path):
    engine = group_opacus.GroupPrivacyEngine(group_size=2)
    module, optimizer, loader = engine.make_private(**parts(batch_size=31), **PRIVATE)
    scheduler = StepNoise(optimizer, step_size=1, gamma=0.5)
    train(module, optimizer, loader)
    scheduler.step()
    engine.save_checkpoint(path=tmp_path / "c.pt", module=module, optimizer=optimizer, noise_scheduler=scheduler)
    again = group_opacus.GroupPrivacyEngine(group_size=2)
    module, optimizer, loader = again.make_private(**parts(batch_size=31), **{**PRIVATE, "noise_multiplier": 1.0})
    scheduler = StepNoise(optimizer, step_size=1, gamma=0.5)
    again.load_checkpoint(path=tmp_path / "c.pt", module=module, optimizer=optimizer, noise_scheduler=scheduler)
    train(module, optimizer, loader)
    assert again.accountant.history == [(2.0, 1 / 6, 6), (1.0, 1 / 6, 6)]


@pytest.mark.parametrize("other", ["groupdp-4", "groupdp-8-substitute", "rdp"])
def test_a_checkpoint_for_another_group_is_refused(tmp_path, other):
    group_opacus.register(group_size=4)
    group_opacus.register(group_size=8)
    group_opacus.register(group_size=8, adjacency="substitute")
    saved(tmp_path / "checkpoint.pt", other)
    engine = PrivacyEngine(accountant="groupdp-8")
    module, optimizer, _ = engine.make_private(**parts(batch_size=31), **PRIVATE)
    with pytest.raises(groupdp.InvalidArgument, match=f"'groupdp-8', got one of '{other}'"):
        engine.load_checkpoint(path=tmp_path / "checkpoint.pt", module=module, optimizer=optimizer)
    assert engine.accountant.history == []
    content = torch.load(tmp_path / "checkpoint.pt", weights_only=True)  # its history can still be read, for any group
    assert group_opacus.to_opacus(group_opacus.from_opacus(content)) == [(2.0, 1 / 6, 4)]


@pytest.mark.parametrize("other", ["rdp", "prv"])
def test_a_group_checkpoint_is_refused_by_other_accountants(tmp_path, other):
    saved(tmp_path / "checkpoint.pt", group_opacus.register(group_size=8))
    engine = PrivacyEngine(accountant=other)
    module, optimizer, _ = engine.make_private(**parts(batch_size=31), **PRIVATE)
    with pytest.raises(ValueError, match="groupdp-8"):
        engine.load_checkpoint(path=tmp_path / "checkpoint.pt", module=module, optimizer=optimizer)


@pytest.mark.parametrize(
    ("history", "sentence"),
    [
        (None, "history must be a list"),
        ([(2.0, 1.5, 3)], "sample_rate must be"),
        ([(float("nan"), 0.5, 3)], "noise_multiplier must be"),
        ([(2.0, 0.5, 3, 4)], "history must consist of"),
    ],
)
def test_a_spoiled_history_is_refused(history, sentence):
    accountant = group_opacus.accountant_class(8)()
    accountant.step(noise_multiplier=1.0, sample_rate=0.5)
    with pytest.raises(groupdp.InvalidArgument, match=sentence):
        accountant.load_state_dict({"mechanism": "groupdp-8", "history": history})
    assert accountant.history == [(1.0, 0.5, 1)]
    with refused("state_dict"):
        accountant.load_state_dict({})
