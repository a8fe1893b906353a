"""Run a search: in this process, or in several that share its storage."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.context import SpawnProcess
from typing import Any

import midway
from midway.bench.engines.ray import RayEngine, refuse_what_fits_nowhere
from midway.bench.material import Material
from midway.tune.findings import Findings, TrialRecord
from midway.tune.search import Search

POLL_SECONDS = 0.5
SECONDS_TO_STOP = 30.0
DEATHS_IN_A_ROW = 3  # of worker processes, without a trial begun in between

OnTrial = Callable[[TrialRecord], None]
Task = tuple[Search, str, int]
"""What a worker gets: the search, its storage, and how many trials there shall be."""


def tune(
    search: Search,
    *,
    storage: str,
    trials: int,
    seconds: float = float("inf"),
    jobs: int = 1,
    cluster: RayEngine | None = None,
    on_trial: OnTrial | None = None,
) -> Findings:
    """Search until the study has enough trials or the time is up, and return all that was found.

    The same call goes on where it was stopped. Other processes and machines may work on the same study: they give the
    same search and storage. Ctrl-C passes through; everything finished is in the storage.

    Args:
        search: What to search.
        storage: A file or a database URL, see ``midway.tune.study.open_storage``.
        trials: How many trials the study shall have in all.
        seconds: No trial begins after this time.
        jobs: Trials at a time. 1 runs them in this process, more in as many worker processes.
        cluster: Run the jobs on this cluster instead; all its nodes must reach the storage. What a trial reserves is
            what the engine has for a cell.
        on_trial: Told of every trial that ended, in the calling thread.

    Raises:
        ImportError: Optuna is not installed; the message says how to.
        ValueError: The storage cannot be opened, or the search makes no sense.

    Example:
        >>> import tempfile
        >>> from midway.tune import Search, tune
        >>> search = Search(method="bn", scenarios=("pure:spatter",), images=20, batch_size=10)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found = tune(search, storage=f"{folder}/study.journal", trials=2)
        >>> found.trials[0].settings, len(found.trials)
        ({'prior': 0}, 2)
    """
    from midway.tune import study as studies

    if trials < 1 or jobs < 1:
        raise ValueError(f"trials and jobs must be at least 1, got {trials} and {jobs}.")
    material = Material()
    ends = time.monotonic() + seconds
    with studies.quiet(), studies.open_storage(storage) as opened:
        study = studies.open_study(search, opened, material)
        task = (search, storage, trials)
        if cluster is not None:
            _on_cluster(study, task, ends, jobs, on_trial, cluster)
        elif jobs == 1:
            studies.run_trials(
                search, study, material, trials=trials, go_on=lambda: time.monotonic() < ends, on_trial=on_trial
            )
        else:
            _over_processes(study, task, ends, jobs, on_trial)
        return studies.findings_of(search, study)


class _Watch:
    """Tells of the trials that others ended in a study."""

    def __init__(self, study: Any, on_trial: OnTrial | None) -> None:
        self.study, self.on_trial = study, on_trial
        self.ended = {trial.number for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()}

    def tell(self) -> None:
        """Tell of those that ended since the last time."""
        from midway.tune.study import record_of

        for trial in self.study.get_trials(deepcopy=False):
            if trial.state.is_finished() and trial.number not in self.ended:
                self.ended.add(trial.number)
                if self.on_trial is not None:
                    self.on_trial(record_of(trial))


def _on_cluster(study: Any, task: Task, ends: float, jobs: int, on_trial: OnTrial | None, cluster: RayEngine) -> None:
    """Let Ray tasks run the trials and watch the storage; one whose node dies is started elsewhere."""
    watch = _Watch(study, on_trial)
    needs = cluster.needs(task[0].cells({})[0])
    with cluster.connected() as ray:
        refuse_what_fits_nowhere(ray, needs)
        work = ray.remote(num_cpus=needs["CPU"], num_gpus=needs["GPU"], max_retries=cluster.retries)(_work)
        left = [work.remote(*task, ends - time.monotonic(), _module(task)) for _ in range(jobs)]
        try:
            while left:
                done, left = ray.wait(left, timeout=POLL_SECONDS)
                watch.tell()
                ray.get(done)
        finally:
            for reference in left:
                ray.cancel(reference)  # like Ctrl-C there: what was running is tried again
            if left:
                ray.wait(left, num_returns=len(left), timeout=SECONDS_TO_STOP)


def _over_processes(study: Any, task: Task, ends: float, jobs: int, on_trial: OnTrial | None) -> None:
    """Let worker processes run the trials and watch the storage; one that is killed is replaced."""
    watch = _Watch(study, on_trial)
    workers = [_start(task, ends) for _ in range(jobs)]
    broken, deaths, begun = False, 0, 0
    try:
        while workers:
            workers[0].join(POLL_SECONDS)
            for worker in [worker for worker in workers if not worker.is_alive()]:
                workers.remove(worker)
                status = worker.exitcode or 0
                broken |= status > 0
                if status < 0:
                    before, begun = begun, len(study.get_trials(deepcopy=False))
                    deaths = deaths + 1 if begun == before else 1
                    if deaths > DEATHS_IN_A_ROW:
                        raise RuntimeError(
                            f"worker processes are killed (signal {-status}) before they begin a trial: "
                            "give fewer jobs, or see whether the network fits into memory."
                        )
                    workers.append(_start(task, ends))  # its trial is tried again, but not for ever
            watch.tell()
        if broken:
            raise ValueError("a worker process of the search ended with an error, which is printed above.")
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join()


def _start(task: Task, ends: float) -> SpawnProcess:
    arguments = (*task, ends - time.monotonic(), _module(task))
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=arguments)
    process.start()
    return process


def _module(task: Task) -> str:
    """Say where the method is defined, for processes that do not know it yet."""
    return midway.methods.find(task[0].method).__module__


def _serve(search: Search, storage: str, trials: int, seconds: float, module: str) -> None:
    """Work on a study as long as whoever started this process lives."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    signal.signal(signal.SIGTERM, stop)
    parent = os.getppid()
    try:
        _work(search, storage, trials, seconds, module, lambda: os.getppid() == parent)
    except ValueError as error:  # what the user can act on
        sys.exit(f"error: {error}")


def _work(
    search: Search,
    storage: str,
    trials: int,
    seconds: float,
    module: str,
    wanted: Callable[[], bool] = lambda: True,
) -> None:
    """Work on a study until it has enough trials, the time is up, or nobody wants it any more."""
    from midway.tune import study as studies

    importlib.import_module(module)
    ends, material = time.monotonic() + seconds, Material()
    with suppress(KeyboardInterrupt), studies.quiet(), studies.open_storage(storage) as opened:
        study = studies.open_study(search, opened, material)
        studies.run_trials(search, study, material, trials=trials, go_on=lambda: time.monotonic() < ends and wanted())
