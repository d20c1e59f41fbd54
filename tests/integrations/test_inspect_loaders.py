"""`groupdp.inspect` on 30 loaders: 10 right ones, and 20 that are wrong in ways that are reported of real training.

Each wrong one comes with the claim that its authors made. A stand-in has the features of Trainers that `inspect` reads;
test_inspect_trainers.py has real ones.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
opacus = pytest.importorskip("opacus")

from opacus.data_loader import DPDataLoader
from opacus.utils.uniform_sampler import UniformWithReplacementSampler
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

import groupdp
from groupdp.loading import BallsInBinsBatches, MaskedDataset, PoissonBatches, SpreadBatches
from groupdp.run_file import read_run_file

pytestmark = [
    pytest.mark.filterwarnings("ignore:Secure RNG turned off"),
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),
]
SIZE, BATCH = 60, 6
DATA = TensorDataset(torch.arange(SIZE, dtype=torch.float32).reshape(-1, 1), torch.zeros(SIZE, dtype=torch.int64))
OWNERS = np.arange(SIZE) // 3
POISSON = groupdp.PoissonSampling(rate=0.1)
SHUFFLED = groupdp.ShuffledSampling(batch_size=BATCH, dataset_size=SIZE)
THROWN = groupdp.BallsInBinsSampling(batches=10)
SPREAD = groupdp.SpreadSampling(batches=10)


class Shuffled(Sampler):
    """A user's own batch sampler that shuffles, and is accounted as something else."""

    def __iter__(self):
        yield from torch.randperm(SIZE).reshape(-1, BATCH).tolist()

    def __len__(self):
        return SIZE // BATCH


class GrowingBatches(Sampler):
    """A schedule: batches become larger within an epoch."""

    def __iter__(self):
        order, at = torch.randperm(SIZE).tolist(), 0
        for size in (2, 4, 6, 8, 10, 30):
            yield order[at : at + size]
            at += size

    def __len__(self):
        return 6


class Balanced(Sampler):
    """Batches with as many examples of each class, by the labels."""

    def __iter__(self):
        for _ in range(10):
            yield [*torch.randint(0, 10, (3,)).tolist(), *torch.randint(10, SIZE, (3,)).tolist()]

    def __len__(self):
        return 10


class Stream(IterableDataset):
    def __iter__(self):
        yield from range(SIZE)


class OwnLoader(DataLoader):
    def __iter__(self):
        for batch in super().__iter__():
            yield batch
            yield batch


def distributed(rank, *, replicas=2, seed=0, dataset=DATA, drop_last=False):
    sampler = DistributedSampler(dataset, num_replicas=replicas, rank=rank, seed=seed, drop_last=drop_last)
    return DataLoader(dataset, batch_size=3, sampler=sampler)


def trainer(loader, *, accumulation=1, world_size=1, model=None, **arguments):
    args = SimpleNamespace(gradient_accumulation_steps=accumulation, world_size=world_size, **arguments)
    return SimpleNamespace(args=args, get_train_dataloader=lambda: loader, model=model)


def private(loader, **options):
    """The loader and the engine after one epoch of Opacus."""
    model = torch.nn.Linear(1, 2)
    engine = opacus.PrivacyEngine(accountant="rdp")
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=loader,
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        **options,
    )
    for inputs, labels in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    return loader, engine


def plain(**options):
    return DataLoader(DATA, batch_size=BATCH, **options)


def poisson_loader():
    return DPDataLoader.from_data_loader(plain())


