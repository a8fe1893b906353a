"""What a search found, as plain data for files, tables and figures."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from midway.bench.cell import as_tuple


@dataclass(frozen=True)
class TrialRecord:
    """One trial.

    Attributes:
        number: Its place in the study; 0 has the defaults.
        state: ``"complete"``, ``"pruned"``, ``"failed"``, ``"running"`` or ``"waiting"``.
        settings: What was tried.
        accuracy: Mean over the streams in percent; of a pruned trial, as far as it came; None if there is none.
        by_stream: Stream -> accuracy, of complete trials.
        by_group: Stream -> group -> accuracy, of complete trials.
        rounds: Running means, round by round.
        seconds: How long it took; None if it is not finished.
        failure: Why it failed, or was refused; empty otherwise.
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
class Findings:
    """All trials of a study.

    Attributes:
        method: Name of the method.
        study: Name of the study in its storage.
        search: What was searched on: network, data, images, batch size, seed.
        defaults: The method's own settings of what was searched.
        trials: In order of their numbers.
        importance: Hyper-parameter -> share of the accuracy's variation among the better trials that it explains;
            largest first; empty while there are too few trials to say.
        command: What goes on with the search; empty if it was not started by one.

    Example:
        >>> from midway.tune import Findings, TrialRecord
        >>> trials = (
        ...     TrialRecord(0, "complete", {"lr": 1e-3}, 70.0),
        ...     TrialRecord(1, "pruned", {"lr": 1e-2}, 75.0),
        ...     TrialRecord(2, "complete", {"lr": 2e-3}, 72.5),
        ... )
        >>> found = Findings("tent", "tent-0", {}, {"lr": 1e-3}, trials, {})
        >>> found.best.settings, found.gain
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
        """The trials that saw every image."""
        return tuple(trial for trial in self.trials if trial.state == "complete")

    @property
    def best(self) -> TrialRecord:
        """The most accurate complete trial, of equals the first.

        Raises:
            ValueError: There is none yet.
        """
        if not self.complete:
            raise ValueError(f"no trial of {self.study} is complete yet: run more, or see why they failed.")
        return max(self.complete, key=lambda trial: trial.accuracy or 0.0)

    @property
    def default(self) -> TrialRecord | None:
        """The complete trial with the method's defaults; None while there is none."""
        return next((trial for trial in self.complete if trial.settings == self.defaults), None)

    @property
    def gain(self) -> float | None:
        """How far the best is above the defaults, in points, on the streams of the search."""
        if self.default is None or self.default.accuracy is None or self.best.accuracy is None:
            return None
        return self.best.accuracy - self.default.accuracy

    def count(self, state: str) -> int:
        """Return how many trials are in a state."""
        return sum(trial.state == state for trial in self.trials)

    def save(self, path: Path) -> None:
        """Write everything as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Findings:
        """Take back what ``save`` wrote.

        Raises:
            ValueError: The file holds something else.
        """
        try:
            content = json.loads(path.read_text())
            trials = [
                TrialRecord(**(trial | {"rounds": tuple(trial["rounds"]), "settings": _with_tuples(trial["settings"])}))
                for trial in content.pop("trials")
            ]
            return cls(trials=tuple(trials), **content)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{path} is not what `midway tune` writes ({type(error).__name__}: {error}): "
                "run the same `midway tune` again, its storage has every trial."
            ) from error


def _with_tuples(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: as_tuple(value) for name, value in settings.items()}
