"""Pictures of trade-off curves, of people's epsilons and of caps. matplotlib is imported when first drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupdp.errors import GroupDPError

if TYPE_CHECKING:
    from groupdp.people.cap import CapStudy
    from groupdp.people.view import PeopleView
    from groupdp.tradeoff import TradeOffCurve

_BLUE, _ORANGE, _GREY = "#0b6e99", "#c2571a", "#777777"


def draw_trade_off(curve: TradeOffCurve, path: str | Path, *, title: str) -> None:
    """The certified curve on linear axes, and its tail on logarithmic ones."""
    figure = _figure(9.0, 4.2)
    left, right = figure.subplots(1, 2)
    rate = curve.false_positive_rate
    left.plot(rate, curve.false_negative_rate_lower, color=_BLUE, label="lower bound (at sampled rates)")
    left.plot([0, 1], [1, 0], "--", color=_GREY, label="guessing")
    left.set(xlabel="false positive rate", ylabel="false negative rate", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    left.legend(fontsize=8)
    tail = (rate > 0) & (rate <= 0.5)
    right.loglog(rate[tail], curve.true_positive_rate_upper[tail], color=_BLUE, label="upper bound (at sampled rates)")
    right.loglog(rate[tail], rate[tail], "--", color=_GREY, label="guessing")
    right.set(xlabel="false positive rate", ylabel="true positive rate")
    right.legend(fontsize=8)
    figure.suptitle(f"Telling whether a group took part\n{title}", fontsize=9)
    _save(figure, path)


def draw_people(view: PeopleView, path: str | Path) -> None:
    """The share of people with a certified epsilon of at most x."""
    figure = _figure(6.0, 4.2)
    axes = figure.subplots()
    pairs = [(b.upper, n) for b, n in zip(view.epsilon, view.people, strict=True) if b.upper < float("inf")]
    covered, xs, ys = 0, [], []
    for upper, n in pairs:
        covered += n
        xs.append(upper)
        ys.append(100.0 * covered / view.total)
    axes.step(xs, ys, where="post", color=_BLUE)
    if xs and min(xs) > 0.0:
        axes.set_xscale("log")
    axes.set(xlabel=f"epsilon at delta = {view.delta:g}", ylabel="people with at most that epsilon, per cent")
    axes.set_ylim(0, 101)
    axes.set_title(f"{view.total} people: certified upper bounds", fontsize=10)
    axes.grid(alpha=0.3)
    _save(figure, path)


def draw_caps(study: CapStudy, path: str | Path) -> None:
    """The frontier: noise per averaged gradient against the share of examples kept, both ways of sampling."""
    figure = _figure(6.5, 4.5)
    axes = figure.subplots()
    shares = [100.0 * row.share_kept for row in study.rows]
    examples = [row.noise_per_average for row in study.rows]
    people = [row.person_noise_per_average for row in study.rows]
    axes.semilogy(shares, examples, ".-", color=_BLUE, label="sampling examples, over C_example")
    axes.semilogy(shares, people, ".-", color=_ORANGE, label="sampling people, over C_user")
    for place, row in enumerate(study.rows):
        if place in (0, len(study.rows) - 1) or row.cap in (2, 4, 8) or row.cap == study.recommended:
            axes.annotate(
                str(row.cap), (shares[place], examples[place]), (0, 5), textcoords="offset points", fontsize=7
            )
    if study.recommended is not None:
        best = study.row(study.recommended)
        axes.semilogy(
            [100.0 * best.share_kept], [best.noise_per_average], "o", markersize=10, fillstyle="none", color=_BLUE
        )
    if study.minimum_share:
        axes.axvline(100.0 * study.minimum_share, linestyle=":", color=_GREY)
    axes.set(xlabel="examples kept, per cent (small numbers: the cap)", ylabel="noise per averaged gradient")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    axes.set_title(f"epsilon = {study.target_epsilon:g}, delta = {study.delta:g}", fontsize=10)
    _save(figure, path)


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise GroupDPError("Pictures need matplotlib: pip install 'groupdp[figures]'.") from None
    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Any, path: str | Path) -> None:
    from groupdp.figures.curves import save_figure

    save_figure(figure, path)