#: name: (loader, arguments of inspect, the sampling that it is)
RIGHT = {
    "shuffled as shuffled": (lambda: plain(shuffle=True), {"claim": SHUFFLED, "draw": 60}, SHUFFLED),
    "in order": (
        lambda: plain(),
        {"claim": "fixed-order", "draw": 5},
        groupdp.FixedOrderSampling(batch_size=BATCH, dataset_size=SIZE),
    ),
    "Opacus's loader": (poisson_loader, {"claim": "poisson", "draw": 60}, None),
    "an engine's loader": (lambda: private(plain())[0], {"claim": POISSON}, None),
    "our Poisson batches": (
        lambda: DataLoader(DATA, batch_sampler=PoissonBatches(SIZE, rate=0.1, seed=1)),
        {"claim": POISSON, "draw": 60},
        POISSON,
    ),
    "our balls in bins": (
        lambda: DataLoader(DATA, batch_sampler=BallsInBinsBatches(SIZE, batches=10, seed=1)),
        {"claim": THROWN, "draw": 60},
        THROWN,
    ),
    "our spread batches, padded": (
        lambda: DataLoader(MaskedDataset(DATA), batch_sampler=SpreadBatches(OWNERS, batches=10, seed=1, padding=30)),
        {"claim": SPREAD, "draw": 60},
        SPREAD,
    ),
    "our batches of people": (
        lambda: PoissonBatches(owners=OWNERS, rate=0.1, seed=1),
        {"claim": POISSON, "draw": 60},
        POISSON,
    ),
    "all ranks of our batches": (
        lambda: [
            DataLoader(DATA, batch_sampler=BallsInBinsBatches(SIZE, batches=10, seed=1, rank=rank, world_size=2))
            for rank in range(2)
        ],
        {"claim": THROWN, "draw": 60},
        THROWN,
    ),
    "a trainer that accumulates shuffled batches": (
        lambda: trainer(DataLoader(DATA, batch_size=3, shuffle=True), accumulation=2),
        {"claim": SHUFFLED, "draw": 60},
        SHUFFLED,
    ),
    "all ranks of a distributed sampler": (
        lambda: [distributed(rank) for rank in range(2)],
        {"claim": "fixed-order", "draw": 5},
        groupdp.FixedOrderSampling(batch_size=BATCH, dataset_size=SIZE),
    ),
}

#: name: (loader, arguments of inspect)
WRONG = {
    "shuffling accounted as Poisson": (lambda: plain(shuffle=True), {"claim": POISSON}),
    "order accounted as shuffling": (lambda: plain(), {"claim": "shuffled"}),
    "weights": (lambda: plain(sampler=WeightedRandomSampler([1.0] * SIZE, SIZE)), {}),
    "replacement": (lambda: plain(sampler=RandomSampler(DATA, replacement=True)), {}),
    "more draws than examples": (lambda: plain(sampler=RandomSampler(DATA, num_samples=2 * SIZE)), {}),
    "a subset by the data": (lambda: plain(sampler=SubsetRandomSampler(range(0, SIZE, 2))), {}),
    "a subset with repetitions": (
        lambda: DataLoader(Subset(DATA, [0, 1, 1, 2]), batch_size=2, shuffle=True),
        {"claim": "shuffled"},
    ),
    "a stream with a shuffle buffer": (lambda: DataLoader(Stream(), batch_size=BATCH), {}),
    "no batches of its own": (lambda: DataLoader(DATA, batch_size=None), {}),
    "DDP doubled": (lambda: plain(shuffle=True), {"world_size": 2, "claim": "shuffled"}),
    "DDP doubled, with Opacus's loader": (poisson_loader, {"world_size": 2, "claim": POISSON}),
    "DDP that repeats examples": (
        lambda: [distributed(rank, replicas=2, dataset=Subset(DATA, range(59))) for rank in range(2)],
        {},
    ),
    "ranks with seeds of their own": (lambda: [distributed(rank, seed=rank) for rank in range(2)], {}),
    "our batches with seeds of their own": (
        lambda: [BallsInBinsBatches(SIZE, batches=10, seed=rank, rank=rank, world_size=2) for rank in range(2)],
        {"claim": THROWN},
    ),
    "one rank twice": (lambda: [distributed(0), distributed(0)], {}),
    "a distributed sampler accounted as shuffling": (lambda: distributed(0), {"claim": "shuffled"}),
    "accumulation counted as steps": (
        lambda: trainer(plain(shuffle=True), accumulation=4),
        {"claim": SHUFFLED},
    ),
    "accumulated Poisson batches": (lambda: trainer(poisson_loader(), accumulation=2), {"claim": POISSON}),
    "accumulated spread batches": (
        lambda: DataLoader(DATA, batch_sampler=SpreadBatches(OWNERS, batches=10, seed=1)),
        {"accumulation": 2, "claim": SPREAD},
    ),
    "a trainer on two processes": (lambda: trainer(plain(shuffle=True), world_size=2), {"claim": SHUFFLED}),
    "a trainer that groups by length": (lambda: trainer(plain(shuffle=True), group_by_length=True), {}),
    "a batch size that is searched for": (lambda: trainer(plain(shuffle=True), auto_find_batch_size=True), {}),
    "batch normalisation": (
        lambda: trainer(plain(shuffle=True), model=torch.nn.Sequential(torch.nn.BatchNorm1d(1))),
        {"claim": SHUFFLED},
    ),
    "drop_last raises the rate": (
        lambda: DPDataLoader.from_data_loader(DataLoader(DATA, batch_size=25, drop_last=True)),
        {"claim": groupdp.PoissonSampling(rate=25 / 60)},
    ),
    "a rate that is not the loader's": (poisson_loader, {"claim": groupdp.PoissonSampling(rate=0.05)}),
    "a sampler of another dataset": (
        lambda: DataLoader(DATA, batch_sampler=UniformWithReplacementSampler(num_samples=30, sample_rate=0.2)),
        {"claim": "poisson"},
    ),
    "our sampler of another dataset": (
        lambda: DataLoader(DATA, batch_sampler=PoissonBatches(50, rate=0.1, seed=1)),
        {"claim": POISSON},
    ),
    "Opacus with poisson_sampling=False": (
        lambda: private(plain(shuffle=True), poisson_sampling=False)[0],
        {"claim": "poisson"},
    ),
    "a schedule of batch sizes": (lambda: DataLoader(DATA, batch_sampler=GrowingBatches()), {}),
    "a custom sampler that shuffles": (
        lambda: DataLoader(DATA, batch_sampler=Shuffled()),
        {"claim": POISSON, "draw": 60},
    ),
    "batches balanced by label": (
        lambda: DataLoader(DATA, batch_sampler=Balanced()),
        {"claim": POISSON, "draw": 60},
    ),
    "a loader class of its own": (lambda: OwnLoader(DATA, batch_size=BATCH, shuffle=True), {"claim": "shuffled"}),
    "a generator": (lambda: (batch for batch in [[0, 1], [2, 3]]), {}),
}


