"""groupdp as an accountant of Opacus: real models, real steps, and what is refused."""

from __future__ import annotations

import copy
import pickle

import pytest

import groupdp
from refusals import refused

pytest.importorskip("opacus", reason="needs the extra opacus: make test-integrations")

import torch
from opacus import PrivacyEngine
from opacus.accountants.utils import get_noise_multiplier
from opacus.data_loader import DPDataLoader
from opacus.schedulers import ExponentialGradClip, ExponentialNoise, StepNoise
from opacus.utils.adaptive_clipping.adaptive_clipping_utils import PrivacyEngineAdaptiveClipping
from opacus.utils.batch_memory_manager import BatchMemoryManager
from opacus.utils.uniform_sampler import UniformWithReplacementSampler
from torch.utils.data import DataLoader, WeightedRandomSampler

from groupdp import integrations as loaders
from groupdp.integrations import opacus as group_opacus
from groupdp.integrations.opacus import accounted_noise
from integrations.opacus_training import CRITERION, EXAMPLES, parts, train

pytestmark = [
    pytest.mark.filterwarnings("ignore:Secure RNG turned off"),
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),
]
PRIVATE = {"noise_multiplier": 2.0, "max_grad_norm": 1.0}
ADAPTIVE = {
    "clipping": "adaptive",
    "target_unclipped_quantile": 0.5,
    "clipbound_learning_rate": 0.2,
    "max_clipbound": 10.0,
    "min_clipbound": 0.1,
    "unclipped_num_std": 3.0,
}


def epsilon_of(*phases, k=8, delta=1e-5, adjacency="add-or-remove"):
    runs = [
        groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=rate), noise_multiplier=noise, steps=steps)
        for noise, rate, steps in phases
    ]
    return groupdp.epsilon(runs, delta=delta, group_size=k, adjacency=adjacency)


@pytest.fixture
def engine():
    return PrivacyEngine(accountant=group_opacus.register(group_size=8))


@pytest.fixture
def group_engine():
    return group_opacus.GroupPrivacyEngine(group_size=8)


def test_one_line_makes_the_stock_engine_report_for_groups(engine):
    wrapped = engine.make_private(**parts(batch_size=6), **PRIVATE)
    steps = train(*wrapped)
    assert steps == 31
    assert engine.accountant.history == [(2.0, 1 / 31, 31)]
    assert engine.get_epsilon(1e-5) == epsilon_of((2.0, 1 / 31, 31)).upper
    assert len(engine.accountant) == 31
    assert engine.accountant.mechanism() == "groupdp-8"


def test_a_loader_of_93_batches_runs_92_steps_at_one_93rd(engine, group_engine):
    stock = engine.make_private(**parts(), **PRIVATE)
    exact = group_engine.make_private(**parts(), **PRIVATE)
    assert train(*stock) == train(*exact) == 92 == int(1 / (1 / 93))
    assert engine.accountant.history == [(2.0, 1 / 92, 92)]  # what Opacus tells its accountants: never less
    assert group_engine.accountant.history == [(2.0, 1 / 93, 92)]  # what it does
    assert exact[-1].sample_rate == 1 / 93
    run = group_opacus.poisson_run(parts()["data_loader"], noise_multiplier=2.0, epochs=1)
    assert group_opacus.poisson_run(exact[-1], noise_multiplier=2.0, epochs=1) == run
    assert group_opacus.from_opacus(group_engine) == (run,)
    assert (run.sampling.rate, run.steps) == (1 / 93, 92)
    assert group_engine.get_epsilon(1e-5) == groupdp.epsilon(run, delta=1e-5, group_size=8).upper
    assert group_engine.get_epsilon_bounds(1e-5) == groupdp.epsilon(run, delta=1e-5, group_size=8)


