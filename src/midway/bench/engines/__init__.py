"""Engines: where cells and searches run."""

from midway.bench.engines.base import ENGINES, Engine, engine
from midway.bench.engines.local import LocalEngine

__all__ = ["ENGINES", "Engine", "LocalEngine", "engine"]
