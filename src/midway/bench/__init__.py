"""Run methods on streams and store the results."""

from midway.bench.engines import ENGINES, Engine, LocalEngine, engine
from midway.bench.engines.base import run_cell
from midway.bench.entries import PlanError
from midway.bench.evaluation import evaluate
from midway.bench.plan import Grid, load_plan
from midway.bench.record import Cell, Failure, Record, Result, StoreError
from midway.bench.resources import ResourceCache
from midway.bench.store import Store, Tally, Watcher, load_predictions, read_records, run

__all__ = [
    "ENGINES",
    "Cell",
    "Engine",
    "Failure",
    "Grid",
    "LocalEngine",
    "PlanError",
    "Record",
    "ResourceCache",
    "Result",
    "Store",
    "StoreError",
    "Tally",
    "Watcher",
    "engine",
    "evaluate",
    "load_plan",
    "load_predictions",
    "read_records",
    "run",
    "run_cell",
]
