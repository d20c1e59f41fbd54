"""The three figures of the report. Colours and markers differ together, so that neither is needed alone."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib
import work

matplotlib.use("svg")

from matplotlib import pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from report import Table

#: Okabe and Ito's colours, safe for the colour-blind.
STYLES = {
    "groupdp": ("#000000", "*"),
    "dp_accounting PLD": ("#0072B2", "o"),
    "dp_accounting RDP": ("#56B4E9", "s"),
    "prv_accountant": ("#D55E00", "^"),
    "opacus PRV": ("#E69F00", "v"),
    "opacus RDP": ("#F0E442", "D"),
    "autodp RDP": ("#CC79A7", "P"),
    "autodp AFA": ("#009E73", "X"),
    "JAX Privacy user level": ("#999999", "h"),
}
#: Tools with several settings have a label at each point, so many points away from it.
LABELLED = {"groupdp": (9, -3), "dp_accounting PLD": (5, 6), "prv_accountant": (-4, -15)}
#: Errors below this are not resolved by the truth and are drawn here.
SMALLEST = 1e-16

Series = dict[str, list[tuple[float, float]]]


def draw(table: Table, folder: Path) -> None:
    with plt.rc_context({"font.size": 10, "svg.hashsalt": "benchmarks", "svg.fonttype": "none"}):
        _time_against_error(table, folder / "benchmark-time-error.svg")
        _time_against_groups(table, folder / "benchmark-time-groups.svg")
        _error_against_delta(table, folder / "benchmark-error-delta.svg")


def _time_against_error(table: Table, file: Path) -> None:
    items = table.of_section("accuracy")
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.8), sharey=True, layout="constrained")
    drawn: dict[str, Artist] = {}
    for axis, item in zip(axes, items, strict=False):
        for setting in item["settings"]:
            outcome = table.outcome(item, setting)
            if not outcome.gives_time or outcome.inaccuracy is None:
                continue
            colour, marker = STYLES[setting["tool"]]
            x, y = max(outcome.inaccuracy, SMALLEST), outcome.seconds
            points = axis.scatter(
                x,
                y,
                s=150 if marker == "*" else 55,
                c=colour,
                marker=marker,
                edgecolors="black",
                linewidths=0.5,
                zorder=3,
            )
            drawn.setdefault(setting["tool"], points)
            if setting["tool"] in LABELLED:
                place = LABELLED[setting["tool"]]
                axis.annotate(_short(setting["name"]), (x, y), textcoords="offset points", xytext=place, fontsize=8)
        axis.set(xscale="log", yscale="log", xlabel="error of epsilon (groupdp: certified width)")
        axis.set_title(f"{item['label']}, sigma = {item['phases'][0]['noise_multiplier']}, q = 0.01, T = 2000")
        axis.margins(0.14)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("seconds per call")
    figure.legend(list(drawn.values()), list(drawn), loc="outside lower center", ncols=4, frameon=False)
    _save(figure, file)


def _short(name: str) -> str:
    """The number that tells one setting from another."""
    inner = name[name.index("(") + 1 : name.index(")")] if "(" in name else name
    return inner.replace("eps_error ", "").replace("grid ", "").replace("tolerance ", "").replace("default", "")


def _time_against_groups(table: Table, file: Path) -> None:
    series: Series = {}
    for item in [*table.of_section("paper"), *table.of_section("group size")]:
        if item["phases"][0]["noise_multiplier"] != "4":
            continue
        for setting in (work.GROUPDP, work.PLD_DEFAULT, work.PLD_MEDIUM, work.PLD_COARSE):
            outcome = table.outcome(item, setting)
            if outcome.gives_time and outcome.seconds is not None:
                series.setdefault(_name(setting), []).append((item["group_size"], outcome.seconds))
    figure, axis = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
    _lines(axis, series)
    axis.set(xscale="log", yscale="log", xlabel="group size k", ylabel="seconds per call")
    axis.set_title("sigma = 4, q = 0.01, T = 2000, delta = 1e-6")
    _save(figure, file)


def _error_against_delta(table: Table, file: Path) -> None:
    series: Series = {}
    items = [item for item in table.of_section("delta") if item["group_size"] == 1]
    for item in items:
        for setting in item["settings"]:
            outcome = table.outcome(item, setting)
            digits = -math.log10(float(item["delta"]))
            if outcome.kind == "value" and outcome.inaccuracy is not None:
                point = (digits, max(outcome.inaccuracy, SMALLEST))
                series.setdefault(_name(setting), []).append(point)
    figure, axis = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
    _lines(axis, series)
    axis.set(xscale="log", yscale="log", xlabel="-log10 delta", ylabel="error of epsilon (groupdp: certified width)")
    ticks = [3, 6, 9, 12, 15, 20, 30, 100, 300]
    axis.set_xticks(ticks, labels=[str(tick) for tick in ticks])
    axis.minorticks_off()
    axis.set_title("k = 1, sigma = 1, q = 0.01, T = 2000; a line ends where valid answers end", fontsize=10)
    _save(figure, file)


def _lines(axis: Axes, series: Series) -> None:
    for number, (name, points) in enumerate(series.items()):
        tool = next(tool for tool in STYLES if name.startswith(tool))
        colour, marker = STYLES[tool]
        x, y = zip(*sorted(points), strict=True)
        style = {"for speed": "--", "fastest": ":"}.get(name.partition(", ")[2].partition(" (")[0], "-")
        axis.plot(
            x,
            y,
            style,
            color=colour,
            marker=marker,
            markersize=11 if marker == "*" else 6,
            label=name,
            zorder=3 + number,
        )
    axis.grid(alpha=0.3)
    axis.legend(loc="best", fontsize=8.5)


def _name(setting: work.Setting) -> str:
    return setting["tool"] if setting == work.GROUPDP else f"{setting['tool']}, {setting['name']}"


def _save(figure: Figure, file: Path) -> None:
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)
