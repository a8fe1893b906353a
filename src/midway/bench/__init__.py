"""Run methods on streams and store the results."""

from midway.bench.cell import Cell
from midway.bench.engines import ENGINES, Engine, LocalEngine, engine
from midway.bench.evaluate import evaluate
from midway.bench.plan import Grid
from midway.bench.plan_file import load_plan
from midway.bench.plan_values import PlanError
from midway.bench.record import Failure, Record, Result, StoreError
from midway.bench.resources import ResourceCache
from midway.bench.run import Tally, Watcher, run
from midway.bench.store import Store, load_predictions, read_records
from midway.bench.work import run_cell

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
