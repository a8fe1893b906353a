"""What the page's charts show, as plain values: a script on the page draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from statistics import fmean
from typing import Any

from midway.bench import Result
from midway.report.figures.over_time import accuracy_over_time
from midway.report.figures.pareto import UNITS, accuracy_and_cost
from midway.report.figures.style import Look
from midway.report.figures.sweep import ratio_sweeps
from midway.report.labels import stream_title, words
from midway.report.standings import CostKind, kind_of, parts_of, scopes

KINDS: tuple[CostKind, ...] = ("seconds", "gflops")


def method_data(looks: Mapping[str, Look]) -> list[dict[str, Any]]:
    """Return how the methods look."""
    return [
        {
            "label": label,
            "title": look.title,
            "light": look.colour,
            "dark": look.colour_on_dark,
            "marker": look.marker,
            "dash": list(look.dash),
        }
        for label, look in looks.items()
    ]


def chart_data(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return the charts that results are enough for; each has views to choose from.

    Example:
        >>> from midway.bench import Result
        >>> from midway.report.html.charts import chart_data
        >>> charts = chart_data([Result("bn", "bn", {}, "pure:fog", 8, 60.0, {}, {}, (50.0, 70.0), 0.5)])
        >>> [(chart["kind"], len(chart["views"])) for chart in charts]
        [('dots', 1), ('lines', 1)]
    """
    made = [_dots(results), _sweep(results), _over_time(results), _cost(results)]
    return [chart for chart in made if chart["views"]]


def change_chart(changes: Mapping[str, float], looks: Mapping[str, Look], *, about: str) -> dict[str, Any]:
    """Return the chart of what every method gained or lost, in points.

    Example:
        >>> from midway.report.figures.style import looks
        >>> from midway.report.html.charts import change_chart
        >>> chart = change_chart({"bn": -1.5}, looks({"bn": "bn"}), about="After less before.")
        >>> chart["views"][0]["rows"]
        [{'title': 'BN', 'values': {'bn': -1.5}}]
    """
    rows = [{"title": looks[label].title, "values": {label: change}} for label, change in changes.items()]
    return _chart("dots", "Change by method", about, [{"name": "all streams", "rows": rows}], x="points", unit="points")


def to_figures(charts: Sequence[Mapping[str, Any]]) -> str:
    """Write the places of charts, which the script fills; their view and legend are for print."""
    made = []
    for number, chart in enumerate(charts):
        title = escape(chart["title"])
        options = "".join(f"<option>{escape(view['name'])}</option>" for view in chart["views"])
        choice = f'<select aria-label="Which: {title}">{options}</select>' if len(chart["views"]) > 1 else ""
        made.append(
            f'<figure class="chart" data-chart="{number}"><div class="head"><h4>{title}<span class="view"></span></h4>'
            f"{choice}</div>"
            '<div class="canvas"><noscript>This figure is drawn by a script on this page.</noscript></div>'
            '<div class="tip" role="status" hidden></div><div class="legend" aria-hidden="true"></div>'
            f"<figcaption>{escape(chart['about'])}</figcaption></figure>"
        )
    return f'<div class="charts">{"".join(made)}</div>'


def _chart(kind: str, title: str, about: str, views: list[dict[str, Any]], **axes: str) -> dict[str, Any]:
    return {"kind": kind, "title": title, "about": about, "views": views, **axes}


def _dots(results: Sequence[Result]) -> dict[str, Any]:
    views = []
    for kind, part, name in scopes(results):
        found: dict[str, dict[str, list[float]]] = {}
        for result in results:
            if kind_of(result.stream) == kind and part in (parts := parts_of(result)):
                found.setdefault(result.stream, {}).setdefault(result.label, []).append(parts[part])
        rows = [
            {"title": _row_title(stream), "values": {label: fmean(values) for label, values in by_label.items()}}
            for stream, by_label in found.items()
        ]
        views.append({"name": name, "rows": rows})
    about = "Accuracy in percent on every stream, mean over seeds. One mark a method."
    return _chart("dots", "Accuracy by stream", about, views, x="accuracy (%)", unit="%")


def _row_title(stream: str) -> str:
    return stream_title(stream).partition(": ")[2] or stream


def _sweep(results: Sequence[Result]) -> dict[str, Any]:
    views = [
        {
            "name": f"{words(sweep.shift_a)} among {words(sweep.shift_b)}",
            "lines": {label: [[100 * p.ratio, p.accuracy] for p in points] for label, points in sweep.lines.items()},
        }
        for sweep in ratio_sweeps(results).sweeps
    ]
    about = "Accuracy on the outliers, the rarer they are. Methods that fall to the left lose the rare images."
    axes = {"x": "share of outliers (%)", "y": "accuracy on them (%)", "scale": "log"}
    return _chart("lines", "Outliers by their share", about, views, **axes)


def _over_time(results: Sequence[Result]) -> dict[str, Any]:
    views = [
        {
            "name": stream_title(stream.stream),
            "lines": {
                label: [[stream.window + place, value] for place, value in enumerate(values)]
                for label, values in stream.lines.items()
            },
        }
        for stream in accuracy_over_time(results)
    ]
    about = "Accuracy batch by batch, a running mean over a tenth of the stream: who learns, who collapses."
    return _chart("lines", "Accuracy over time", about, views, x="batch", y="accuracy (%)", scale="linear")


def _cost(results: Sequence[Result]) -> dict[str, Any]:
    views = []
    for kind in KINDS:
        found = accuracy_and_cost(results, kind=kind)
        if len(found.points) > 1:
            points = {point.label: [point.cost, point.accuracy] for point in found.points}
            views.append({"name": UNITS[kind], "x": UNITS[kind], "points": points, "front": list(found.front)})
    about = "Mean accuracy against cost. No method on the line is beaten in both."
    return _chart("points", "Accuracy against cost", about, views, y="accuracy (%)")