#: A part of the problem that each of them has to be refused for.
REASONS = {
    "shuffling accounted as Poisson": "shuffled epochs",
    "order accounted as shuffling": "fixed order",
    "weights": "weights",
    "replacement": "replacement",
    "more draws than examples": "another number",
    "a subset by the data": "leaves examples",
    "a subset with repetitions": "more than once",
    "a stream with a shuffle buffer": "stream",
    "no batches of its own": "batch_size=None",
    "DDP doubled": "2 processes",
    "DDP doubled, with Opacus's loader": "2 processes",
    "DDP that repeats examples": "repeats 1",
    "ranks with seeds of their own": "seed",
    "our batches with seeds of their own": "seed",
    "one rank twice": "ranks [0, 0]",
    "a distributed sampler accounted as shuffling": "fixed order",
    "accumulation counted as steps": "batch size 24",
    "accumulated Poisson batches": "summed",
    "accumulated spread batches": "summed",
    "a trainer on two processes": "2 processes",
    "a trainer that groups by length": "group_by_length",
    "a batch size that is searched for": "auto_find_batch_size",
    "batch normalisation": "BatchNorm1d",
    "drop_last raises the rate": "draws with 0.5",
    "a rate that is not the loader's": "rate of 0.05",
    "a sampler of another dataset": "30 examples",
    "our sampler of another dataset": "50 examples",
    "Opacus with poisson_sampling=False": "shuffled epochs",
    "a schedule of batch sizes": "GrowingBatches",
    "a custom sampler that shuffles": "exactly once in an epoch",
    "batches balanced by label": "one particular example",
    "a loader class of its own": "subclass",
    "a generator": "not known",
}


def test_there_are_as_many_as_are_asked_for():
    assert len(RIGHT) >= 10
    assert len(WRONG) >= 20


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_loader_passes(name):
    make, arguments, sampling = RIGHT[name]
    torch.manual_seed(3)
    found = groupdp.inspect(make(), **arguments)
    assert found.passes, str(found)
    assert found.evidence
    if sampling is None:  # Opacus draws with single precision, and the larger of both rates is reported
        assert 0.1 <= found.sampling.rate <= 0.1 + 2**-24
    else:
        assert found.sampling == sampling
    assert found.steps_per_epoch == 10
    assert found.test is None or not found.test.contradicted


@pytest.mark.parametrize("name", WRONG)
def test_no_wrong_loader_passes(name, tmp_path):
    make, arguments = WRONG[name]
    torch.manual_seed(3)
    found = groupdp.inspect(make(), **arguments)
    assert not found.passes
    assert all(problem.endswith(".") for problem in found.problems)
    assert any(REASONS[name] in problem for problem in found.problems), found.problems
    with pytest.raises(groupdp.InvalidArgument):
        found.run_file(tmp_path / "run.toml", noise_multiplier=1.0, epochs=1)
    assert not (tmp_path / "run.toml").exists()