@pytest.mark.parametrize("adjacency", ["substitute", "zero-out"])
def test_other_adjacencies_have_names_of_their_own(adjacency):
    name = group_opacus.register(group_size=3, adjacency=adjacency)
    assert name == f"groupdp-3-{adjacency}"
    engine = PrivacyEngine(accountant=name)
    train(*engine.make_private(**parts(batch_size=6), **PRIVATE))
    assert engine.get_epsilon(1e-5) == epsilon_of((2.0, 1 / 31, 31), k=3, adjacency=adjacency).upper


def test_every_group_size_has_a_class_of_its_own():
    names = [group_opacus.register(group_size=k) for k in (1, 2, 4, 2)]
    assert names == ["groupdp-1", "groupdp-2", "groupdp-4", "groupdp-2"]
    epsilons = []
    for name in names[:3]:
        engine = PrivacyEngine(accountant=name)
        train(*engine.make_private(**parts(batch_size=6), **PRIVATE), steps=5)
        epsilons.append(engine.get_epsilon(1e-5))
    assert epsilons == [epsilon_of((2.0, 1 / 31, 5), k=k).upper for k in (1, 2, 4)]
    with refused("group_size"):
        group_opacus.register(group_size=0)
    with refused("adjacency"):
        group_opacus.register(group_size=2, adjacency="remove")


def test_accountants_can_be_copied_and_sent_to_other_processes(engine):
    train(*engine.make_private(**parts(batch_size=31), **PRIVATE), steps=2)
    assert type(engine.accountant) is group_opacus.accountant_class(8)
    for other in (copy.deepcopy(engine.accountant), pickle.loads(pickle.dumps(engine.accountant))):
        assert type(other) is group_opacus.accountant_class(8, "add-or-remove")
        assert other.history == engine.accountant.history == [(2.0, 1 / 6, 2)]
        other.step(noise_multiplier=torch.tensor(2.0), sample_rate=1 / 6)
        assert len(other) == 3 > len(engine.accountant)


def test_noise_schedules_become_phases(engine):
    wrapped = engine.make_private(**parts(batch_size=6), **PRIVATE)
    scheduler = ExponentialNoise(wrapped[1], gamma=0.9)
    for _ in range(2):
        train(*wrapped)
        scheduler.step()
    first, second = wrapped[1].noise_multiplier / 0.9 / 0.9, wrapped[1].noise_multiplier / 0.9
    (noise_1, rate_1, steps_1), (noise_2, rate_2, steps_2) = engine.accountant.history
    assert (noise_1, noise_2) == pytest.approx((first, second))
    assert (rate_1, rate_2, steps_1, steps_2) == (1 / 31, 1 / 31, 31, 31)
    assert engine.get_epsilon(1e-5) == epsilon_of(*engine.accountant.history).upper


def test_clipping_schedules_change_nothing(engine):
    wrapped = engine.make_private(**parts(batch_size=6), **PRIVATE)
    scheduler = ExponentialGradClip(wrapped[1], gamma=0.5)
    for _ in range(2):
        train(*wrapped)
        scheduler.step()
    assert engine.accountant.history == [(2.0, 1 / 31, 62)]


def test_batches_split_for_memory_are_counted_once(group_engine):
    module, optimizer, loader = group_engine.make_private(**parts(batch_size=31), **PRIVATE)
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=4, optimizer=optimizer) as small:
        pieces = train(module, optimizer, small)
    assert pieces > 6
    assert group_engine.accountant.history == [(2.0, 1 / 6, 6)]


@pytest.mark.parametrize("mode", ["hooks", "ew", "functorch"])
def test_every_way_to_get_gradients_is_counted(group_engine, mode):
    wrapped = group_engine.make_private(**parts(batch_size=31), **PRIVATE, grad_sample_mode=mode)
    assert train(*wrapped) == 6
    assert group_engine.accountant.history == [(2.0, 1 / 6, 6)]


def test_ghost_clipping_is_counted(group_engine):
    module, optimizer, criterion, loader = group_engine.make_private(
        **parts(batch_size=6), **PRIVATE, grad_sample_mode="ghost", criterion=torch.nn.CrossEntropyLoss()
    )
    assert train(module, optimizer, loader, criterion=criterion) == 31
    assert group_engine.get_epsilon(1e-5) == epsilon_of((2.0, 1 / 31, 31)).upper


