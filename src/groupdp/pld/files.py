"""Privacy loss distributions as files: a NumPy archive (npz) of plain arrays, validated when read.

| entry | type | meaning |
|---|---|---|
| format | text | "groupdp privacy loss distribution" |
| version | int64 | 1 |
| direction | text | which dataset is P: a direction, or another name of lower-case words |
| grid_step | float64 | distance h between losses |
| rounds | int64 | rounds composed |
| tail_mass | float64 | mass that operations may move to the ends |
| lower_first, upper_first | int64 | index of the first loss: loss = index x h |
| lower_masses, upper_masses | float64[n] | masses of the dominated and of the dominating measure |
| upper_infinite_mass | float64 | mass of the dominating measure at +infinity |
| mean, variance | float64[2] | certified (lower, upper) of the loss's mean and variance; imported ones: upper is inf |
| not_tight | int64 | there only where the pair is not attained: lower sides are those of this analysis alone |

Pictures need matplotlib, which is loaded only here.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from groupdp._files import NewFiles, unwritable
from groupdp.drawing import BLUE, ORANGE, TITLE_SIZE, finish, new_figure, title_lines
from groupdp.errors import InvalidArgument, InWords, shown
from groupdp.pld import DIRECTION, LARGEST_GRID, PrivacyLossDistribution
from groupdp.pld.measures import Measure

FORMAT = "groupdp privacy loss distribution"
VERSION = 1
#: Entries: the kind of number and the dimensions that each must have, and its value.
_ENTRIES: dict[str, tuple[str, int, Callable[[PrivacyLossDistribution], Any]]] = {
    "format": ("U", 0, lambda _: FORMAT),
    "version": ("i", 0, lambda _: VERSION),
    "direction": ("U", 0, lambda distribution: distribution.direction),
    "grid_step": ("f", 0, lambda distribution: distribution.grid_step),
    "rounds": ("i", 0, lambda distribution: distribution.rounds),
    "tail_mass": ("f", 0, lambda distribution: distribution.tail_mass),
    "lower_first": ("i", 0, lambda distribution: distribution.lower.first),
    "lower_masses": ("f", 1, lambda distribution: distribution.lower.masses),
    "upper_first": ("i", 0, lambda distribution: distribution.upper.first),
    "upper_masses": ("f", 1, lambda distribution: distribution.upper.masses),
    "upper_infinite_mass": ("f", 0, lambda distribution: distribution.upper.infinite_mass),
    "mean": ("f", 1, lambda distribution: distribution.mean_bounds),
    "variance": ("f", 1, lambda distribution: distribution.variance_bounds),
}
#: An entry that is there only where the pair is not attained.
_NOT_TIGHT = "not_tight"
_ALL_ENTRIES = {**_ENTRIES, _NOT_TIGHT: ("i", 0, lambda _: 1)}
_TYPES = {"U": np.str_, "i": np.int64, "f": np.float64}
#: Total masses may miss 1 by this much through rounding.
_ROOM = 1e-6
#: Bytes that one entry may unpack to.
_LARGEST_ENTRY = 16 * LARGEST_GRID + 4096


def save(distribution: PrivacyLossDistribution, path: str | Path) -> None:
    """Write `distribution` to `path`, which appears whole or not at all."""
    entries = _ENTRIES if distribution.tight else _ALL_ENTRIES
    arrays: dict[str, Any] = {
        name: np.array(value(distribution), dtype=_TYPES[kind]) for name, (kind, _, value) in entries.items()
    }
    with NewFiles("path") as files:
        temporary = files.temporary(path)
        try:
            with open(temporary, "wb") as stream:
                np.savez_compressed(stream, **arrays)
        except OSError as error:
            raise unwritable("path", path, error) from None


def load(path: str | Path) -> PrivacyLossDistribution:
    """The distribution in `path`; `InvalidArgument` unless it is one."""
    try:
        content = _read(Path(path))
    except OSError as error:
        raise InvalidArgument(
            "path", InWords(f"{shown(str(path))} ({error.strerror or error})"), "be a file that can be read"
        ) from None
    except (ValueError, KeyError, EOFError, NotImplementedError, zipfile.BadZipFile, zipfile.LargeZipFile) as error:
        raise _refused(path, str(error) or type(error).__name__) from None
    problem = _problem(content)
    if problem:
        raise _refused(path, problem)
    step = float(content["grid_step"])
    return PrivacyLossDistribution(
        direction=str(content["direction"]),
        lower=Measure(step, int(content["lower_first"]), content["lower_masses"]),
        upper=Measure(
            step, int(content["upper_first"]), content["upper_masses"], float(content["upper_infinite_mass"])
        ),
        mean_bounds=(float(content["mean"][0]), float(content["mean"][1])),
        variance_bounds=(float(content["variance"][0]), float(content["variance"][1])),
        tail_mass=float(content["tail_mass"]),
        rounds=int(content["rounds"]),
        tight=_NOT_TIGHT not in content,
    )


def _read(path: Path) -> dict[str, Any]:
    """The archive's arrays; ValueError where it is not an archive of the entries expected."""
    with zipfile.ZipFile(path) as archive:
        names = sorted(info.filename for info in archive.infolist())
        expected = _ALL_ENTRIES if f"{_NOT_TIGHT}.npy" in names else _ENTRIES
        if names != sorted(f"{name}.npy" for name in expected):
            raise ValueError("its entries are not those of a privacy loss distribution")
        if any(info.file_size > _LARGEST_ENTRY for info in archive.infolist()):
            raise ValueError(f"an entry is larger than the limit of {_LARGEST_ENTRY} bytes")
    with np.load(path, allow_pickle=False) as archive:
        content = {name: archive[name] for name in expected}
    for name, (kind, dimensions, _) in expected.items():
        if content[name].dtype.kind != kind or content[name].ndim != dimensions:
            raise ValueError(f"its entry {name} is not of the expected type")
        if kind == "f":
            content[name] = content[name].astype(np.float64)
            content[name].setflags(write=False)
    return content


