"""What ``midway.compare`` returns: the records of the methods, as a table, a frame or a page."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from midway._files import write_atomically
from midway.bench import Record, Result
from midway.metrics import METRICS

if TYPE_CHECKING:
    from midway.report import Frame

WITH_LABELS = ("accuracy", "nll", "calibration_error", "changed", "seconds_per_batch")
WITHOUT_LABELS = (
    "changed", "mean_entropy", "classes_used", "mirror_agreement", "mirror_information", "seconds_per_batch",
)  # fmt: skip
NOT_SHOWN = ("late_classes",)
"""Scores that are in the frame but not in the table."""
SHORT = {
    "calibration_error": "ECE",
    "seconds_per_batch": "s/batch",
    "mean_entropy": "entropy",
    "classes_used": "classes",
    "mirror_agreement": "mirror",
}
"""Headings that keep the table within 80 columns."""

WIDTH, SHORTEST_LABEL = 80, 12
"""Columns of the printed table, and characters that a label has at least."""

MOST_GROUPS = 3
"""Groups of a stream that have columns of their own."""


@dataclass(frozen=True, repr=False)
class CompareResult:
    """Methods compared on the same images: prints as a table.

    Attributes:
        records: One record per method, in the order of the methods; ``record.result`` has what was measured.
        labelled: The images have labels, so there are accuracies.
    """

    records: tuple[Record, ...]
    labelled: bool

    def __getitem__(self, label: str) -> Result:
        """Return what was measured of a method by its label."""
        for record in self.records:
            if record.cell.label == label:
                if record.result is None:
                    raise ValueError(f"{label} failed: {record.failure.error if record.failure else 'unknown'}.")
                return record.result
        raise KeyError(label)

    @property
    def columns(self) -> tuple[str, ...]:
        """The metrics that the table shows."""
        wanted = WITH_LABELS if self.labelled else WITHOUT_LABELS
        known = {name for record in self.records if record.result for name in record.result.metrics}
        if self.groups:  # their columns take the space
            known -= {"nll", "calibration_error"}
        scores = [] if self.labelled else [each.name for each in METRICS.values() if each.needs == "logits"]
        others = [name for name in scores if name not in (*WITHOUT_LABELS, *NOT_SHOWN)]
        return tuple(name for name in (*wanted, *others) if name in known)

    def rows(self) -> list[dict[str, float | str]]:
        """Return one row per method: its label, the metrics of the table, or the error of a method that failed."""
        rows: list[dict[str, float | str]] = []
        for record in self.records:
            row: dict[str, float | str] = {"method": record.cell.label}
            if record.result is None:
                row["error"] = record.failure.error if record.failure else "unknown"
            else:
                row |= {name: record.result.metrics[name] for name in self.columns if name in record.result.metrics}
            rows.append(row)
        return rows

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of images whose accuracy the table shows: those of a stream with two or three."""
        names = {group: None for record in self.records if record.result for group in record.result.by_group}
        return tuple(names) if 1 < len(names) <= MOST_GROUPS else ()

    def _cells(self) -> list[list[str]]:
        """Return the table as text, the headings first."""
        table = [["method", *(title(name) for name in self.columns)]]
        table += [[str(row["method"]), *(_shown(name, row.get(name)) for name in self.columns)] for row in self.rows()]
        for index, group in enumerate(self.groups, start=2):
            table[0].insert(index, f"{group} %")
            for line, record in zip(table[1:], self.records, strict=True):
                value = None if record.result is None else record.result.by_group.get(group)
                line.insert(index, _shown("accuracy", value))
        return table

    def __str__(self) -> str:
        heads, *lines = self._cells()
        widths = [max(map(len, column)) for column in zip(heads, *lines, strict=True)]
        widths[0] = min(widths[0], max(SHORTEST_LABEL, WIDTH - sum(widths[1:]) - 2 * len(widths[1:])))
        text = ["  ".join(_aligned(cells, widths)).rstrip() for cells in (heads, *lines)]
        failed = [f"{row['method']} failed: {row['error']}" for row in self.rows() if "error" in row]
        return "\n".join(text + failed)

    def __repr__(self) -> str:
        return str(self)

    def frame(self) -> Frame:
        """Return every number as a tidy table; its ``to_pandas()`` is a DataFrame."""
        from midway.report import frame

        return frame(self.records)

    def report(self, path: str | Path) -> Path:
        """Write a page (``.html``) or the table (``.md``, ``.csv``) and return its path.

        With labels the page is the report of ``midway run``; without, it has the table.
        """
        from midway.report import stored_run, write_report
        from midway.report.render import markdown_table

        path = check_report(path)
        if path.suffix == ".html" and self.labelled:
            return write_report(stored_run(path.stem, self.records), path)
        heads, *cells = self._cells()
        if path.suffix == ".md":
            text = markdown_table(heads, cells)
        elif path.suffix == ".csv":
            file = io.StringIO()
            csv.writer(file, lineterminator="\n").writerows([heads, *cells])
            text = file.getvalue()
        else:
            text = _html(heads, cells)
        return write_atomically(path, text)


def check_report(path: str | Path) -> Path:
    """Return the path of a report; refuse endings of unknown formats."""
    path = Path(path)
    if path.suffix not in (".html", ".md", ".csv"):
        raise ValueError(f"the report must be a .html, .md or .csv file, got {path.name}.")
    return path


def title(name: str) -> str:
    """Return the heading of a metric, with its unit."""
    metric = METRICS[name]
    return f"{SHORT.get(name, metric.title)}{f' {metric.unit}' if metric.unit else ''}"


def _shown(name: str, value: float | str | None) -> str:
    return "-" if not isinstance(value, int | float) else f"{value:.{METRICS[name].digits}f}"


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Align the first cell to the left and numbers to the right."""
    start, end = (widths[0] - 3) // 2, widths[0] - 3 - (widths[0] - 3) // 2
    label = cells[0] if len(cells[0]) <= widths[0] else f"{cells[0][:start]}...{cells[0][-end:]}"
    return [label.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))]


def _html(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>\n"

    style = "body{font-family:sans-serif}td,th{padding:.2em .8em;text-align:right}td:first-child{text-align:left}"
    body = line(heads, "th") + "".join(line(row, "td") for row in rows)
    head = f'<meta charset="utf-8">\n<title>midway</title>\n<style>{style}</style>\n'
    return f"<!doctype html>\n{head}<table>\n{body}</table>\n"
