"""How a search went: every trial with the best so far, and which hyper-parameters mattered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from midway.report.figures.style import COLUMN, FAINT, Look, looks, new_figure, styled
from midway.tune.findings import Findings

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class History:
    """Trials of a search; accuracies are means over its streams, in percent.

    Attributes:
        complete: (number, accuracy) of trials that saw every image.
        pruned: (number, accuracy as far as it came) of those that were stopped.
        best: (number, best accuracy of complete trials so far), wherever it rises.
        default: Accuracy of the method's defaults; None if they were not tried.
        look: How the method is shown.
    """

    complete: tuple[tuple[int, float], ...]
    pruned: tuple[tuple[int, float], ...]
    best: tuple[tuple[int, float], ...]
    default: float | None
    look: Look


def history_of(findings: Findings) -> History:
    """Collect the trials of a search.

    Example:
        >>> from midway.report.figures.tuning import history_of
        >>> from midway.tune import Findings, TrialRecord
        >>> values = [70.0, 69.0, 72.5]
        >>> trials = tuple(TrialRecord(n, "complete", {"lr": n}, value) for n, value in enumerate(values))
        >>> history_of(Findings("tent", "tent-0", {}, {"lr": 0}, trials, {})).best
        ((0, 70.0), (2, 72.5))
    """

    def of(state: str) -> tuple[tuple[int, float], ...]:
        found = [trial for trial in findings.trials if trial.state == state]
        return tuple((trial.number, trial.accuracy) for trial in found if trial.accuracy is not None)

    best: list[tuple[int, float]] = []
    for number, accuracy in of("complete"):
        if not best or accuracy > best[-1][1]:
            best.append((number, accuracy))
    default = None if findings.default is None else findings.default.accuracy
    look = looks({findings.method: findings.method})[findings.method]
    return History(of("complete"), of("pruned"), tuple(best), default, look)


@styled
def draw_history(history: History) -> Figure:
    """Draw every trial, a step wherever the best rises, and the defaults as a line."""
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(1.4 * COLUMN, 2.4)
    axes = figure.add_subplot()
    if history.pruned:
        axes.plot(*zip(*history.pruned, strict=True), "x", color=FAINT, label="stopped early", markersize=3)
    axes.plot(*zip(*history.complete, strict=True), "o", color=history.look.colour, label="complete", markersize=3)
    last = max(number for number, _ in (*history.complete, *history.pruned))
    steps = [*history.best, (last, history.best[-1][1])]
    axes.step(*zip(*steps, strict=True), where="post", color=history.look.colour, label="best so far")
    if history.default is not None:
        axes.axhline(history.default, color=FAINT, linewidth=0.8, linestyle=(0, (4, 2)), label="defaults")
    axes.set_xlabel("trial")
    axes.set_ylabel("mean accuracy (%)")
    axes.set_title(history.look.title)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


@styled
def draw_importance(importance: Mapping[str, float]) -> Figure:
    """Draw one bar a hyper-parameter, the most important on top.

    Args:
        importance: Hyper-parameter -> share, largest first.
    """
    figure = new_figure(1.4 * COLUMN, 0.7 + 0.22 * len(importance))
    axes = figure.add_subplot()
    shares = [100 * share for share in importance.values()]
    drawn = axes.barh(list(importance), shares, color=looks({"tent": "tent"})["tent"].colour, height=0.7)
    axes.bar_label(drawn, [f"{share:.0f}" for share in shares], fontsize=7, padding=2)
    axes.invert_yaxis()
    axes.set_xlabel("importance (%)")
    axes.set_xlim(0, max(100.0, *shares) if len(shares) < 2 else 1.15 * max(shares))
    axes.grid(axis="x")
    return figure