def test_clipping_layer_by_layer_is_counted(group_engine):
    wrapped = group_engine.make_private(
        **parts(batch_size=31, layers=2), noise_multiplier=2.0, max_grad_norm=[0.5] * 4, clipping="per_layer"
    )
    train(*wrapped)
    assert group_engine.accountant.history == [(2.0, 1 / 6, 6)]


@pytest.mark.filterwarnings("ignore:Adaptive clipping in Opacus divides by the size")
def test_adaptive_clipping_pays_for_its_count(group_engine):
    train(*group_engine.make_private(**parts(batch_size=31), **PRIVATE, **ADAPTIVE))
    noise = (2.0**-2 + 0.75 * 3.0**-2) ** -0.5
    ((counted, rate, steps),) = group_engine.accountant.history
    assert (rate, steps) == (1 / 6, 6)
    assert counted == pytest.approx(noise, rel=1e-14)
    assert counted < 2.0
    assert counted == accounted_noise(2.0, 3.0)
    # Gradient (noise 1 / sqrt(1/4 - 1/36)) and count (noise 3), each moved by 1, are one Gaussian mechanism:
    assert counted**-2 == pytest.approx((1 / 4 - 1 / 36) + 1 / 9, rel=1e-14)


def test_adaptive_clipping_says_what_nothing_covers(group_engine):
    wrapped = group_engine.make_private(**parts(batch_size=31), **PRIVATE, **ADAPTIVE)
    with pytest.warns(UserWarning, match="divides by the size of the sampled batch"):
        train(*wrapped, steps=1)


@pytest.mark.filterwarnings("ignore:Adaptive clipping in Opacus divides by the size")
@pytest.mark.parametrize("make", [lambda: PrivacyEngine(accountant="groupdp-8"), None], ids=["stock", "group"])
def test_adaptive_clipping_is_calibrated_with_its_count(make):
    group_opacus.register(group_size=8)
    engine = make() if make else group_opacus.GroupPrivacyEngine(group_size=8)
    options = {**ADAPTIVE, "unclipped_num_std": 40.0}
    wrapped = engine.make_private_with_epsilon(
        **parts(batch_size=31), target_epsilon=4.0, target_delta=1e-5, epochs=1, max_grad_norm=1.0, **options
    )
    train(*wrapped)
    assert 3.98 <= engine.get_epsilon(1e-5) <= 4.0


def test_too_noisy_counts_cannot_reach_every_target(group_engine):
    with refused("unclipped_num_std"):
        group_engine.make_private_with_epsilon(
            **parts(batch_size=6), target_epsilon=0.5, target_delta=1e-5, epochs=1, max_grad_norm=1.0, **ADAPTIVE
        )


def test_noise_is_calibrated_to_what_is_run(group_engine):
    wrapped = group_engine.make_private_with_epsilon(
        **parts(), target_epsilon=3.0, target_delta=1e-5, epochs=2, max_grad_norm=1.0
    )
    noise = wrapped[1].noise_multiplier
    for _ in range(2):
        train(*wrapped)
    assert group_engine.accountant.history == [(noise, 1 / 93, 184)]
    assert 3.0 - 1e-6 <= group_engine.get_epsilon(1e-5) <= 3.0
    assert epsilon_of((noise * (1 - 1e-6), 1 / 93, 184)).upper > 3.0  # and it is the least


def test_the_stock_engines_search_works_with_the_registered_name(engine):
    wrapped = engine.make_private_with_epsilon(
        **parts(batch_size=6), target_epsilon=3.0, target_delta=1e-5, epochs=2, max_grad_norm=1.0
    )
    for _ in range(2):
        train(*wrapped)
    assert 2.98 <= engine.get_epsilon(1e-5) <= 3.0
    noise = get_noise_multiplier(
        target_epsilon=3.0, target_delta=1e-5, sample_rate=1 / 31, epochs=2, accountant="groupdp-8"
    )
    assert wrapped[1].noise_multiplier == noise


