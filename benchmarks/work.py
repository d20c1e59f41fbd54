"""The work: what is computed, and by which tools at which settings.

An item is a plain dictionary, so that it can be sent to a tool's process as JSON. Parameters are decimal
strings; every tool and the oracle get the same doubles.
"""

from __future__ import annotations

import json
from typing import Any

Item = dict[str, Any]
Setting = dict[str, Any]

#: The paper's setting.
RATE, STEPS, DELTA = "0.01", 2000, "1e-6"
GROUPS, NOISES = (1, 2, 4, 8, 9, 16, 32), ("1", "2", "4")


def setting(tool: str, adapter: str, name: str, claim: str, **options: Any) -> Setting:
    """`claim` is "bounds" (both sides certified), "upper bound" or "estimate"."""
    return {"tool": tool, "adapter": adapter, "name": name, "claim": claim, "options": options}


def _grid(width: float, name: str, **options: Any) -> Setting:
    return setting("dp_accounting PLD", "dp_accounting_pld", name, "upper bound", grid=width, **options)


def _prv(error: float, name: str) -> Setting:
    return setting("prv_accountant", "prv_accountant_prv", name, "upper bound", eps_error=error)


GROUPDP = setting("groupdp", "groupdp_bounds", "default", "bounds")
PLD_DEFAULT = _grid(1e-4, "default (grid 1e-4)")
PLD_MIXTURE = _grid(1e-4, "default (grid 1e-4), as a mixture", always_mixture=True)
PLD_MEDIUM = _grid(1e-3, "for speed (grid 1e-3)")
PLD_COARSE = _grid(1e-2, "fastest (grid 1e-2)")
PLD_FINE = _grid(1e-5, "for accuracy (grid 1e-5)")
RDP = setting("dp_accounting RDP", "dp_accounting_rdp", "default", "upper bound")
PRV_DEFAULT = _prv(0.1, "default (eps_error 0.1)")
PRV_MEDIUM = _prv(1e-2, "eps_error 1e-2")
PRV_FINE = _prv(1e-3, "for accuracy (eps_error 1e-3)")
OPACUS_PRV = setting("opacus PRV", "opacus_accountants", "default (eps_error 0.01)", "upper bound", accountant="prv")
OPACUS_RDP = setting("opacus RDP", "opacus_accountants", "default", "upper bound", accountant="rdp")
AUTODP_RDP = setting("autodp RDP", "autodp_mechanisms", "default", "upper bound", route="rdp")
AUTODP_PHI = setting("autodp AFA", "autodp_mechanisms", "default", "estimate", route="phi")
RANDOM_ALLOCATION = setting(
    "random_allocation",
    "random_allocation_combined",
    "combined method, the authors' orders 2 to 60",
    "upper bound",
    largest_order=60,
)

#: Every tool at its defaults, where one example is asked about.
ONE_EXAMPLE = [GROUPDP, PLD_DEFAULT, RDP, PRV_DEFAULT, OPACUS_PRV, OPACUS_RDP, AUTODP_RDP]
MIXTURES = [GROUPDP, PLD_DEFAULT, PLD_MEDIUM, PLD_COARSE]
JAX_USERS = setting("JAX Privacy user level", "jax_privacy_users", "default (grid 1e-4)", "upper bound")


def poisson(noise: str, *, rate: str = RATE, steps: int = STEPS) -> dict[str, Any]:
    return {"sampling": "poisson", "sampling_rate": rate, "noise_multiplier": noise, "steps": steps}


def fixed(noise: str, *, batch_size: int = 500, dataset_size: int = 50_000, steps: int = STEPS) -> dict[str, Any]:
    return {
        "sampling": "fixed",
        "batch_size": batch_size,
        "dataset_size": dataset_size,
        "noise_multiplier": noise,
        "steps": steps,
    }


