"""Studies: Optuna's sampler, pruner and storages around the scoring of settings."""

from __future__ import annotations

import re
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

try:
    import optuna
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("searching needs Optuna: pip install 'midway[tune]'.", name="optuna") from error
import numpy as np
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, Trial, TrialState

from midway.adaptation.space import Choice, Integers, LogUniform, Space, Uniform
from midway.bench.entries import SettingError
from midway.bench.material import Material
from midway.streams import Stream
from midway.tune.findings import Findings, TrialRecord
from midway.tune.journal import open_journal
from midway.tune.passwords import hide_in, without_password
from midway.tune.processes import fate_of, this_process
from midway.tune.score import score
from midway.tune.search import Search

STARTUP_TRIALS = 5
"""Complete trials before any is stopped early, and before the sampler learns from them."""

WARMUP_ROUNDS = 2
"""Batches of every stream before a trial can be stopped."""

ATTEMPTS = 3
"""How often settings are tried whose process dies."""

HEARTBEAT_SECONDS = 30
"""How often a process that uses a database says that it lives; four times that and its trial is given to others."""

PATIENCE = 20
"""How many times as long as the longest trial one may run of which nothing can be seen."""

OnTrial = Callable[[TrialRecord], None]
STATES = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
}


class SeededByTrial(optuna.samplers.BaseSampler):
    """Optuna's TPE whose random numbers follow from a seed and the place of the trial alone.

    A search that was stopped and goes on tries what it would have tried. Trials that were lost and are run again do
    not count for the place.

    Args:
        seed: Of the search.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def _of(self, study: optuna.Study, trial: FrozenTrial, name: str = "") -> optuna.samplers.TPESampler:
        place = trial.number - sum(number < trial.number for number in _retried(study.get_trials(deepcopy=False)))
        drawn = np.random.SeedSequence((self.seed, place, zlib.crc32(name.encode()))).generate_state(1)
        return optuna.samplers.TPESampler(seed=int(drawn[0]), n_startup_trials=STARTUP_TRIALS)

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return what is drawn together."""
        return self._of(study, trial).infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Draw what is drawn together."""
        return self._of(study, trial).sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draw one hyper-parameter by itself; each name has its own random numbers."""
        return self._of(study, trial, param_name).sample_independent(study, trial, param_name, param_distribution)


def suggest(trial: Trial, name: str, space: Space) -> Any:
    """Let Optuna choose a value from a space.

    Example:
        >>> import optuna
        >>> from midway.adaptation.space import Integers
        >>> from midway.tune.study import suggest
        >>> suggest(optuna.trial.FixedTrial({"steps": 3}), "steps", Integers(1, 4))
        3
    """
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
def open_storage(text: str) -> Iterator[optuna.storages.BaseStorage]:
    """Open or make a storage that several processes and machines can share; it is closed after the block.

    Args:
        text: A file, which becomes Optuna's journal; or a database URL, such as ``sqlite:///tune.db`` or
            ``postgresql://user:password@host/name``.

    Raises:
        ValueError: It cannot be opened, or is damaged; the message does not show the password.
    """
    if "://" not in text:
        path = Path(text).expanduser()
        try:
            storage = open_journal(path)
        except OSError as error:
            raise ValueError(f"the storage {path} cannot be written to ({error.strerror}): choose another.") from error
        yield storage
        return
    url = re.sub(r"^postgres(ql)?://", "postgresql+psycopg://", text)  # the driver that midway[tune] brings
    try:
        with _experimental():
            database = optuna.storages.RDBStorage(
                url,
                heartbeat_interval=HEARTBEAT_SECONDS,
                grace_period=4 * HEARTBEAT_SECONDS,
                heartbeat_stale_trial_callback=_try_again,
            )
    except ImportError as error:
        raise ValueError(f"{without_password(text)} needs a driver that is not installed: {error}.") from error
    except Exception as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"the storage {without_password(text)} cannot be opened: {hide_in(reason, text)}. "
            "Is the server running, does the database exist, is the file whole?"
        ) from error
    try:
        yield database
    finally:
        database.remove_session()
        database.engine.dispose()


def open_study(search: Search, storage: optuna.storages.BaseStorage, material: Material) -> optuna.Study:
    """Open the study of a search, or make it with the method's defaults as the first trial."""
    study = optuna.create_study(
        storage=storage,
        study_name=search.name,
        direction="maximize",
        sampler=SeededByTrial(search.seed),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=WARMUP_ROUNDS),
        load_if_exists=True,
    )
    if not study.get_trials(deepcopy=False):
        defaults = search.defaults(material)
        study.set_user_attr("search", asdict(search))
        study.set_user_attr("defaults", defaults)
        study.enqueue_trial(defaults, skip_if_exists=True)
    return study


def run_trials(
    search: Search,
    study: optuna.Study,
    material: Material,
    *,
    trials: int,
    go_on: Callable[[], bool] = lambda: True,
    on_trial: OnTrial | None = None,
) -> None:
    """Run trials in this process until the study has enough of them; others may work on the same study.

    A trial that raises is recorded as failed. Ctrl-C passes through; what was running is tried again the next time.

    Args:
        search: What is searched.
        study: Its study.
        material: Data and networks of this process.
        trials: How many the study shall have in all, failed ones counted.
        go_on: Asked before every trial whether it may begin: there may be no time left.
        on_trial: Told of every trial that ends here.
    """
    streams: list[Stream] = []
    while True:
        give_up_the_dead(study)
        if taken(study.get_trials(deepcopy=False)) >= trials or not go_on():
            return
        if not streams:
            streams += [material.stream(cell) for cell in search.cells({})]
        begun: list[int] = []

        def objective(trial: Trial, streams: Sequence[Stream] = streams, begun: list[int] = begun) -> float:
            begun.append(trial.number)
            return _objective(trial, search, streams, material)

        try:
            study.optimize(objective, n_trials=1, catch=(Exception,))
        except KeyboardInterrupt:
            for number in begun:
                _try_again(study, study.get_trials(deepcopy=False)[number], count=False)
            raise
        except ValueError:
            if not any(study.get_trials(deepcopy=False)[number].state.is_finished() for number in begun):
                raise  # else somebody took this process for dead and queued its trial again
        if on_trial is not None:
            for number in begun:
                on_trial(record_of(study.get_trials(deepcopy=False)[number]))


