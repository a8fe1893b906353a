"""Run methods over streams and keep what comes out."""

from midway.bench.cell import Cell
from midway.bench.comparison import Comparison
from midway.bench.engines import Engine, LocalEngine
from midway.bench.evaluate import Result, evaluate
from midway.bench.gather import gather
from midway.bench.outcome import Failure, Outcome
from midway.bench.plan import Grid, PlanError
from midway.bench.plan_file import load_plan
from midway.bench.run import Tally, Watcher, run
from midway.bench.store import Record, Store, StoreError, load_predictions, read_records
from midway.bench.work import work

__all__ = [
    "Cell",
    "Comparison",
    "Engine",
    "Failure",
    "Grid",
    "LocalEngine",
    "Outcome",
    "PlanError",
    "Record",
    "Result",
    "Store",
    "StoreError",
    "Tally",
    "Watcher",
    "evaluate",
    "gather",
    "load_plan",
    "load_predictions",
    "read_records",
    "run",
    "work",
]
