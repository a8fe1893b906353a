"""Studies: Optuna's sampler and pruner around the accuracy of settings."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.storages import RetryHeartbeatStaleTrialCallback
from optuna.trial import FrozenTrial, Trial, TrialState

from midway._errors import describe_error
from midway.adaptation.nonfinite import NonFiniteError
from midway.adaptation.space import Choice, Integers, LogUniform, Space, Uniform
from midway.bench.entries import SettingError
from midway.bench.resources import ResourceCache
from midway.streams import Stream
from midway.tune.result import StudyResult, TrialRecord
from midway.tune.search import Search, measure_accuracy
from midway.tune.storage import ignore_experimental, open_storage, status_of, this_process

STARTUP_TRIALS = 5
"""Complete trials before the pruner stops any, and before the sampler learns from them."""

WARMUP_ROUNDS = 2
WARMUP_SHARE = 0.2
"""Rounds, and share of all rounds, before the pruner can stop a trial: on long streams, small steps begin slowly."""

ATTEMPTS = 3
"""How often settings are tried that kill their worker process."""

PATIENCE = 20
"""A trial whose process cannot be seen is given up after this many times the duration of the longest trial."""

DRIVER = "driver:"
"""Prefix of the attributes of a study that name the processes which started a search."""

OnTrial = Callable[[TrialRecord], None]


class SeededByTrial(optuna.samplers.BaseSampler):
    """Optuna's TPE with random numbers that depend only on a seed and the index of the trial.

    A search that is stopped and continued tries the same settings. Lost trials that are run again do not count.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def _of(self, study: optuna.Study, trial: FrozenTrial, name: str = "") -> optuna.samplers.TPESampler:
        index = trial.number - sum(number < trial.number for number in _retried(study.get_trials(deepcopy=False)))
        drawn = np.random.SeedSequence((self.seed, index, zlib.crc32(name.encode()))).generate_state(1)
        return optuna.samplers.TPESampler(seed=int(drawn[0]), n_startup_trials=STARTUP_TRIALS)

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the hyper-parameters that are drawn together."""
        return self._of(study, trial).infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Draw the hyper-parameters that are drawn together."""
        return self._of(study, trial).sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draw one hyper-parameter; each name has its own random numbers."""
        return self._of(study, trial, param_name).sample_independent(study, trial, param_name, param_distribution)


def suggest(trial: Trial, name: str, space: Space) -> Any:
    """Return a value that Optuna chooses from a space."""
    match space:
        case LogUniform(low, high):
            return trial.suggest_float(name, low, high, log=True)
        case Uniform(low, high):
            return trial.suggest_float(name, low, high)
        case Integers(low, high, log):
            return trial.suggest_int(name, low, high, log=log)
        case Choice():
            return trial.suggest_categorical(name, space.values)


@contextmanager
def opened(search: Search, storage: str, resources: ResourceCache) -> Iterator[optuna.Study]:
    """Open the study of a search in a storage; Optuna logs only errors until the end of the block."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with open_storage(storage, retry_without_heartbeat) as shared:
            yield open_study(search, shared, resources)
    finally:
        optuna.logging.set_verbosity(before)


def open_study(search: Search, storage: optuna.storages.BaseStorage, resources: ResourceCache) -> optuna.Study:
    """Open the study of a search; a new study begins with the defaults of the method."""
    study = optuna.create_study(
        storage=storage,
        study_name=search.name,
        direction="maximize",
        sampler=SeededByTrial(search.seed),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=WARMUP_ROUNDS),
        load_if_exists=True,
    )
    if not study.get_trials(deepcopy=False):
        defaults = search.defaults(resources)
        study.set_user_attr("search", asdict(search))
        study.set_user_attr("defaults", defaults)
        study.enqueue_trial(defaults, skip_if_exists=True)
    return study