def item(
    section: str,
    label: str,
    phases: list[dict[str, Any]],
    settings: list[Setting],
    *,
    group_size: int = 1,
    delta: str = DELTA,
    question: str = "epsilon",
    adjacency: str = "add-or-remove",
    note: str = "",
) -> Item:
    """`question` is "epsilon", or "noise": the noise multiplier for the epsilon that the true one has."""
    return {
        "section": section,
        "label": label,
        "phases": phases,
        "group_size": group_size,
        "delta": delta,
        "question": question,
        "adjacency": adjacency,
        "settings": settings,
        "note": note,
    }


def key_of(work: Item) -> str:
    """What was asked, as text: the same question has the same key, whatever section asks it."""
    asked = [work["question"], work["phases"], work["group_size"], work["delta"]]
    if work["adjacency"] != "add-or-remove":
        asked.append(work["adjacency"])
    return json.dumps(asked, separators=(",", ":"))


def items() -> list[Item]:
    """Everything, in the order it is run."""
    return [
        *_paper(),
        *_fixed_batches(),
        *_replaced(),
        *_accuracy(),
        *_group_sizes(),
        *_steps(),
        *_deltas(),
        *_schedules(),
        *_calibration(),
        *_corners(),
        *_rare(),
        *_few(),
        *_allocation(),
        *_mechanisms(),
    ]


def quick_items() -> list[Item]:
    """About a minute of work that touches every tool and every section."""
    smoke = [GROUPDP, PLD_COARSE, RDP, PRV_DEFAULT, OPACUS_PRV, OPACUS_RDP, AUTODP_RDP]
    chosen = [
        *(one for one in _paper() if one["label"] in ("k=1, sigma=4", "k=4, sigma=4")),
        *(one for one in _fixed_batches() if one["label"] == "k=4, sigma=8"),
        *(one for one in _replaced() if one["label"] == "k=2"),
        *(one for one in _accuracy() if one["label"] == "k=1"),
        *(one for one in _group_sizes() if one["group_size"] == 64),
        *(one for one in _steps() if one["label"] == "T=1e4"),
        *(one for one in _deltas() if one["label"] in ("k=1, delta=1e-9", "k=1, delta=1e-100")),
        *(one for one in _schedules() if one["label"] == "2 phases, k=1"),
        *(one for one in _calibration() if one["label"] == "k=1"),
        *_corners()[:2],
        *_rare()[:1],
        *_few()[:1],
        *_allocation()[1:2],
        *_mechanisms()[:1],
    ]
    names = {(one["tool"], one["name"]) for one in smoke}
    return [{**one, "settings": [s for s in one["settings"] if (s["tool"], s["name"]) in names]} for one in chosen]


def _paper() -> list[Item]:
    result = []
    for noise in NOISES:
        for k in GROUPS:
            tools = [*MIXTURES, JAX_USERS] if noise == "4" and k in (8, 32) else MIXTURES
            if k == 1:
                tools = [*ONE_EXAMPLE, PLD_MEDIUM, PLD_COARSE] + ([PLD_MIXTURE, AUTODP_PHI] if noise == "1" else [])
            result.append(item("paper", f"k={k}, sigma={noise}", [poisson(noise)], tools, group_size=k))
    return result


def _fixed_batches() -> list[Item]:
    cases = [("4", 1), ("4", 9), ("8", 4), ("8", 32)]
    tools = [*MIXTURES, JAX_USERS]
    return [item("fixed", f"k={k}, sigma={s}", [fixed(s)], tools, group_size=k) for s, k in cases]


def _replaced() -> list[Item]:
    """k examples replaced by others; dp_accounting has this for one (REPLACE_ONE)."""
    tools = {1: [GROUPDP, PLD_DEFAULT, PLD_MEDIUM, PLD_COARSE]}
    return [
        item("replaced", f"k={k}", [poisson("1")], tools.get(k, [GROUPDP]), group_size=k, adjacency="substitute")
        for k in (1, 2, 4)
    ]


