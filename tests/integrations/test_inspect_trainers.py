"""`groupdp.inspect` on real Trainers of Hugging Face, and the example that trains with one."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", reason="needs transformers: make test-integrations")
pytest.importorskip("accelerate")

from torch.utils.data import DataLoader, Dataset, IterableDataset, WeightedRandomSampler

import groupdp
from groupdp.loading import PoissonBatches
from paths import ROOT

SIZE = 60
POISSON = groupdp.PoissonSampling(rate=0.1)
ORDERED = groupdp.FixedOrderSampling(batch_size=6, dataset_size=SIZE)


class Rows(Dataset):
    def __len__(self):
        return SIZE

    def __getitem__(self, index):
        if index >= SIZE:
            raise IndexError(index)
        return {"input_ids": torch.arange(1, 3 + index % 5), "labels": torch.tensor(index % 2)}


class Stream(IterableDataset):
    """What a streamed dataset with a shuffle buffer is to a Trainer."""

    def __iter__(self):
        return (Rows()[index] for index in range(SIZE))


class Weighted(transformers.Trainer):
    def _get_train_sampler(self, *_):
        return WeightedRandomSampler([1.0] * SIZE, SIZE)


class OwnBatches(transformers.Trainer):
    def get_train_dataloader(self):
        return DataLoader(Rows(), batch_sampler=PoissonBatches(SIZE, rate=0.1, seed=1))


class OwnLoop(transformers.Trainer):
    """A subclass that repeats its batches."""

    def get_train_dataloader(self):
        class Twice(DataLoader):
            def __iter__(self):
                return (batch for batch in super().__iter__() for _ in range(2))

        return Twice(Rows(), batch_size=6, shuffle=True)


def trainer(kind=transformers.Trainer, *, dataset=None, batch=3, accumulation=2, norm=False, **options):
    model = torch.nn.Sequential(torch.nn.Linear(1, 1), *([torch.nn.BatchNorm1d(1)] if norm else []))
    arguments = transformers.TrainingArguments(
        output_dir="unused",
        per_device_train_batch_size=batch,
        gradient_accumulation_steps=accumulation,
        max_steps=10,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        **options,
    )
    return kind(model=model, args=arguments, train_dataset=Rows() if dataset is None else dataset)


RIGHT = {
    "as it comes": (lambda: trainer(), ORDERED, ORDERED),
    "by name": (lambda: trainer(), "fixed-order", ORDERED),
    "without accumulation": (lambda: trainer(batch=6, accumulation=1), ORDERED, ORDERED),
    "our Poisson batches": (lambda: trainer(OwnBatches, accumulation=1), POISSON, POISSON),
}
WRONG = {
    "accounted as Poisson": (lambda: trainer(), POISSON),
    "accounted as shuffled, with a seed that anybody knows": (lambda: trainer(), "shuffled"),
    "accumulation counted as steps": (
        lambda: trainer(),
        groupdp.FixedOrderSampling(batch_size=3, dataset_size=SIZE),
    ),
    "several Poisson batches joined into one step": (lambda: trainer(OwnBatches, accumulation=2), POISSON),
    "weights": (lambda: trainer(Weighted), None),
    "a stream": (lambda: trainer(dataset=Stream()), None),
    "a stream claimed to be shuffled": (lambda: trainer(dataset=Stream()), "shuffled"),
    "batches by length": (lambda: trainer(train_sampling_strategy="group_by_length"), "fixed-order"),
    "a batch size that changes": (lambda: trainer(auto_find_batch_size=True), ORDERED),
    "batch normalisation": (lambda: trainer(norm=True), ORDERED),
    "a loader that repeats batches": (lambda: trainer(OwnLoop, batch=6, accumulation=1), "shuffled"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_trainer_passes(name):
    make, claim, expected = RIGHT[name]
    found = groupdp.inspect(make(), claim=claim)
    assert found.problems == ()
    assert found.sampling == expected
    assert found.evidence
    assert found.check


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_trainer_is_refused(name, tmp_path):
    make, claim = WRONG[name]
    found = groupdp.inspect(make(), claim=claim)
    assert found.problems
    with pytest.raises(groupdp.InvalidArgument):
        found.run_file(tmp_path / "run.toml", noise_multiplier=1.0, epochs=1)
    assert not (tmp_path / "run.toml").exists()


def test_two_processes_with_one_trainer_s_loader_are_refused():
    assert groupdp.inspect(trainer(), world_size=2, claim="fixed-order").problems


def test_the_example_fine_tunes_a_transformer_at_user_level_with_accumulation():
    pytest.importorskip("opacus")
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "trainer_users.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    assert "Problem" not in done.stdout
    assert "60 steps of Poisson batches in chunks of at most 48" in done.stdout
    (epsilon,) = re.findall(r"at most ([\d.]+)\.$", done.stdout, re.MULTILINE)
    assert float(epsilon) == pytest.approx(6.0, abs=1e-3)
    (accuracy,) = re.findall(r"accuracy ([\d.]+)%", done.stdout)
    assert float(accuracy) > 58.0  # it has learned something: half of the labels are of each kind
