"""User-level privacy in Opacus: train, report per user, stop, resume.

    .venv-integrations/bin/python examples/opacus_users.py

Made-up shops' customers review products; each customer wrote several reviews, a few wrote very many. A small network
learns to tell good reviews from bad ones. Every customer keeps at most eight reviews, and what is protected is a whole
customer, not a single review. Takes under a minute on a laptop's processor.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import groupdp
from groupdp.integrations.opacus import GroupPrivacyEngine, from_opacus

warnings.filterwarnings("ignore", message="Secure RNG turned off")
warnings.filterwarnings("ignore", message="Full backward hook is firing")

torch.set_num_threads(1)  # the network is small: threads would only wait for each other
CAP, DELTA, TARGET, EPOCHS, BATCH = 8, 1e-5, 4.0, 6, 200
WORDS = 40


def customers(generator: np.random.Generator, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(who wrote it, word counts, whether it is good) of every review: most people write little, a few write a lot."""
    reviews = np.minimum(1 + generator.geometric(0.2, size=number), 60)
    who = np.repeat(np.arange(number), reviews)
    mood = generator.normal(size=number)[who] * 0.5  # people differ, and are true to themselves
    tone = generator.normal(size=WORDS)
    words = generator.poisson(1.0, size=(len(who), WORDS)).astype(np.float32)
    score = words @ tone / np.sqrt(WORDS) + mood
    good = score + generator.logistic(size=len(who)) * 0.3 > np.median(score)
    return who, (words - 1.0).astype(np.float32), good.astype(np.int64)


def capped(generator: np.random.Generator, who: np.ndarray) -> np.ndarray:
    """Which reviews stay: a random choice of at most CAP for every customer."""
    order = generator.permutation(len(who))
    by_person = order[np.argsort(who[order], kind="stable")]
    _, first, counts = np.unique(who[by_person], return_index=True, return_counts=True)
    position = np.arange(len(who)) - np.repeat(first, counts)
    return np.sort(by_person[position < CAP])


def network() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(WORDS, 16), nn.Tanh(), nn.Linear(16, 2))
    return module, torch.optim.SGD(module.parameters(), lr=1.0)


def one_epoch(module: nn.Module, optimizer: torch.optim.Optimizer, loader: DataLoader) -> None:
    for words, good in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(words), good).backward()
        optimizer.step()


def main() -> None:
    started = time.perf_counter()
    generator = np.random.default_rng(7)
    who, words, good = customers(generator, 4000)
    kept = capped(generator, who)
    counts = np.bincount(who)
    print(
        f"{len(counts)} customers wrote {len(who)} reviews: {np.median(counts):.0f} is usual, {counts.max()} the most."
    )
    print(f"With at most {CAP} of each customer {len(kept)} stay ({len(kept) / len(who):.0%}).\n")

    test = np.setdiff1d(np.arange(len(who)), kept)[:2000]
    tensors = {
        name: (torch.tensor(words[index]), torch.tensor(good[index]))
        for name, index in (("train", kept), ("test", test))
    }
    loader = DataLoader(TensorDataset(*tensors["train"]), batch_size=BATCH, shuffle=True)

    def accuracy(module: nn.Module) -> float:
        with torch.no_grad():
            return (module(tensors["test"][0]).argmax(1) == tensors["test"][1]).float().mean().item()

    engine = GroupPrivacyEngine(group_size=CAP)
    module, optimizer = network()
    module, optimizer, private = engine.make_private_with_epsilon(
        module=module,
        optimizer=optimizer,
        data_loader=loader,
        target_epsilon=TARGET,
        target_delta=DELTA,
        epochs=EPOCHS,
        max_grad_norm=1.0,
    )
    print(f"Target: epsilon {TARGET:g} at delta {DELTA:g} for a whole customer, after {EPOCHS} epochs.")
    print(
        f"The least noise that does it: {optimizer.noise_multiplier:.4f} (each review is sampled with probability "
        f"{private.sample_rate:.4f}).\n"
    )
    print("epoch   accuracy   epsilon, one review   epsilon, one customer")

    def report(epoch: int, of: GroupPrivacyEngine, module: nn.Module) -> None:
        review = groupdp.epsilon(from_opacus(of), delta=DELTA, group_size=1).upper
        print(f"{epoch:5d}   {accuracy(module):8.1%}   {review:19.3f}   {of.get_epsilon(DELTA):21.3f}")

    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "halfway.pt"
        for epoch in range(1, EPOCHS // 2 + 1):
            one_epoch(module, optimizer, private)
            report(epoch, engine, module)
        engine.save_checkpoint(path=checkpoint, module=module, optimizer=optimizer)
        noise = optimizer.noise_multiplier

        print(f"        saved to {checkpoint.name}, everything forgotten, resumed")
        engine = GroupPrivacyEngine(group_size=CAP)
        module, optimizer = network()
        module, optimizer, private = engine.make_private(
            module=module, optimizer=optimizer, data_loader=loader, noise_multiplier=noise, max_grad_norm=1.0
        )
        engine.load_checkpoint(path=checkpoint, module=module, optimizer=optimizer)
        for epoch in range(EPOCHS // 2 + 1, EPOCHS + 1):
            one_epoch(module, optimizer, private)
            report(epoch, engine, module)

        other = GroupPrivacyEngine(group_size=2 * CAP)
        fresh, its_optimizer = network()
        fresh, its_optimizer, _ = other.make_private(
            module=fresh, optimizer=its_optimizer, data_loader=loader, noise_multiplier=noise, max_grad_norm=1.0
        )
        try:
            other.load_checkpoint(path=checkpoint, module=fresh, optimizer=its_optimizer)
        except groupdp.InvalidArgument as refusal:
            print(f"\nAs a checkpoint for customers with {2 * CAP} reviews it is refused:\n  {refusal}")

    bounds = engine.get_epsilon_bounds(DELTA)
    print(
        f"\nA customer's epsilon lies in {bounds:10}: the upper end is the guarantee, and no analysis of all steps can"
    )
    print("go below the lower end.")
    shuffled = GroupPrivacyEngine(group_size=CAP)
    module, optimizer = network()
    try:
        shuffled.make_private(
            module=module,
            optimizer=optimizer,
            data_loader=loader,
            noise_multiplier=noise,
            max_grad_norm=1.0,
            poisson_sampling=False,
        )
    except groupdp.InvalidArgument as refusal:
        print(f"Shuffled batches instead of Poisson samples are refused:\n  {str(refusal).split(';')[0]}.")
    print(f"\n{time.perf_counter() - started:.0f} seconds in all.")


if __name__ == "__main__":
    main()