def run_trials(
    search: Search,
    study: optuna.Study,
    resources: ResourceCache,
    *,
    trials: int,
    driver: str = "",
    may_begin: Callable[[], bool] = lambda: True,
    on_trial: OnTrial | None = None,
) -> None:
    """Run trials in this process until the study has enough of them; others may work on the same study.

    A trial that raises is recorded as failed. Ctrl-C passes through; the running trial is queued again. ``driver`` is
    the process that started this one; by default it is this one.
    """
    driver = driver or this_process()
    streams: list[Stream] = []
    while True:
        retry_lost(study)
        if num_taken(study.get_trials(deepcopy=False)) >= trials or not may_begin():
            return
        if not streams:
            streams += [resources.stream(cell) for cell in search.cells({})]
        begun: list[int] = []

        def objective(trial: Trial, streams: Sequence[Stream] = streams, begun: list[int] = begun) -> float:
            begun.append(trial.number)
            trial.set_user_attr("driver", driver)
            return _objective(trial, search, streams, resources)

        try:
            study.optimize(objective, n_trials=1, catch=(Exception,))
        except KeyboardInterrupt:
            for number in begun:
                retry(study, study.get_trials(deepcopy=False)[number])
            raise
        except ValueError:
            if not any(study.get_trials(deepcopy=False)[number].state.is_finished() for number in begun):
                raise  # otherwise another process took this one for dead and queued its trial again
        if on_trial is not None:
            for number in begun:
                on_trial(record_of(study.get_trials(deepcopy=False)[number]))


def _objective(trial: Trial, search: Search, streams: Sequence[Stream], resources: ResourceCache) -> float:
    """Measure the settings that Optuna suggests; the running means decide whether the trial is pruned."""
    trial.set_user_attr("process", this_process())

    def on_round(done: int, rounds: int, mean: float) -> None:
        trial.report(mean, done)
        if WARMUP_SHARE * rounds <= done < rounds and trial.should_prune():
            raise optuna.TrialPruned(f"below the median after {done} of {rounds} rounds")

    try:
        settings = {name: suggest(trial, name, space) for name, space in search.space.items()}
        result = measure_accuracy(search.cells(settings), streams, resources, on_round=on_round)
    except (SettingError, NonFiniteError) as error:  # the sampler learns to avoid what is invalid or diverges
        trial.set_user_attr("failure", f"rejected: {error}")
        raise optuna.TrialPruned(str(error)) from error
    except optuna.TrialPruned:
        raise
    except Exception as error:
        trial.set_user_attr("failure", describe_error(error))
        raise
    trial.set_user_attr("by_stream", result.by_stream)
    trial.set_user_attr("by_group", result.by_group)
    return result.accuracy


def num_taken(trials: Sequence[FrozenTrial]) -> int:
    """Return the number of trials that ran or are running; a trial that was lost and retried counts once."""
    return sum(trial.state != TrialState.WAITING for trial in trials) - len(_retried(trials))


def begin(study: optuna.Study, driver: str) -> None:
    """Prepare a study for the driver of a search: queue again what earlier drivers lost, and register this one.

    A person has started the search again, so trials that were killed are queued however often that happened. The
    defaults are queued even if they killed their worker too often: the gain is measured against them.
    """
    registered = [name.removeprefix(DRIVER) for name in study.user_attrs if name.startswith(DRIVER)]
    if registered and all(status_of(other) == "dead" for other in registered):
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            _give_up(study, trial, deaths=0)
    retry_lost(study)
    trials = study.get_trials(deepcopy=False)
    retried, defaults = _retried(trials), study.user_attrs["defaults"]
    for trial in trials:
        if trial.state == TrialState.FAIL and trial.number not in retried:
            too_many_deaths = trial.user_attrs.get("deaths", 0) >= ATTEMPTS
            has_defaults = defaults in (trial.params, trial.system_attrs.get("fixed_params"))
            # Without a reason, a process was killed between marking the trial as failed and queueing it again.
            if "failure" not in trial.user_attrs or (too_many_deaths and has_defaults):
                retry(study, trial)
    study.set_user_attr(f"{DRIVER}{driver}", True)