def _problem(content: dict[str, Any]) -> str:
    """The first invalid value in a few words; empty if all are valid."""
    if str(content["format"]) != FORMAT:
        return "it is of another format"
    if int(content["version"]) != VERSION:
        return f"it is of version {int(content['version'])}, this is version {VERSION}"
    if not DIRECTION.fullmatch(str(content["direction"])):
        return "its direction is not a name of at most 40 lower-case letters, spaces and hyphens"
    if not 0.0 < float(content["grid_step"]) <= 100.0:
        return "its grid_step is out of range"
    if not 0.0 < float(content["tail_mass"]) <= 1.0 or int(content["rounds"]) < 1:
        return "its tail_mass or rounds are out of range"
    if max(abs(int(content["lower_first"])), abs(int(content["upper_first"]))) > 2**53:
        return "its first losses are out of range"
    infinite = float(content["upper_infinite_mass"])
    for name in ("lower_masses", "upper_masses"):
        masses = content[name]
        if not 1 <= len(masses) <= LARGEST_GRID or not np.all(np.isfinite(masses)) or np.any(masses < 0.0):
            return f"its {name} are not finite and non-negative"
    if not 0.0 <= infinite <= 1.0:
        return "its upper_infinite_mass is not in [0, 1]"
    if math.fsum(content["lower_masses"]) > 1.0 + _ROOM:
        return "its lower_masses add up to more than 1"
    if math.fsum(content["upper_masses"]) + infinite < 1.0 - _ROOM:
        return "its upper_masses add up to less than 1"
    for name in ("mean", "variance"):
        bounds = content[name]
        if bounds.shape != (2,) or not np.isfinite(bounds[0]) or not bounds[0] <= bounds[1]:
            return f"its {name} is not a pair of ordered bounds"
    return ""


