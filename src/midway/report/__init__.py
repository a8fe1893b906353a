"""Tables, figures and pages from stored results."""

from midway.report.table import Column, Table, Value, beside_paper, pivot
from midway.report.tidy import Frame, Row, frame

__all__ = ["Column", "Frame", "Row", "Table", "Value", "beside_paper", "frame", "pivot"]
