"""The result of a search as plain data, for files, tables and figures."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from midway.bench.record import with_tuples
from midway.files import write_atomically

STUDY, HELD_OUT = "study.json", "held_out"
"""In the folder of a search: the file of its result, and the store of the gain on held-out streams."""


@dataclass(frozen=True)
class TrialRecord:
    """One trial.

    Attributes:
        number: Its number in the study; 0 has the defaults.
        state: ``"complete"``, ``"pruned"``, ``"failed"``, ``"running"`` or ``"waiting"``.
        settings: The hyper-parameters.
        accuracy: Mean over the streams in percent; the last running mean of a pruned trial; None if there is none.
        by_stream: Stream -> accuracy, for complete trials.
        by_group: Stream -> group -> accuracy, for complete trials.
        rounds: Running means, round by round.
        seconds: Duration; None if the trial is not finished.
        failure: Why the trial failed or its settings were rejected; empty otherwise.
    """

    number: int
    state: str
    settings: dict[str, Any]
    accuracy: float | None
    by_stream: dict[str, float] = field(default_factory=dict)
    by_group: dict[str, dict[str, float]] = field(default_factory=dict)
    rounds: tuple[float, ...] = ()
    seconds: float | None = None
    failure: str = ""


@dataclass(frozen=True)
class StudyResult:
    """All trials of a study.

    Attributes:
        method: Name of the method.
        study: Name of the study in its storage.
        search: The fields of ``Search``: network, data, images, batch size, seed and so on.
        defaults: The defaults of the hyper-parameters that were searched.
        trials: The trials in order of their numbers.
        importance: Hyper-parameter -> share of the variation of accuracy among the better trials that it explains;
            largest first; empty if there are too few trials.
        command: The command that continues the search; empty if it was not started by one.

    Example:
        >>> from midway.tune import StudyResult, TrialRecord
        >>> trials = (
        ...     TrialRecord(0, "complete", {"lr": 1e-3}, 70.0),
        ...     TrialRecord(1, "pruned", {"lr": 1e-2}, 75.0),
        ...     TrialRecord(2, "complete", {"lr": 2e-3}, 72.5),
        ... )
        >>> result = StudyResult("tent", "tent-0", {}, {"lr": 1e-3}, trials, {})
        >>> result.best.settings, result.gain
        ({'lr': 0.002}, 2.5)
    """

    method: str
    study: str
    search: dict[str, Any]
    defaults: dict[str, Any]
    trials: tuple[TrialRecord, ...]
    importance: dict[str, float]
    command: str = ""

    @property
    def complete(self) -> tuple[TrialRecord, ...]:
        """The trials that ran to the end."""
        return tuple(trial for trial in self.trials if trial.state == "complete")

    @property
    def best(self) -> TrialRecord:
        """The most accurate complete trial; the first of equal ones.

        Raises:
            ValueError: No trial is complete.
        """
        if not self.complete:
            raise ValueError(f"no trial of {self.study} is complete yet: run more trials, or see why they failed.")
        return max(self.complete, key=lambda trial: trial.accuracy or 0.0)

    @property
    def default(self) -> TrialRecord | None:
        """The complete trial with the defaults of the method; None if there is none."""
        return next((trial for trial in self.complete if trial.settings == self.defaults), None)

    @property
    def gain(self) -> float | None:
        """Accuracy of the best trial minus that of the defaults on the streams of the search, in points."""
        if self.default is None or self.default.accuracy is None or self.best.accuracy is None:
            return None
        return self.best.accuracy - self.default.accuracy

    def count(self, state: str) -> int:
        """Return the number of trials in a state."""
        return sum(trial.state == state for trial in self.trials)

    def save(self, path: Path) -> None:
        """Write as JSON."""
        write_atomically(path, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> StudyResult:
        """Read what ``save`` wrote.

        Raises:
            ValueError: The file has another content.
        """
        try:
            content = json.loads(path.read_text())
            trials = [
                TrialRecord(**(trial | {"rounds": tuple(trial["rounds"]), "settings": with_tuples(trial["settings"])}))
                for trial in content.pop("trials")
            ]
            return cls(trials=tuple(trials), **content)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{path} is not a result of `midway tune` ({type(error).__name__}: {error}): run the same command "
                "again, its storage has every trial."
            ) from error
