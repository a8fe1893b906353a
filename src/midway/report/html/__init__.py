"""Reports as one self-contained HTML page."""

from midway.report.html.page import render, write_report

__all__ = ["render", "write_report"]
