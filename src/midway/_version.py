"""The version of midway: the only definition, read by the package and by its build."""

from __future__ import annotations

__version__ = "0.1.0"
