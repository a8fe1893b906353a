"""The result of a search as plain data, and its best settings as a plan for ``midway run``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from midway._files import parse_json, write_atomically
from midway.bench.record import with_tuples
from midway.methods import find
from midway.streams import Scenario
from midway.streams.scenarios import nearest_whole
from midway.tune.search import Search

STUDY, HELD_OUT = "study.json", "held_out"
"""In the folder of a search: the file of its result, and the store of the gain on held-out streams."""

HELD_OUT_SCENARIOS = (
    "pure:gaussian_noise",
    "pure:glass_blur",
    "pure:fog",
    "pure:jpeg_compression",
    "outlier:glass_blur/gaussian_noise@0.005",
    "outlier:elastic_transform/fog@0.005",
    "mixture:glass_blur/gaussian_noise@0.5",
    "mixture:elastic_transform/fog@0.5",
)
"""Streams that measure the gain: a noise, a blur, a weather and a digital corruption, and two pairs of the paper."""


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
        """The most accurate complete trial; the first of equal ones."""
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
        """Read what ``save`` wrote."""
        try:
            content = parse_json(path.read_text())
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


def held_out_plan(search: Search, result: StudyResult) -> str:
    """Return the plan as TOML: the method with its defaults and with the best settings, once if they are equal.

    The plan has the network, data, classes, images and seed of the search.

    Example:
        >>> from midway.tune import Search, StudyResult, TrialRecord, held_out_plan
        >>> trials = (TrialRecord(0, "complete", {"lr": 0.001}, 70.0), TrialRecord(1, "complete", {"lr": 0.002}, 71.0))
        >>> plan = held_out_plan(Search(method="tent"), StudyResult("tent", "tent-0", {}, {"lr": 0.001}, trials, {}))
        >>> print(plan.splitlines()[-4:])
        ['[[method]]', 'name = "tent"', 'label = "tent, tuned"', 'lr = 0.002']
    """
    best, default = result.best, result.default
    against = "" if default is None else f", with the defaults {default.accuracy:.2f} %"
    lines = [
        f"# {search.method}, study {result.study}: trial {best.number} is the best of {len(result.trials)}.",
        f"# Mean accuracy over the {len(best.by_stream)} streams of the search: {best.accuracy:.2f} %{against}.",
        "# The search used none of the corruptions below: `midway run` with this file measures the gain.",
    ]
    if default is not None and best.settings == default.settings:
        lines.append("# The defaults are the best so far.")
    too_rare = [text for text in HELD_OUT_SCENARIOS if _lacks_first_shift(Scenario.parse(text), search.images)]
    if too_rare:
        lines.append(f"# With {search.images} images there are no outliers in {', '.join(too_rare)}: left out.")
    module = find(search.method).__module__
    plan: dict[str, Any] = {
        "import": None if module.partition(".")[0] == "midway" else module,
        "networks": search.network,
        "data": search.data,
        "root": search.root,
        "scenarios": [text for text in HELD_OUT_SCENARIOS if text not in too_rare],
        "seeds": search.seed,
        "batch_sizes": search.batch_size,
        "images": search.images,
        "size": search.size,
        "classes": search.classes,
        "precision": search.precision,
        "device": search.device,
        "threads": search.threads,
    }
    rows = {f"{search.method}, defaults": dict(search.held)}
    if default is None or best.settings != default.settings:
        rows[f"{search.method}, tuned"] = {**search.held, **best.settings}
    if any(value is None for settings in rows.values() for value in settings.values()):  # TOML has no None
        plan["methods"] = ", ".join(_call(search.method, settings | {"label": row}) for row, settings in rows.items())
    lines += [f"{key} = {to_toml(value)}" for key, value in plan.items() if value is not None]
    if "methods" not in plan:
        for row, settings in rows.items():
            table = {"name": search.method, "label": row, **settings}
            lines += ["", "[[method]]", *(f"{name} = {to_toml(value)}" for name, value in table.items())]
    return "\n".join(lines) + "\n"


def _lacks_first_shift(scenario: Scenario, images: int | None) -> bool:
    """Return whether a stream of this many images would have none of its first shift."""
    return images is not None and scenario.amount is not None and nearest_whole(scenario.amount * images) == 0


def _call(method: str, settings: Mapping[str, Any]) -> str:
    return f"{method}({', '.join(f'{name}={value!r}' for name, value in settings.items())})"


def to_toml(value: Any) -> str:
    """Return a plain value as TOML; a ``TypeError`` if TOML has no such value.

    Example:
        >>> from midway.tune import to_toml
        >>> to_toml(1e-5), to_toml("body"), to_toml((0.9, 2)), to_toml(True)
        ('1e-05', '"body"', '[0.9, 2]', 'true')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(to_toml, value))}]"
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return repr(value)
    raise TypeError(f"TOML has no {value!r}.")
