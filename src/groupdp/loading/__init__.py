"""Batches as the accounting assumes them, and what a loader really does.

    batches.py       samplers to put in place of shuffling: Poisson, balls in bins, spread allocation
    masked.py        batches padded to one shape, with their masks
    fit.py           drawn indices against the law of a sampling, with a stated false alarm rate
    fit_tests.py     the statistics of `fit.py`: each is an exact binomial test
    index_log.py     drawn indices from a file
    inspection.py    `inspect`: what was found, with evidence, problems and what to check by hand
    reading.py       the notes that are taken meanwhile, and a claim against them
    torch_loaders.py, other_loaders.py    how PyTorch's loaders, and those of other tools, are read
    loader_epochs.py   epochs of indices drawn from a loader

No module imports a training framework: an object of one is recognised by the modules that it has loaded.
"""

from groupdp.loading.batches import BallsInBinsBatches, IndexBatches, PoissonBatches, SpreadBatches
from groupdp.loading.masked import MaskedDataset

__all__ = ["BallsInBinsBatches", "IndexBatches", "MaskedDataset", "PoissonBatches", "SpreadBatches"]
