"""Tables, figures and pages from stored results.

``frame`` reads results as rows, ``pivot`` arranges rows as a table, the render functions write tables, and
``write_report`` writes one HTML page.
"""

from midway.report.html.page import write_report
from midway.report.ranking import pareto_front, rank
from midway.report.render import export, fit_width, to_brief_markdown, to_csv, to_json, to_latex, to_markdown, to_rich
from midway.report.stored_run import Comparison, StoredRun, group_records, read_run, search_run, stored_run
from midway.report.table import Column, Table, Value, beside_paper, pivot, split_columns
from midway.report.tidy import Frame, Row, frame

__all__ = [
    "Column",
    "Comparison",
    "Frame",
    "Row",
    "StoredRun",
    "Table",
    "Value",
    "beside_paper",
    "export",
    "fit_width",
    "frame",
    "group_records",
    "pareto_front",
    "pivot",
    "rank",
    "read_run",
    "search_run",
    "split_columns",
    "stored_run",
    "to_brief_markdown",
    "to_csv",
    "to_json",
    "to_latex",
    "to_markdown",
    "to_rich",
    "write_report",
]
