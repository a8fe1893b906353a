"""A search whose scores come from a formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from midway.bench import Cell
from midway.tune import SettingsAccuracy, StudyResult

SMALL: dict[str, Any] = {"scenarios": ("pure:spatter", "mixture:saturate/spatter"), "images": 20, "batch_size": 10}


def toy(cells: Sequence[Cell], streams: Any, resources: Any, *, on_round: Any) -> SettingsAccuracy:
    """SettingsAccuracy TENT's settings by a formula: best at lr 0.003 and 2 steps; ten rounds."""
    settings = cells[0].settings
    value = 80.0 - abs(settings["lr"] - 0.003) * 1000 - abs(settings["steps"] - 2)
    for done in range(1, 11):
        on_round(done, 10, value - 10 + done)
    return SettingsAccuracy(value, {"pure:spatter": value}, {"pure:spatter": {"spatter": value}})


def tried(found: StudyResult) -> list[tuple[dict[str, Any], float | None, str]]:
    return [(trial.settings, trial.accuracy, trial.state) for trial in found.trials]