def _refused(path: str | Path, problem: str) -> InvalidArgument:
    return InvalidArgument(
        "path", InWords(f"{shown(str(path))} ({problem[:200]})"), "be a file written by PrivacyLossDistribution.save"
    )


#: Points of each line that is drawn.
_POINTS = 400
#: Losses rarer than this, on either side, are not shown.
_RARE = 1e-9


def plot(distribution: PrivacyLossDistribution, target: Any) -> None:
    """Draw onto axes (densities), or into a file (densities, and the curve of delta beside them)."""
    if hasattr(target, "plot") and hasattr(target, "set_xlabel"):
        _draw_densities(distribution, target)
        return
    if not isinstance(target, str | Path):
        raise InvalidArgument("target", target, "be a path or matplotlib axes")
    figure = new_figure(10.0, 4.4)
    left, right = figure.subplots(1, 2)
    _draw_densities(distribution, left)
    _draw_curve(distribution, right)
    rounds = f"{distribution.rounds} round{'' if distribution.rounds == 1 else 's'}"
    lines = [f"Privacy loss of {rounds}, {distribution.direction}"]
    if distribution.about:
        lines.insert(0, distribution.about)
    figure.suptitle(title_lines(lines, 110), fontsize=TITLE_SIZE)
    with NewFiles("target") as files:
        temporary = files.temporary(target)
        try:
            figure.savefig(temporary)
        except ValueError as error:
            raise InvalidArgument(
                "target", InWords(f"{shown(str(target))} ({error})"), "be a file name of a picture"
            ) from None


def _draw_densities(distribution: PrivacyLossDistribution, axes: Any) -> None:
    low, high = _visible(distribution.upper)
    for measure, label, style in (
        (distribution.upper, "dominating", {"color": BLUE}),
        (distribution.lower, "dominated", {"color": ORANGE, "linestyle": "--"}),
    ):
        losses, densities = _density(measure, low, high)
        axes.plot(losses, densities, label=label, **style)
    axes.set_xlabel(f"privacy loss ({distribution.direction}, rounds: {distribution.rounds})")
    axes.set_ylabel("density")
    finish(axes, legend="upper right")


def _draw_curve(distribution: PrivacyLossDistribution, axes: Any) -> None:
    _, high = _visible(distribution.upper)
    epsilons = np.linspace(0.0, max(high, distribution.grid_step), _POINTS // 4)
    deltas = [distribution.delta(float(epsilon)) for epsilon in epsilons]
    axes.semilogy(epsilons, [max(delta.upper, 1e-300) for delta in deltas], color=BLUE, label="upper bound")
    axes.semilogy(
        epsilons, [max(delta.lower, 1e-300) for delta in deltas], color=ORANGE, linestyle="--", label="lower bound"
    )
    axes.set_xlabel("epsilon")
    axes.set_ylabel("delta")
    finish(axes, legend="upper right")


def _visible(measure: Measure) -> tuple[float, float]:
    """The losses between which all but a share of 1e-9 on either side lie."""
    cumulative = np.cumsum(measure.masses)
    ends = np.searchsorted(cumulative, [_RARE, cumulative[-1] - _RARE])
    low, high = (measure.step * (measure.first + int(end)) for end in ends)
    return low, max(high, low + measure.step)


def _density(measure: Measure, low: float, high: float) -> tuple[Any, Any]:
    """Mass per unit of loss, over blocks of lattice points so that a few hundred are left."""
    block = max(int((high - low) / measure.step / _POINTS), 1)
    start = max(int(low / measure.step) - measure.first - block, 0)
    stop = min(int(high / measure.step) - measure.first + block, len(measure.masses))
    count = max((stop - start) // block, 0)
    sums = measure.masses[start : start + count * block].reshape(count, block).sum(axis=1)
    centres = measure.step * (measure.first + start + block * np.arange(count) + 0.5 * (block - 1))
    return centres, sums / (block * measure.step)
