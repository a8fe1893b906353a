"""Tables, figures and pages from stored results."""

from midway.report.html import summary, write_report
from midway.report.tables import accuracy_table, to_html, to_markdown, to_rich

__all__ = ["accuracy_table", "summary", "to_html", "to_markdown", "to_rich", "write_report"]