@pytest.mark.filterwarnings("ignore:PrivacyEngine detected new dataset object")
def test_a_spent_budget_is_warned_about(group_engine):
    train(*group_engine.make_private(**parts(batch_size=31), **PRIVATE), steps=1)
    with pytest.warns(UserWarning, match="has counted steps already"):
        group_engine.make_private_with_epsilon(
            **parts(batch_size=6), target_epsilon=3.0, target_delta=1e-5, epochs=1, max_grad_norm=1.0
        )


# --- refusals, each through the real tool ---------------------------------------------------------------------------


@pytest.mark.parametrize("shuffle", [True, False])
def test_shuffled_batches_are_refused_by_the_stock_engine(engine, shuffle):
    with pytest.raises(groupdp.InvalidArgument, match=r"poisson_sampling must be True.*shuffled_run"):
        engine.make_private(**parts(shuffle=shuffle), **PRIVATE, poisson_sampling=False)
    assert engine.accountant.history == []


def test_shuffled_batches_are_refused_before_anything_is_wrapped(group_engine):
    given = parts()
    with pytest.raises(groupdp.InvalidArgument, match=r"poisson_sampling must be True.*shuffled_run"):
        group_engine.make_private(**given, **PRIVATE, poisson_sampling=False)
    assert not hasattr(given["module"].weight, "grad_sample")
    with refused("poisson_sampling"):
        group_engine.make_private_with_epsilon(
            **parts(), target_epsilon=3.0, target_delta=1e-5, epochs=1, max_grad_norm=1.0, poisson_sampling=False
        )


def test_opacus_itself_accepts_shuffled_batches_in_silence():
    engine = PrivacyEngine(accountant="rdp")
    train(*engine.make_private(**parts(batch_size=31), **PRIVATE, poisson_sampling=False))
    assert engine.accountant.history == [(2.0, 1 / 6, 6)]


def test_a_loader_that_samples_more_than_is_accounted_for_is_refused(engine, group_engine):
    given = parts()
    sampler = UniformWithReplacementSampler(num_samples=EXAMPLES, sample_rate=0.1, steps=100)
    given["data_loader"] = DataLoader(given["data_loader"].dataset, batch_sampler=sampler)
    stock = PrivacyEngine(accountant="rdp")
    train(*stock.make_private(**given, **PRIVATE, poisson_sampling=False), steps=3)
    assert stock.accountant.history == [(2.0, 0.01, 3)]  # ten times too little
    again = parts()
    again["data_loader"] = given["data_loader"]
    with pytest.raises(groupdp.InvalidArgument, match=r"a rate of 0.01 where 0.1 is sampled"):
        engine.make_private(**again, **PRIVATE, poisson_sampling=False)
    once_more = parts()
    once_more["data_loader"] = given["data_loader"]
    train(*group_engine.make_private(**once_more, **PRIVATE, poisson_sampling=False), steps=3)
    assert group_engine.accountant.history == [(2.0, 0.1, 3)]


def test_a_loader_that_is_poisson_already_may_stay(engine):
    given = parts()
    given["data_loader"] = DPDataLoader.from_data_loader(given["data_loader"])
    train(*engine.make_private(**given, **PRIVATE, poisson_sampling=False), steps=3)
    assert engine.accountant.history == [(2.0, 1 / 92, 3)]


def test_gradients_added_up_over_batches_are_refused(group_engine):
    module, optimizer, loader = group_engine.make_private(**parts(batch_size=31), **PRIVATE)
    module.allow_grad_accumulation()
    batches = iter(loader)
    for _ in range(2):
        inputs, labels = next(batches)
        CRITERION(module(inputs), labels).backward()
    with refused("accumulated_iterations"):
        optimizer.step()