def test_drawing_catches_a_custom_sampler_and_never_passes_one():
    loader = DataLoader(DATA, batch_sampler=Shuffled())
    assert groupdp.inspect(loader, claim=POISSON, draw=200).test.contradicted
    right = groupdp.inspect(loader, claim=SHUFFLED, draw=200)
    assert not right.test.contradicted
    assert not right.passes  # that nothing is contradicted proves nothing


def test_an_engine_is_compared_with_its_loader():
    loader, engine = private(plain())
    assert groupdp.inspect(loader, claim=engine).passes
    assert not groupdp.inspect(engine).passes
    shuffled, wrong = private(plain(shuffle=True), poisson_sampling=False)
    assert not groupdp.inspect(shuffled, claim=wrong).passes


def test_drawing_leaves_the_generators_as_they_were():
    generator = torch.Generator().manual_seed(5)
    loader = plain(shuffle=True, generator=generator)
    before, own = torch.get_rng_state(), generator.get_state()
    groupdp.inspect(loader, draw=5)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(generator.get_state(), own)
    batches = SpreadBatches(OWNERS, batches=10, seed=1)
    groupdp.inspect(DataLoader(DATA, batch_sampler=batches), draw=5)
    assert batches.steps_done == 0


def test_one_rank_of_opacus_cannot_be_drawn_from_alone():
    with pytest.raises(groupdp.InvalidArgument) as refused:
        groupdp.inspect(distributed(0), draw=5)
    assert refused.value.argument == "draw"


def test_the_run_file_is_the_run(tmp_path):
    found = groupdp.inspect(plain(shuffle=True), claim="shuffled")
    found.run_file(tmp_path / "run.toml", noise_multiplier=2.0, epochs=3, delta=1e-6, group_size=4)
    file = read_run_file(tmp_path / "run.toml")
    assert file.phases == (groupdp.DPSGD(SHUFFLED, noise_multiplier=2.0, steps=30),)
    assert file.adjacency in SHUFFLED.adjacencies
    with pytest.raises(groupdp.InvalidArgument) as refused:
        found.run_file(tmp_path / "run.toml", noise_multiplier=2.0, epochs=3)
    assert refused.value.argument == "path"


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_with_our_batches_trains_on_exactly_them(workers):
    batches = SpreadBatches(OWNERS, batches=10, seed=7)
    expected = [batch.tolist() for batch in SpreadBatches(OWNERS, batches=10, seed=7).arrays()]
    collate = opacus.data_loader.wrap_collate_with_empty(collate_fn=torch.utils.data.default_collate)
    context = "spawn" if workers else None  # a fork of a process with threads, such as JAX's, may hang
    loader = DataLoader(
        DATA, batch_sampler=batches, num_workers=workers, collate_fn=collate, multiprocessing_context=context
    )
    assert [items[0].reshape(-1).int().tolist() for items in loader] == expected
    state = batches.state_dict(steps=4)  # workers ask ahead: the steps trained are given
    resumed = SpreadBatches(OWNERS, batches=10, seed=7)
    resumed.load_state_dict(state)
    left = DataLoader(DATA, batch_sampler=resumed, collate_fn=collate)
    assert [items[0].reshape(-1).int().tolist() for items in left] == expected[4:]


def test_global_seeds_of_torch_have_no_effect():
    torch.manual_seed(0)
    first = list(SpreadBatches(OWNERS, batches=10, seed=7))
    torch.manual_seed(1)
    assert list(SpreadBatches(OWNERS, batches=10, seed=7)) == first


def test_padded_batches_of_a_loader_have_one_shape():
    batches = SpreadBatches(OWNERS, batches=10, seed=7, padding=20)
    for (inputs, _), mask in DataLoader(MaskedDataset(DATA), batch_sampler=batches):
        assert inputs.shape == (20, 1)
        assert mask.shape == (20,)


def test_sequential_batches_of_a_batch_sampler_are_read_too():
    loader = DataLoader(DATA, batch_sampler=BatchSampler(SequentialSampler(DATA), BATCH, drop_last=False))
    assert groupdp.inspect(loader).sampling == groupdp.FixedOrderSampling(batch_size=BATCH, dataset_size=SIZE)
