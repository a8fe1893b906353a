"""Results made by hand, for the tests of figures and pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from midway.bench import Cell, Comparison, Failure, Record, Result

PAIR = "outlier:glass_blur/fog@0.005"
COST = {"images": 200, "flops_total": 4e11, "forward_passes": 2.0, "backward_passes": 1.0, "trainable_parameters": 1824}


def _made(label: str, stream: str, *accuracies: float, method: str = "", seed: int = 0, **more: Any) -> Result:
    """Make a result: one accuracy for a pure stream; those of A, of B and of all for a pair."""
    shifts = stream.partition(":")[2].partition("@")[0].partition("#")[0].split("/")
    by_group = dict(zip(shifts, accuracies, strict=False))
    images = dict.fromkeys(by_group, 500)
    settings = {"seconds_per_batch": 0.5, "batch_accuracies": (), "cost": dict(COST), **more}
    return Result(
        method=method or label,
        label=label,
        hyperparameters=settings.pop("hyperparameters", {}),
        stream=stream,
        images=sum(images.values()),
        accuracy=accuracies[-1],
        by_group=by_group,
        images_by_group=images,
        seed=seed,
        **settings,
    )


def _record(result: Result | None, *, label: str = "tent", stream: str = "pure:fog", error: str = "") -> Record:
    """Make a line of a store."""
    name, place = (label, stream) if result is None else (result.label, result.stream)
    method, seed = ("tent", 0) if result is None else (result.method, result.seed or 0)
    settings = {"label": name}
    cell = Cell(
        method, name, settings, "wrn16_2.cifar10", "0", "cifar10", None, None, None, place, seed, 200, "float32", "cpu",
        1, "0.1.0", "midway.methods",
    )  # fmt: skip
    failure = Failure(error, f"Traceback: {error}") if error else None
    surroundings = {"torch": "2.13.0", "cpu": "a processor"}
    return Record(cell, result, failure, 1.0, surroundings, "midway run plan.toml --out runs/x", "2024-01-01T00:00:00")


@pytest.fixture
def made() -> Callable[..., Result]:
    return _made


@pytest.fixture
def record() -> Callable[..., Record]:
    return _record


@pytest.fixture
def comparison(made: Callable[..., Result]) -> Comparison:
    """Source and MITA on two pure streams and an outlier stream, three seeds."""
    results = []
    for seed in range(3):
        results += [
            made("source", "pure:fog", 60.0 + seed, seed=seed, batch_accuracies=(60.0, 61.0), seconds_per_batch=0.1),
            made("source", "pure:snow", 50.0 + seed, seed=seed, batch_accuracies=(50.0, 50.0), seconds_per_batch=0.1),
            made("source", PAIR, 50.0, 20.0, 20.25 + seed, seed=seed, seconds_per_batch=0.1),
            made("mita", "pure:fog", 75.5 + seed, seed=seed, batch_accuracies=(70.0, 81.0)),
            made("mita", "pure:snow", 71.0 + 2 * seed, seed=seed, batch_accuracies=(70.0, 72.0)),
            made("mita", PAIR, 40.0, 70.0, 69.875, seed=seed),
        ]
    return Comparison(
        "A title", "midway run x.toml --out 'runs/x y'", {"network": "wrn", "seeds": [0, 1, 2]}, tuple(results)
    )