def _accuracy() -> list[Item]:
    lattice = [
        setting("groupdp", "groupdp_bounds", f"lattice, tolerance {t:g}", "bounds", engine="lattice", tolerance=t)
        for t in (1e-2, 1e-4, 1e-6)
    ]
    one = [*ONE_EXAMPLE, PLD_FINE, PLD_MEDIUM, PLD_COARSE, PRV_MEDIUM, PRV_FINE, *lattice]
    nine = [GROUPDP, PLD_DEFAULT, PLD_MEDIUM, PLD_COARSE, PLD_FINE, *lattice]
    return [
        item("accuracy", "k=1", [poisson("1")], one),
        item("accuracy", "k=9", [poisson("4")], nine, group_size=9),
    ]


def _group_sizes() -> list[Item]:
    result = []
    for k in (64, 128, 256, 512, 1000):
        tools = [GROUPDP, PLD_COARSE] + ([PLD_DEFAULT] if k <= 64 else [])
        result.append(item("group size", f"k={k}", [poisson("4")], tools, group_size=k))
    return result


def _steps() -> list[Item]:
    """q falls as 1 / sqrt(T), so that epsilon stays of the same size."""
    rates = ("0.0447", "0.0141", "0.00447", "0.00141", "0.000447", "0.000141", "0.0000447", "0.0000141")
    return [
        item(
            "steps",
            f"T=1e{power}",
            [poisson("1", rate=rate, steps=10**power)],
            [GROUPDP, PLD_DEFAULT, PRV_DEFAULT, RDP],
        )
        for power, rate in zip(range(2, 10), rates, strict=True)
    ]


def _deltas() -> list[Item]:
    result = []
    for delta in ("1e-3", "1e-6", "1e-9", "1e-12", "1e-15", "1e-20", "1e-30", "1e-100", "1e-300"):
        tools = [GROUPDP, PLD_DEFAULT, PRV_DEFAULT, OPACUS_PRV, RDP]
        result.append(item("delta", f"k=1, delta={delta}", [poisson("1")], tools, delta=delta))
    for delta in ("1e-6", "1e-12", "1e-30", "1e-100", "1e-300"):
        result.append(
            item("delta", f"k=4, delta={delta}", [poisson("1")], [GROUPDP, PLD_COARSE], delta=delta, group_size=4)
        )
    return result


def _schedules() -> list[Item]:
    two = [poisson("1.0", steps=1000), poisson("1.5", rate="0.02", steps=500)]
    fifty = [poisson(f"{1.0 + 0.02 * i:.2f}", rate=f"{0.005 + 0.0002 * i:.4f}", steps=40) for i in range(50)]
    return [
        item("schedule", "2 phases, k=1", two, [GROUPDP, PLD_DEFAULT, PLD_COARSE, PRV_DEFAULT, OPACUS_PRV, RDP]),
        item("schedule", "2 phases, k=4", two, [GROUPDP, PLD_COARSE], group_size=4),
        item("schedule", "50 phases, k=1", fifty, [GROUPDP, PLD_COARSE, PRV_DEFAULT, RDP]),
        item("schedule", "50 phases, k=4", fifty, [GROUPDP, PLD_COARSE], group_size=4),
    ]


def _calibration() -> list[Item]:
    one = [GROUPDP, PLD_DEFAULT, PLD_COARSE, RDP, PRV_DEFAULT, OPACUS_PRV, OPACUS_RDP]
    return [
        item("calibration", "k=1", [poisson("1.37")], one, question="noise"),
        item("calibration", "k=4", [poisson("2.37")], [GROUPDP, PLD_COARSE], group_size=4, question="noise"),
    ]


