"""Batches as the accounting assumes them, and what a loader really does.

    batches.py        samplers to put in place of shuffling: Poisson, balls in bins, spread allocation; padded batches
    fit.py            drawn indices against the law of a sampling, with a stated false alarm rate
    draws.py          drawn indices from a file, and their statistics: each is an exact binomial test
    inspection.py     `inspect`: what a loader does, with evidence, problems and what to check by hand
    reading.py        notes about a loader, and their comparison with a claim; other tools, or why they are refused
    known_loaders.py  PyTorch's loaders, and Trainers

No module imports a training framework: an object of one is recognised by the modules that it has loaded.
"""

from groupdp.loading.batches import BallsInBinsBatches, IndexBatches, MaskedDataset, PoissonBatches, SpreadBatches

__all__ = ["BallsInBinsBatches", "IndexBatches", "MaskedDataset", "PoissonBatches", "SpreadBatches"]
