"""Records with known numbers, for the tests of tables, figures and pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from midway.bench import Cell, Failure, Record, Result
from midway.streams import Scenario

PAIR = "outlier:glass_blur/fog@0.005"
COST = {"gflops": 2.0, "forward_passes": 2.0, "backward_passes": 1.0, "trainable_parameters": 1824}


def make_record(
    label: str,
    scenario: str,
    *accuracies: float,
    method: str = "",
    seed: int = 0,
    images: int = 500,
    error: str = "",
    **more: Any,
) -> Record:
    """Make a record: one accuracy for a pure stream; those of A, of B and of all for a pair; none for a failure.

    Args:
        label: The label of the method.
        scenario: The scenario as text.
        accuracies: In percent.
        method: Name of the method; the label if left out.
        seed: The seed.
        images: Number of images of each group.
        error: Why the cell failed.
        more: Fields of ``Result``, of ``Cell`` (settings, data) and metrics.
    """
    parsed = Scenario.parse(scenario)
    settings = more.pop("settings", {})
    cell = Cell(
        method or label, label, settings, "wrn16_2.cifar10", "0", more.pop("data", "cifar10"), None, None, None, parsed,
        seed, 200, "float32", "cpu", 1, "midway.methods",
    )  # fmt: skip
    fields = {name: more.pop(name) for name in ("batch_accuracies", "diagnostics") if name in more}
    cost = more.pop("cost", COST)
    result = None
    if accuracies:
        groups = {
            shift: {"images": images, "accuracy": value}
            for shift, value in zip(parsed.shifts, accuracies, strict=False)
        }
        metrics = {"accuracy": accuracies[-1], "seconds_per_batch": 0.5, **cost, **more}
        result = Result(metrics, groups, hyperparameters=settings, **fields)
    failure = Failure(error, f"Traceback: {error}") if error else None
    environment = {"torch": "2.13.0", "cpu": "a processor"}
    command = "midway run x.toml --out 'runs/x y'"
    return Record(cell, result, failure, 1.0, environment, command, "2024-01-01T00:00:00")


@pytest.fixture
def made() -> Callable[..., Record]:
    return make_record


@pytest.fixture
def records(made: Callable[..., Record]) -> list[Record]:
    """Source and MITA on two pure streams and an outlier stream, three seeds."""
    found = []
    for seed in range(3):
        found += [
            made("source", "pure:fog", 60.0 + seed, seed=seed, batch_accuracies=(60.0, 61.0), seconds_per_batch=0.1),
            made("source", "pure:snow", 50.0 + seed, seed=seed, batch_accuracies=(50.0, 50.0), seconds_per_batch=0.1),
            made("source", PAIR, 50.0, 20.0, 20.25 + seed, seed=seed, seconds_per_batch=0.1),
            made("mita", "pure:fog", 75.5 + seed, seed=seed, batch_accuracies=(70.0, 81.0)),
            made("mita", "pure:snow", 71.0 + 2 * seed, seed=seed, batch_accuracies=(70.0, 72.0)),
            made("mita", PAIR, 40.0, 70.0, 69.875, seed=seed),
        ]
    return found
