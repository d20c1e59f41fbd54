"""groupdp inside the tools people train with: one module a tool, each an extra.

    dp_accounting.py        GroupPrivacyAccountant, a PrivacyAccountant of dp_accounting; runs to and from its DpEvents
    dp_accounting_pld.py    privacy loss distributions to and from its own
    opacus.py               register(group_size=8), GroupPrivacyEngine, adaptive clipping
    jax_privacy.py          GroupTrainingAccountant, runs to and from its DpParams and strategies
    bandmf.py               JAX Privacy's banded noise for groups, and batches in which a person is in one part
    tensorflow_privacy.py   runs from its hyperparameters, a statement in its layout (the package is not imported)
    riskcal.py              trade-off curves as evaluators for its calibration
    loaders.py              what tools' loaders really draw; missing packages, calling functions
    import_run.py           runs from checkpoints, histories and hyperparameters in files

Each refuses what its tool would account for wrongly for a group, and says why (docs/integrations.md). Nothing here is
imported by `import groupdp`, and no module imports a tool other than its own (JAX Privacy itself needs dp_accounting).
"""
