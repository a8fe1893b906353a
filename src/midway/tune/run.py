"""Run a search on an engine: its workers share the storage."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from midway._workers import Died, Tell
from midway.bench import Engine, LocalEngine, ResourceCache
from midway.bench.code import registering_modules
from midway.bench.engines.base import ResourceTask
from midway.tune.result import StudyResult, TrialRecord
from midway.tune.search import Search, check_labels

SPARE_TASKS = 3
"""Tasks that replace those of dead workers; one that is not needed ends at once."""


def import_studies() -> Any:
    """Import the module that needs Optuna; an error says how to install it."""
    try:
        from midway.tune import study
    except ModuleNotFoundError as error:
        if error.name != "optuna":
            raise
        raise ModuleNotFoundError("searching needs Optuna: pip install 'midway[tune]'.", name="optuna") from error
    return study


@dataclass(frozen=True)
class SearchTask(ResourceTask):
    """Runs trials until the study has enough of them or the time is up; the cell is one of the search."""

    stop_seconds: ClassVar[float] = 30.0  # to queue the settings of the running trial again

    search: Search
    storage: str
    trials: int
    seconds: float
    driver: str

    def run(self, memory: dict[str, Any], tell: Tell) -> None:
        """Run trials and tell the record of each."""
        studies = import_studies()
        self.register()
        ends = time.monotonic() + self.seconds
        resources = memory.setdefault("resources", ResourceCache())
        with studies.opened(self.search, self.storage, resources) as study:
            studies.run_trials(
                self.search,
                study,
                resources,
                trials=self.trials,
                driver=self.driver,
                may_begin=lambda: time.monotonic() < ends,
                on_trial=tell,
            )


def tune(
    search: Search,
    *,
    storage: str,
    trials: int,
    seconds: float = float("inf"),
    jobs: int = 1,
    engine: Engine | None = None,
    on_trial: Callable[[TrialRecord], None] | None = None,
) -> StudyResult:
    """Search until the study has enough trials or the time is up, and return the result.

    The same call continues a search. Other processes and machines may work on the same study with the same search and
    storage. Ctrl-C passes through; finished trials are in the storage.

    Args:
        search: What to search.
        storage: A file or a database URL, see ``midway.tune.storage.open_storage``.
        trials: Number of trials that the study shall have in all.
        seconds: No trial begins after this time.
        jobs: Trials at a time.
        engine: Runs the trials; by default this process, or as many worker processes as jobs. All machines of an
            engine must reach the storage.
        on_trial: Called with the record of every trial that ended, in the calling thread.

    Example:
        >>> import tempfile
        >>> from midway.tune import Search, tune
        >>> search = Search(method="bn", scenarios=("pure:spatter",), images=20, batch_size=10)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result = tune(search, storage=f"{folder}/study.journal", trials=2)
        >>> result.trials[0].settings, len(result.trials)
        ({'prior': 0}, 2)
    """
    studies = import_studies()
    if trials < 1 or jobs < 1:
        raise ValueError(f"trials and jobs must be at least 1, got {trials} and {jobs}.")
    engine = engine or LocalEngine(jobs=jobs)
    ends = time.monotonic() + seconds
    cells = search.cells({})
    resources = engine.resources or ResourceCache()
    check_labels(cells, resources)

    def on_message(task: SearchTask, trial: TrialRecord) -> None:
        if on_trial is not None:
            on_trial(trial)

    with studies.opened(search, storage, resources) as study:
        driver = studies.this_process()
        studies.begin(study, driver)
        while True:
            before = study.get_trials(deepcopy=False)
            left = ends - time.monotonic()
            task = SearchTask(cells[0], search, storage, trials, left, driver, modules=registering_modules(cells[0]))
            spare = SPARE_TASKS if engine.local and jobs > 1 else 0
            results = list(engine.map([task] * (jobs + spare), on_message))
            died = [result for _, result in results if isinstance(result, Died)]
            now = study.get_trials(deepcopy=False)
            if not died or studies.num_taken(now) >= trials or time.monotonic() >= ends:
                result: StudyResult = studies.result_of(search, study)
                return result
            if len(now) == len(before):
                raise RuntimeError(f"no trial was begun, {died[0].reason}: use fewer jobs, or check the memory.")


def finished_trials(search: Search, storage: str) -> int:
    """Return the number of trials of a search that a storage has the result of."""
    studies = import_studies()
    with studies.opened(search, storage, ResourceCache()) as study:
        result: StudyResult = studies.result_of(search, study)
    return sum(trial.state in ("complete", "pruned", "failed") for trial in result.trials)