def retry_lost(study: optuna.Study) -> None:
    """Mark running trials whose process died as failed, and queue their settings again.

    A journal has no heartbeats: processes of this machine are looked up. A trial that takes very much longer than any
    other is given up wherever it runs. Deaths count against a trial only if the driver is alive: if it is dead, too,
    both were killed from outside.
    """
    trials = study.get_trials(deepcopy=False)
    longest = max((trial.duration for trial in trials if trial.duration is not None), default=timedelta(days=1))
    for trial in trials:
        if trial.state != TrialState.RUNNING:
            continue
        process, driver = (str(trial.user_attrs.get(name, "")) for name in ("process", "driver"))
        status = status_of(process) if process else "unknown"
        killed = bool(driver) and status_of(driver) == "dead"
        patience = max(PATIENCE * longest, timedelta(minutes=10)) if process else timedelta(minutes=1)
        overdue = datetime.now() - (trial.datetime_start or datetime.now()) > patience
        if killed or status == "dead" or (status == "unknown" and overdue):
            _give_up(study, trial, deaths=trial.user_attrs.get("deaths", 0) + (not killed))


def _give_up(study: optuna.Study, trial: FrozenTrial, *, deaths: int) -> None:
    """Mark a running trial as failed and queue its settings again, unless it killed its worker too often."""
    with suppress(ValueError):  # another process was faster
        if deaths >= ATTEMPTS:
            reason = f"its worker process died {deaths} times (out of memory?)"
            live = optuna.trial.Trial(study, trial._trial_id)
            live.set_user_attr("deaths", deaths)
            live.set_user_attr("failure", reason)
        study.tell(trial.number, state=TrialState.FAIL)
        if deaths < ATTEMPTS:
            retry(study, trial, deaths=deaths)


def retry(study: optuna.Study, trial: FrozenTrial, *, deaths: int = 0) -> None:
    """Queue the settings of a lost trial with Optuna's callback; ``deaths`` is how often it killed its worker."""
    lost = copy.deepcopy(trial)
    lost.user_attrs = {"deaths": deaths} if deaths else {}  # the process that died is not the one that will run it
    with ignore_experimental():
        RetryHeartbeatStaleTrialCallback()(study, lost)


def retry_without_heartbeat(study: optuna.Study, trial: FrozenTrial) -> None:
    """Queue the settings of a trial whose heartbeats in a database ended, unless that happened too often."""
    deaths = trial.user_attrs.get("deaths", 0) + 1
    if deaths < ATTEMPTS:
        retry(study, trial, deaths=deaths)


def _retried(trials: Sequence[FrozenTrial]) -> set[int]:
    """Return the numbers of the trials whose settings were queued again."""
    return {number for trial in trials for number in trial.system_attrs.get("retry_history", ())}


def result_of(search: Search, study: optuna.Study) -> StudyResult:
    """Return the trials of a study as plain data."""
    trials = study.get_trials(deepcopy=False)
    retried = _retried(trials)
    records = tuple(record_of(trial) for trial in trials if trial.number not in retried)
    defaults = study.user_attrs["defaults"]
    return StudyResult(search.method, study.study_name, asdict(search), defaults, records, _importance(study))


def record_of(trial: FrozenTrial) -> TrialRecord:
    """Return a trial as plain data."""
    rounds = tuple(value for _, value in sorted(trial.intermediate_values.items()))
    return TrialRecord(
        number=trial.number,
        state="failed" if trial.state == TrialState.FAIL else trial.state.name.lower(),
        settings=dict(trial.params),
        accuracy=trial.value if trial.state == TrialState.COMPLETE else rounds[-1] if rounds else None,
        by_stream=trial.user_attrs.get("by_stream", {}),
        by_group=trial.user_attrs.get("by_group", {}),
        rounds=rounds,
        seconds=None if trial.duration is None else trial.duration.total_seconds(),
        failure=trial.user_attrs.get("failure", "its process was killed" if trial.state == TrialState.FAIL else ""),
    )


def _importance(study: optuna.Study) -> dict[str, float]:
    """Return which hyper-parameters separate the better trials from the others, by Optuna's PED-ANOVA."""
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if len({trial.value for trial in complete}) < STARTUP_TRIALS:
        return {}
    with ignore_experimental():
        shares = optuna.importance.get_param_importances(
            study, evaluator=optuna.importance.PedAnovaImportanceEvaluator()
        )
    return {name: float(share) for name, share in shares.items()}
