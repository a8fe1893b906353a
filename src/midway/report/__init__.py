"""Tables, figures and pages from stored results."""

from midway.report.html import summary, to_html, write_report
from midway.report.stored_run import StoredRun, read_run
from midway.report.tables import accuracy_table, to_markdown, to_rich

__all__ = [
    "StoredRun",
    "accuracy_table",
    "read_run",
    "summary",
    "to_html",
    "to_markdown",
    "to_rich",
    "write_report",
]
