"""Engines: where cells and searches run."""

from midway.bench.engines.engine import ENGINES, Engine, engine
from midway.bench.engines.local import LocalEngine

__all__ = ["ENGINES", "Engine", "LocalEngine", "engine"]
