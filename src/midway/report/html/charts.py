"""The data of the page's charts as plain values; the script of the page is the only renderer of them."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import TYPE_CHECKING, Any

from midway.report.ranking import pareto_front, part_of, rank, scopes
from midway.report.style import PlotStyle, plot_styles, scenario_title, words
from midway.report.tidy import ALL, Frame

if TYPE_CHECKING:
    from midway.tune.result import StudyResult

COSTS = {"seconds_per_batch": "seconds a batch", "gflops": "GFLOPs an image"}
FEWEST_RATIOS = 3

Chart = dict[str, Any]
"""Kind (dots, lines or points), title, caption, axes, and views to choose from."""


def series(styles: Mapping[str, PlotStyle], *, wide: str = "") -> list[dict[str, Any]]:
    """Return how each label is drawn; the line of one label is wider."""
    return [
        {
            "label": label,
            "title": style.title,
            "light": style.colour,
            "dark": style.colour_on_dark,
            "marker": style.marker,
            "dash": list(style.dash),
            "width": 2.6 if label == wide else 1.8,
        }
        for label, style in styles.items()
    ]


def charts_of(frame: Frame) -> list[Chart]:
    """Return the charts that the rows are enough for.

    Example:
        >>> from midway.report import Frame, Row
        >>> from midway.report.html.charts import charts_of
        >>> from midway.streams import Scenario
        >>> fog = Scenario.parse("pure:fog")
        >>> rows = (Row("bn", fog, "all", 0, "accuracy", 60.0),)
        >>> charts = charts_of(Frame(rows, batch_accuracies={("bn", fog, 0): (50.0, 70.0)}))
        >>> [(chart["kind"], len(chart["views"])) for chart in charts]
        [('dots', 1), ('lines', 1)]
    """
    shared = frame.common_seeds()
    charts = [_by_stream(shared), _by_ratio(shared), _over_time(shared), _by_cost(frame)]
    return [chart for chart in charts if chart["views"]]


def change_chart(changes: Mapping[str, float], styles: Mapping[str, PlotStyle], caption: str) -> Chart:
    """Return the chart of what every method gained or lost between two runs, in points."""
    rows = [{"title": styles[label].title, "values": {label: change}} for label, change in changes.items()]
    views = [{"name": "all streams", "rows": rows}]
    return _chart("dots", "Change by method", caption, views, x="points", unit="points")


def search_charts(findings: StudyResult) -> tuple[list[dict[str, Any]], list[Chart]]:
    """Return the series and the charts of a search: every trial, and the importance of the hyper-parameters."""
    style = plot_styles({findings.method: findings.method})[findings.method]
    grey = {"light": "#6e6e6e", "dark": "#a8a8a8", "width": 1.8, "dash": []}
    own = grey | {"light": style.colour, "dark": style.colour_on_dark}
    drawn = [
        own | {"label": "complete", "title": "complete", "marker": "o", "line": False},
        grey | {"label": "pruned", "title": "stopped early", "marker": "X", "line": False},
        own | {"label": "best", "title": "best so far", "marker": "", "step": True},
        grey | {"label": "default", "title": "defaults", "marker": "", "dash": [4, 2]},
    ]
    trials = {
        state: [(trial.number, trial.accuracy) for trial in findings.trials if trial.state == state]
        for state in ("complete", "pruned")
    }
    numbers = sorted(number for points in trials.values() for number, _ in points)
    complete = [(number, accuracy) for number, accuracy in trials["complete"] if accuracy is not None]
    best = [(number, max((a for n, a in complete if n <= number), default=None)) for number in numbers]
    default = None if findings.default is None else findings.default.accuracy
    lines = {**trials, "best": best, "default": [(number, default) for number in numbers]}
    caption = "Every trial, the best so far, and the defaults."
    axes: dict[str, Any] = {"x": "trial", "y": "mean accuracy (%)", "scale": "linear"}
    charts = [_chart("lines", "Trials of the search", caption, [{"name": "all trials", "lines": lines}], **axes)]
    if findings.importance:
        rows = [{"title": name, "values": {"complete": 100 * share}} for name, share in findings.importance.items()]
        caption = "Share of the variation among the better trials that each hyper-parameter explains."
        views = [{"name": "all trials", "rows": rows}]
        axes = {"x": "share (%)", "unit": "%", "range": [0, 100]}
        charts.append(_chart("dots", "Importance of hyper-parameters", caption, views, **axes))
    return drawn, charts


def _chart(kind: str, title: str, caption: str, views: list[dict[str, Any]], **axes: Any) -> Chart:
    return {"kind": kind, "title": title, "caption": caption, "views": views, **axes}


def _by_stream(frame: Frame) -> Chart:
    views = []
    for kind, part, title in scopes(frame):
        values: dict[Any, dict[str, list[float]]] = {}
        for row in frame.where(metric="accuracy"):
            if row.scenario.kind == kind and part_of(row) == part:
                values.setdefault(row.scenario, {}).setdefault(row.label, []).append(row.value)
        rows = [
            {
                "title": scenario_title(scenario).partition(": ")[2],
                "values": {label: fmean(numbers) for label, numbers in by_label.items()},
            }
            for scenario, by_label in values.items()
        ]
        views.append({"name": title, "rows": rows})
    caption = "Accuracy in percent on every stream, mean over seeds. One mark a method."
    return _chart("dots", "Accuracy by stream", caption, views, x="accuracy (%)", unit="%")


def _by_ratio(frame: Frame) -> Chart:
    """Return the accuracy on the outliers by their share; where two kinds have the same share, mixtures count."""
    values: dict[tuple[Any, ...], dict[float, dict[str, dict[str, list[float]]]]] = {}
    for row in frame.where(metric="accuracy"):
        if part_of(row) == "A":
            pair, ratio = (*row.scenario.shifts, row.scenario.severity), row.scenario.amount or 0.0
            kinds = values.setdefault(pair, {}).setdefault(ratio, {})
            kinds.setdefault(row.scenario.kind, {}).setdefault(row.label, []).append(row.value)
    views = []
    for (first, second, _), ratios in values.items():
        if len(ratios) >= FEWEST_RATIOS:
            lines: dict[str, list[list[float]]] = {}
            for ratio, kinds in sorted(ratios.items()):
                for label, numbers in (kinds.get("mixture") or kinds["outlier"]).items():
                    lines.setdefault(label, []).append([100 * ratio, fmean(numbers)])
            views.append({"name": f"{words(first)} among {words(second)}", "lines": lines})
    caption = "Accuracy on the outliers, by their share. Methods that fall to the left lose the rare images."
    axes = {"x": "share of outliers (%)", "y": "accuracy on them (%)", "scale": "log"}
    return _chart("lines", "Outliers by their share", caption, views, **axes)


def _over_time(frame: Frame) -> Chart:
    known = {(*row[:2], row.seed) for row in frame}  # the seeds that all methods share
    batches: dict[Any, dict[str, list[tuple[float, ...]]]] = {}
    for (label, scenario, seed), accuracies in frame.batch_accuracies.items():
        if (label, scenario, seed) in known and len(accuracies) > 1:
            batches.setdefault(scenario, {}).setdefault(label, []).append(accuracies)
    views = []
    for scenario, by_label in batches.items():
        count = min(len(run) for runs in by_label.values() for run in runs)
        window = max(1, count // 10)
        lines = {}
        for label, runs in by_label.items():
            means = [fmean(batch) for batch in zip(*(run[:count] for run in runs), strict=True)]
            lines[label] = [[end, fmean(means[end - window : end])] for end in range(window, count + 1)]
        views.append({"name": scenario_title(scenario), "lines": lines})
    caption = "Accuracy batch by batch, a running mean over a tenth of the stream: who learns, who collapses."
    return _chart("lines", "Accuracy over time", caption, views, x="batch", y="accuracy (%)", scale="linear")


def _by_cost(frame: Frame) -> Chart:
    methods = rank(frame, part=ALL).methods
    views = []
    for cost, unit in COSTS.items():
        priced = [method for method in methods if method.costs.get(cost, 0) > 0]
        if len(priced) > 1:
            points = {method.label: [method.costs[cost], method.mean] for method in priced}
            views.append({"name": unit, "x": unit, "points": points, "front": list(pareto_front(priced, cost))})
    caption = "Mean accuracy against cost. No method on the line is beaten in both."
    return _chart("points", "Accuracy against cost", caption, views, y="accuracy (%)")