def test_adaptive_ghost_clipping_is_refused():
    engine = PrivacyEngineAdaptiveClipping(accountant=group_opacus.register(group_size=8))
    module, optimizer, criterion, loader = engine.make_private(
        **parts(batch_size=93), **PRIVATE, grad_sample_mode="ghost", criterion=torch.nn.CrossEntropyLoss()
    )
    with refused("clipping"):
        train(module, optimizer, loader, criterion=criterion)


# --- shuffled accounting, offered instead ----------------------------------------------------------------------------


def test_shuffled_runs_are_described_as_they_are():
    loader = parts(batch_size=31)["data_loader"]
    run = group_opacus.shuffled_run(loader, noise_multiplier=4.0, epochs=2)
    assert run.sampling == groupdp.ShuffledSampling(batch_size=31, dataset_size=EXAMPLES)
    assert run.steps == 12
    poisson = group_opacus.poisson_run(loader, noise_multiplier=4.0, epochs=2)
    shuffled = groupdp.epsilon(run, delta=1e-5, group_size=4, adjacency="zero-out")
    assert shuffled > groupdp.epsilon(poisson, delta=1e-5, group_size=4, adjacency="zero-out")
    in_order = group_opacus.shuffled_run(parts(shuffle=False)["data_loader"], noise_multiplier=4.0, epochs=2)
    assert in_order.sampling == groupdp.FixedOrderSampling(batch_size=2, dataset_size=EXAMPLES)
    dropped = group_opacus.shuffled_run(
        parts(batch_size=100, drop_last=True)["data_loader"], noise_multiplier=4.0, epochs=2
    )
    assert dropped.steps == 2
    weighted = DataLoader(loader.dataset, batch_size=2, sampler=WeightedRandomSampler([1.0] * EXAMPLES, EXAMPLES))
    with refused("data_loader"):
        group_opacus.shuffled_run(weighted, noise_multiplier=4.0, epochs=1)
    with refused("data_loader"):
        group_opacus.shuffled_run(DPDataLoader.from_data_loader(loader), noise_multiplier=4.0, epochs=1)


def test_phases_of_a_step_schedule_come_back_as_runs(group_engine):
    module, optimizer, loader = group_engine.make_private(**parts(batch_size=31), **PRIVATE)
    scheduler = StepNoise(optimizer, step_size=2, gamma=0.5)
    for _ in range(4):
        train(module, optimizer, loader)
        scheduler.step()
    runs = group_opacus.from_opacus(group_engine)
    assert [(run.noise_multiplier, run.steps) for run in runs] == [(2.0, 12), (1.0, 12)]
    assert group_opacus.to_opacus(runs) == group_engine.accountant.history
    with refused("run"):
        group_opacus.to_opacus(group_opacus.shuffled_run(parts()["data_loader"], noise_multiplier=1.0, epochs=1))


@pytest.mark.filterwarnings("ignore:GDP accounting is experimental")
def test_histories_of_every_accountant_of_opacus_can_be_read():
    for accountant in ("rdp", "gdp", "prv"):
        engine = PrivacyEngine(accountant=accountant)
        train(*engine.make_private(**parts(batch_size=31), **PRIVATE), steps=4)
        assert group_opacus.to_opacus(group_opacus.from_opacus(engine)) == [(2.0, 1 / 6, 4)]
    for bad, sentence in (
        ("text", "history must be a list"),
        ([], "history must have at least one step"),
        ([(1.0, 0.1)], "history must consist of"),
        ([(1.0, 0.0, 3)], "sample_rate must be"),
        ([(-1.0, 0.1, 3)], "noise_multiplier must be"),
        ([(1.0, 0.1, 0)], "steps must be"),
        ({"other": 1}, "history must be a list"),
    ):
        with pytest.raises(groupdp.InvalidArgument, match=sentence):
            group_opacus.from_opacus(bad)


def test_the_rate_that_single_precision_draws_with():
    rate = 1 / 93
    generator = torch.Generator().manual_seed(1)
    threshold = loaders.drawn_rate(rate)
    assert abs(threshold - rate) < 2.0**-24
    variates = torch.rand(2_000_000, generator=generator)
    assert torch.equal(variates < rate, variates.double() < threshold)