def _objective(trial: Trial, search: Search, streams: Sequence[Stream], material: Material) -> float:
    """Score one setting; the running means decide whether it is worth going on."""
    trial.set_user_attr("process", this_process())

    def on_round(done: int, rounds: int, mean: float) -> None:
        trial.report(mean, done)
        if done < rounds and trial.should_prune():
            raise optuna.TrialPruned(f"below the median after {done} of {rounds} rounds")

    try:
        settings = {name: suggest(trial, name, space) for name, space in search.space.items()}
        found = score(search.cells(settings), streams, material, on_round=on_round)
    except SettingError as error:  # a combination that makes no sense: the sampler learns to avoid it
        trial.set_user_attr("failure", f"refused: {error}")
        raise optuna.TrialPruned(str(error)) from error
    except optuna.TrialPruned:
        raise
    except Exception as error:
        trial.set_user_attr("failure", f"{type(error).__name__}: {error}".splitlines()[0])
        raise
    trial.set_user_attr("by_stream", found.by_stream)
    trial.set_user_attr("by_group", found.by_group)
    return found.accuracy


# ---- trials that were lost -------------------------------------------------------------------------------------------


def taken(trials: Sequence[FrozenTrial]) -> int:
    """Count the trials that ran or are running; those that were lost and are tried again count once."""
    return sum(trial.state != TrialState.WAITING for trial in trials) - len(_retried(trials))


def give_up_the_dead(study: optuna.Study) -> None:
    """Mark trials of processes of this machine that are no more as failed, and queue their settings again.

    Of other machines a database knows by heartbeats, and does the same; and what takes very much longer than any trial
    did is given up wherever it runs.
    """
    trials = study.get_trials(deepcopy=False)
    longest = max((trial.duration for trial in trials if trial.duration is not None), default=timedelta(days=1))
    for trial in trials:
        if trial.state != TrialState.RUNNING:
            continue
        process = str(trial.user_attrs.get("process", ""))
        fate = fate_of(process) if process else "unknown"
        patience = max(PATIENCE * longest, timedelta(minutes=10)) if process else timedelta(minutes=1)
        forgotten = datetime.now() - (trial.datetime_start or datetime.now()) > patience
        if fate == "dead" or (fate == "unknown" and forgotten):
            with suppress(ValueError):  # another process was faster
                study.tell(trial.number, state=TrialState.FAIL)
                _try_again(study, trial)


def _try_again(study: optuna.Study, trial: FrozenTrial, *, count: bool = True) -> None:
    """Queue the settings of a lost trial, unless they were lost too often.

    One that was queued and lost before it had drawn its settings still has those it was queued with.
    """
    attempt = int(trial.user_attrs.get("attempt", 1)) + count
    if attempt <= ATTEMPTS:
        settings = trial.system_attrs.get("fixed_params", {}) | trial.params
        study.enqueue_trial(settings, user_attrs={"attempt": attempt, "retry_of": trial.number})


def _retried(trials: Sequence[FrozenTrial]) -> set[int]:
    return {trial.user_attrs["retry_of"] for trial in trials if "retry_of" in trial.user_attrs}


# ---- plain data ------------------------------------------------------------------------------------------------------


def findings_of(search: Search, study: optuna.Study) -> Findings:
    """Return everything a study holds as plain data."""
    trials = study.get_trials(deepcopy=False)
    lost = _retried(trials)
    records = tuple(record_of(trial) for trial in trials if trial.number not in lost)
    kept = study.user_attrs
    return Findings(search.method, study.study_name, asdict(search), kept["defaults"], records, _importance(study))


def record_of(trial: FrozenTrial) -> TrialRecord:
    """Return a trial as plain data."""
    rounds = tuple(value for _, value in sorted(trial.intermediate_values.items()))
    return TrialRecord(
        number=trial.number,
        state=STATES[trial.state],
        settings=dict(trial.params),
        accuracy=trial.value if trial.state == TrialState.COMPLETE else rounds[-1] if rounds else None,
        by_stream=trial.user_attrs.get("by_stream", {}),
        by_group=trial.user_attrs.get("by_group", {}),
        rounds=rounds,
        seconds=None if trial.duration is None else trial.duration.total_seconds(),
        failure=trial.user_attrs.get("failure", ""),
    )


def _importance(study: optuna.Study) -> dict[str, float]:
    """Ask Optuna (PED-ANOVA) which hyper-parameters part the better trials from the rest."""
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if len({trial.value for trial in complete}) < STARTUP_TRIALS:
        return {}
    with _experimental():
        shares = optuna.importance.get_param_importances(
            study, evaluator=optuna.importance.PedAnovaImportanceEvaluator()
        )
    return {name: float(share) for name, share in shares.items()}


@contextmanager
def _experimental() -> Iterator[None]:
    """Use what Optuna calls experimental without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Keep Optuna's log to errors within the block: trials are reported by whoever asked for them."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
