"""Reports as one self-contained HTML page."""

from midway.report.html.answer import find_winner, summary, verdict, winners_by_scenario
from midway.report.html.page import render, write_report
from midway.report.html.tables import to_html

__all__ = ["find_winner", "render", "summary", "to_html", "verdict", "winners_by_scenario", "write_report"]
