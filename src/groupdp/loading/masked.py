"""A dataset for padded batches: every item comes with whether it is an example or padding."""

from __future__ import annotations

from typing import Any


class MaskedDataset:
    """(item, True) for the examples of a map-style dataset, (item 0, False) for the padding.

        batches = SpreadBatches(owners, batches=100, padding=96)
        loader = DataLoader(MaskedDataset(dataset), batch_sampler=batches)
        for items, mask in loader: ...

    The gradient of every masked entry has to be multiplied by 0 after clipping, before the sum. Without this class
    padded batches fail in the dataset: their padding has an index that it does not have.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[Any, bool]:
        inside = index != len(self.dataset)
        return self.dataset[index if inside else 0], inside
