"""Engines: where cells and searches run."""

from midway.bench.engines.base import ENGINES, Engine, LocalEngine, engine

__all__ = ["ENGINES", "Engine", "LocalEngine", "engine"]