def _corners() -> list[Item]:
    everyone = [*ONE_EXAMPLE, PLD_COARSE]

    def corner(label: str, phase: dict[str, Any], delta: str, note: str, k: int = 1) -> Item:
        tools = everyone if k == 1 else [GROUPDP, PLD_COARSE]
        return item("corner", label, [phase], tools, delta=delta, note=note, group_size=k)

    return [
        corner(
            "delta 1.1e-18",
            poisson("4", rate="0.00033", steps=10_000),
            "1.1e-18",
            "microsoft/prv_accountant 17: a delta below 1e-15",
        ),
        corner(
            "q 0.125",
            poisson("0.8", rate="0.125", steps=1000),
            "1e-6",
            "microsoft/prv_accountant 36: sampling rate 0.125, 1 000 steps",
        ),
        corner(
            "large epsilon",
            poisson("1", rate="0.2", steps=500),
            "1e-5",
            "microsoft/prv_accountant 42: a large epsilon",
        ),
        corner("sigma 0.3", poisson("0.3", steps=1000), "1e-5", "little noise"),
        corner("q 1", poisson("20", rate="1", steps=400), "1e-6", "meta-pytorch/opacus 74: no sampling at all"),
        corner("one step", poisson("1", steps=1), "1e-6", "a single step"),
        corner("k=64, sigma 1", poisson("1"), "1e-6", "a group far larger than the noise", k=64),
        corner("k=16, sigma 0.5", poisson("0.5", rate="0.001", steps=500), "1e-6", "rare, very large losses", k=16),
    ]


def _rare() -> list[Item]:
    """Federated learning across devices: hardly anybody is sampled."""
    cases = [("1e-6", 10_000, "1.3e-10", 1), ("1e-6", 10_000, "1.3e-10", 8), ("1e-5", 10_000, "1e-9", 1),
             ("1e-4", 1000, "1e-9", 10)]  # fmt: skip
    return [
        item(
            "rare",
            f"q={rate}, k={k}",
            [poisson("1", rate=rate, steps=steps)],
            [GROUPDP, PLD_DEFAULT, PLD_COARSE, *([PRV_DEFAULT, RDP] if k == 1 else [])],
            group_size=k,
            delta=delta,
        )
        for rate, steps, delta, k in cases
    ]


def _few() -> list[Item]:
    return [
        item(
            "few rounds",
            f"T={steps}, k={k}",
            [poisson("1", steps=steps)],
            [GROUPDP, PLD_DEFAULT, PLD_COARSE, *([PRV_DEFAULT, RDP] if k == 1 else [])],
            group_size=k,
        )
        for steps, k in ((2, 1), (3, 1), (6, 4), (20, 1))
    ]


def _allocation() -> list[Item]:
    """One example in one batch of every epoch, by direction; dp_accounting 0.6.0 has no event for it."""
    return [
        item(
            "allocation",
            f"N={batches}, {epochs} epochs, sigma={noise}, {adjacency}",
            [{"sampling": "balls-in-bins", "batches": batches, "noise_multiplier": noise, "steps": batches * epochs}],
            [GROUPDP, RANDOM_ALLOCATION],
            adjacency=adjacency,
        )
        for batches, epochs, noise in ((100, 1, 1.0), (100, 20, 4.0), (1000, 5, 1.0), (100_000, 1, 1.0))
        for adjacency in ("remove", "add")
    ]


def _mechanisms() -> list[Item]:
    """What no peer here composes: groupdp's own time and width. Phases are those of run files."""
    release = {"mechanism": "gaussian", "noise_multiplier": 10.0, "releases": 3}
    laplace = {"mechanism": "laplace", "noise_multiplier": 20.0, "releases": 2}
    banded = {"mechanism": "bandmf", "noise_multiplier": 4.0, "steps": 2000, "part_rate": 0.04, "bands": 4}
    thrown = {"sampling": "balls-in-bins", "batches": 100, "noise_multiplier": 4.0, "steps": 2000}
    spread = {"sampling": "allocation", "batches": 100, "participations": 2, "noise_multiplier": 4.0, "steps": 2000}
    return [
        item("mechanisms", "balls in bins", [thrown], [GROUPDP], group_size=4),
        item("mechanisms", "random allocation", [spread], [GROUPDP]),
        item("mechanisms", "correlated noise", [banded], [GROUPDP], group_size=4),
        item("mechanisms", "training and two releases", [poisson("1"), release, laplace], [GROUPDP], group_size=4),
    ]
