"""The data of the page's charts as plain values; the script of the page is the only renderer of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from midway.metrics import METRICS
from midway.report.figures.over_time import accuracy_over_time
from midway.report.figures.pareto import accuracy_and_cost
from midway.report.figures.sweep import ratio_sweeps
from midway.report.ranking import part_of, scopes
from midway.report.style import PlotStyle, plot_styles, scenario_title, words
from midway.report.table import pivot
from midway.report.tidy import Frame

if TYPE_CHECKING:
    from midway.tune.result import StudyResult

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
    charts = [_by_stream(frame), _by_ratio(frame), _over_time(frame), _by_cost(frame)]
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
        chosen = [row for row in frame if row.scenario.kind == kind and part_of(row) == part]
        table = pivot(replace(frame, rows=tuple(chosen)))
        rows = []
        for index, column in enumerate(table.columns):
            assert column.scenario is not None
            values = {label: value.mean for label, row in table.rows if (value := row[index]) is not None}
            rows.append({"title": scenario_title(column.scenario).partition(": ")[2], "values": values})
        views.append({"name": title, "rows": rows})
    caption = "Accuracy in percent on every stream, mean over seeds. One mark a method."
    return _chart("dots", "Accuracy by stream", caption, views, x="accuracy (%)", unit="%")


def _by_ratio(frame: Frame) -> Chart:
    views = []
    for sweep in ratio_sweeps(frame).sweeps:
        lines = {label: [[100 * ratio, v.mean] for ratio, v in line.items()] for label, line in sweep.lines.items()}
        views.append({"name": " among ".join(map(words, sweep.shifts)), "lines": lines})
    caption = "Accuracy on the outliers, by their share. Methods that fall to the left lose the rare images."
    axes = {"x": "share of outliers (%)", "y": "accuracy on them (%)", "scale": "log"}
    return _chart("lines", "Outliers by their share", caption, views, **axes)


def _over_time(frame: Frame) -> Chart:
    views = []
    for stream in accuracy_over_time(frame):
        lines = {label: list(enumerate(values, start=stream.window)) for label, values in stream.lines.items()}
        views.append({"name": scenario_title(stream.scenario), "lines": lines})
    caption = "Accuracy batch by batch, a running mean over a tenth of the stream: who learns, who collapses."
    return _chart("lines", "Accuracy over time", caption, views, x="batch", y="accuracy (%)", scale="linear")


def _by_cost(frame: Frame) -> Chart:
    views = []
    for cost in ("seconds_per_batch", "gflops"):
        data, unit = accuracy_and_cost(frame, metric=cost), METRICS[cost].title
        if len(data.points) > 1:
            points = {point.label: [point.cost, point.accuracy] for point in data.points}
            views.append({"name": unit, "x": unit, "points": points, "front": list(data.front)})
    caption = "Mean accuracy against cost. No method on the line is beaten in both."
    return _chart("points", "Accuracy against cost", caption, views, y="accuracy (%)")
