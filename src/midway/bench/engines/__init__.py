"""Engines: where cells are run."""

from midway.bench.engines.engine import Engine
from midway.bench.engines.local import LocalEngine

__all__ = ["Engine", "LocalEngine"]
