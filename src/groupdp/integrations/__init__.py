"""groupdp inside the tools people train with: one module a tool, each an extra.

    dp_accounting.py        GroupPrivacyAccountant, a PrivacyAccountant of Google's dp_accounting
    dp_events.py            runs to and from its DpEvents
    dp_accounting_pld.py    privacy loss distributions to and from its own
    opacus.py               register(group_size=8), GroupPrivacyEngine, runs to and from its histories
    opacus_loaders.py       what a PyTorch data loader really does: rates, steps, shuffled runs
    jax_privacy.py          GroupTrainingAccountant, runs from its DpParams, strategies and plans
    tensorflow_privacy.py   runs from its hyperparameters, a statement in its layout (the package is not imported)
    riskcal.py              trade-off curves as evaluators for its calibration
    import_run.py           run files from checkpoints and histories

Each refuses what its tool would account for wrongly for a group, and says why (docs/integrations.md). Nothing here is
imported by `import groupdp`, and no module imports a tool other than its own.
"""
