"""Results and images made up for tests of figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.text import Text

from midway.bench import Cell, Record, Result
from midway.data import ImageSet
from midway.streams import Scenario

PAIR = "glass_blur/fog"


def result_of(
    label: str,
    scenario: str,
    *accuracies: float,
    method: str = "",
    seed: int = 0,
    settings: dict[str, Any] | None = None,
    batches: Sequence[float] = (),
    **metrics: float,
) -> Record:
    """Return a record: one accuracy for a pure stream; those of A, of B and of all images for a pair."""
    parsed = Scenario.parse(scenario)
    metrics = {"seconds_per_batch": 0.5, "gflops": 2.0} | metrics
    groups = {
        shift: {"images": 500.0, "accuracy": value} for shift, value in zip(parsed.shifts, accuracies, strict=False)
    }
    cell = Cell(
        method or label, label, settings or {}, "wrn16_2.cifar10", "0", "cifar10", None, None, None, parsed, seed, 200,
        "float32", "cpu", 1, "midway.methods",
    )  # fmt: skip
    result = Result({"accuracy": accuracies[-1]} | metrics, groups, tuple(batches))
    return Record(cell, result, None, 1.0, {})


def written(figure: Figure) -> set[str]:
    """Return all texts of a figure."""
    return {text.get_text() for text in figure.findobj(Text) if isinstance(text, Text) and text.get_text()}


def toy_data(count: int = 12, side: int = 16) -> ImageSet:
    rng = np.random.default_rng(0)
    return ImageSet(rng.integers(0, 256, (count, side, side, 3), np.uint8), np.arange(count) % 4, tuple("abcd"), "toy")
