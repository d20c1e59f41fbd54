"""A small real training in Opacus, for the tests."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EXAMPLES = 186
CRITERION = nn.CrossEntropyLoss()


def parts(*, batch_size=2, shuffle=True, examples=EXAMPLES, layers=1, **options):
    """(module, optimizer, data loader): 186 examples in batches of 2 are the 93 batches that Opacus makes 92 of."""
    generator = torch.Generator().manual_seed(0)
    data = TensorDataset(
        torch.randn(examples, 5, generator=generator), torch.randint(0, 2, (examples,), generator=generator)
    )
    torch.manual_seed(0)
    module = nn.Linear(5, 2) if layers == 1 else nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    loader = DataLoader(data, batch_size=batch_size, shuffle=shuffle, generator=generator, **options)
    return {"module": module, "optimizer": optimizer, "data_loader": loader}


def train(module, optimizer, loader, *, steps=None, criterion=CRITERION):
    """One pass, or the first `steps` batches of it; returns how many steps were really made."""
    made = 0
    for inputs, labels in loader:
        if made == steps:
            break
        optimizer.zero_grad()
        criterion(module(inputs), labels).backward()
        optimizer.step()
        made += 1
    return made
