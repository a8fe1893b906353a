"""Tables, figures and pages from stored results."""

from midway.report.tidy import Frame, Row, frame
from midway.report.table import Column, Table, Value, beside_paper, pivot

__all__ = ["Column", "Frame", "Row", "Table", "Value", "beside_paper", "frame", "pivot"]
