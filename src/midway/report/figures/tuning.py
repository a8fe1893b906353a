"""The history of a search, and the importance of its hyper-parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from midway.report.figures.drawing import COLUMN, GREY, new_figure
from midway.report.figures.registry import figure
from midway.report.tidy import PlotStyle, plot_styles
from midway.tune.result import StudyResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class History(NamedTuple):
    """Trials of a search, by number; accuracies are means over its streams, in percent."""

    complete: tuple[tuple[int, float], ...]
    pruned: tuple[tuple[int, float], ...]  # with their last accuracy
    best: tuple[tuple[int, float], ...]  # of complete trials so far, wherever it rises
    default: float | None  # accuracy of the method's defaults, if they were tried
    style: PlotStyle


def history_of(study: StudyResult) -> History:
    """Collect the trials of a search."""
    complete, pruned = (
        tuple((t.number, t.accuracy) for t in study.trials if t.state == state and t.accuracy is not None)
        for state in ("complete", "pruned")
    )
    best: list[tuple[int, float]] = []
    for number, accuracy in complete:
        if not best or accuracy > best[-1][1]:
            best.append((number, accuracy))
    default = None if study.default is None else study.default.accuracy
    style = plot_styles({study.method: study.method})[study.method]
    return History(complete, pruned, tuple(best), default, style)


@figure(
    "history",
    title="History of a search",
    caption="The mean accuracy of every trial, and the best one so far.",
    source=StudyResult,
    build=history_of,
    enough=lambda history: len(history.complete) > 0,
    requires="a search with a complete trial",
)
def draw_history(history: History) -> Figure:
    """Draw every trial, a step wherever the best accuracy rises, and the defaults as a line."""
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(1.4 * COLUMN, 2.4)
    axes = figure.add_subplot()
    if history.pruned:
        axes.plot(*zip(*history.pruned, strict=True), "x", color=GREY, label="stopped early", markersize=3)
    axes.plot(*zip(*history.complete, strict=True), "o", color=history.style.colour, label="complete", markersize=3)
    last = max(number for number, _ in (*history.complete, *history.pruned))
    steps = [*history.best, (last, history.best[-1][1])]
    axes.step(*zip(*steps, strict=True), where="post", color=history.style.colour, label="best so far")
    if history.default is not None:
        axes.axhline(history.default, color=GREY, linewidth=0.8, linestyle=(0, (4, 2)), label="defaults")
    axes.set_xlabel("trial")
    axes.set_ylabel("mean accuracy (%)")
    axes.set_title(history.style.title)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


@figure(
    "importance",
    title="Importance of hyper-parameters",
    caption="The share of the variation in accuracy that each hyper-parameter explains.",
    source=StudyResult,
    build=lambda study: study.importance,
    requires="a search with enough trials to estimate importances",
)
def draw_importance(importance: Mapping[str, float]) -> Figure:
    """Draw one bar per hyper-parameter, in the given order from top to bottom."""
    figure = new_figure(1.4 * COLUMN, 0.7 + 0.22 * len(importance))
    axes = figure.add_subplot()
    shares = [100 * share for share in importance.values()]
    bars = axes.barh(list(importance), shares, color=plot_styles({"tent": "tent"})["tent"].colour, height=0.7)
    axes.bar_label(bars, [f"{share:.0f}" for share in shares], fontsize=7, padding=2)
    axes.invert_yaxis()
    axes.set_xlabel("importance (%)")
    axes.set_xlim(0, max(100.0, *shares) if len(shares) < 2 else 1.15 * max(shares))
    axes.grid(axis="x")
    return figure
