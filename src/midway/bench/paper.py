"""The numbers of the MITA paper, for comparison with ours.

They are those of its tables for WRN-28-10 on CIFAR-10-C and CIFAR-100-C at severity 5: outlier and mixture for
six pairs, pure for fifteen corruptions, the sweep over ratios, the ablation, and the complexity. Two of them are
inconsistent within the paper: MEMO on all of the mixture impulse_noise/gaussian_noise (64.60, the halves give
64.40) and MITA on all of glass_blur/gaussian_noise at ratio 0.2 (74.81, the parts give 75.31).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from midway._suggest import unknown
from midway.data import corruption_names

DATA = ("cifar10c", "cifar100c")
METHODS = ("source", "bn", "tent", "eata", "sar", "shot", "tea", "memo", "mita")
"""The methods of the paper in its order, by our names; the sweep has neither TEA nor MEMO."""

PAIRS = (
    ("glass_blur", "gaussian_noise"),
    ("pixelate", "shot_noise"),
    ("motion_blur", "contrast"),
    ("elastic_transform", "fog"),
    ("impulse_noise", "gaussian_noise"),
    ("defocus_blur", "zoom_blur"),
)
"""Distributions A / B of the outlier and mixture tables."""


@dataclass(frozen=True)
class PublishedScore:
    """One accuracy of the paper, in percent.

    ``table`` is outlier, mixture, pure, sweep or ablation; ``shifts`` the corruption, or distributions A and B;
    ``ratio`` the share of A, None for a pure stream; ``method`` our name of the method or of the ablation's variant;
    ``group`` the corruption of the images, or ``"all"``.
    """

    table: str
    data: str
    shifts: tuple[str, ...]
    ratio: float | None
    method: str
    group: str
    accuracy: float


@dataclass(frozen=True)
class Average:
    """Mean accuracy over the corruptions and mCE of a method in the pure table, in percent."""

    data: str
    method: str
    accuracy: float
    mce: float


@dataclass(frozen=True)
class Complexity:
    """A row of the complexity table."""

    label: str
    method: str
    langevin_steps: int | None  # T of TEA (not stated; 1 fits the number) and MITA
    views: int | None
    million_parameters: float  # MITA's second model is counted in full
    gflops: float  # billions of multiply-adds per image, forward passes only
    seconds: float  # for 200 images on an A800


@cache
def scores() -> tuple[PublishedScore, ...]:
    """Return every accuracy of the paper."""
    return tuple(_read_scores())


def _read_scores() -> Iterator[PublishedScore]:
    for row in (*_rows("outlier_and_mixture"), *_rows("ratio_sweep")):
        table = row.get("scenario", "sweep")
        pair, ratio = (row["dist_a"], row["dist_b"]), float(row["ratio_a"])
        yield PublishedScore(table, "cifar10c", pair, ratio, row["method"], row["group"], float(row["accuracy"]))
    for row in _rows("pure"):
        if row["corruption"] in corruption_names("benchmark"):
            corruption, value = row["corruption"], float(row["value"])
            yield PublishedScore("pure", row["dataset"], (corruption,), None, row["method"], corruption, value)
    for row in _rows("ablation"):
        pure = row["scenario"] == "pure"
        shifts = (row["group"],) if pure else ("impulse_noise", "gaussian_noise")
        share = None if pure else float(row["ratio_a"])
        yield PublishedScore(
            "ablation", "cifar10c", shifts, share, row["variant"], row["group"], float(row["accuracy"])
        )


def accuracy(
    *, shifts: tuple[str, ...], method: str, group: str, ratio: float | None = None, data: str = "cifar10c"
) -> float | None:
    """Return an accuracy of the paper, see ``PublishedScore``, or None; tables that share one agree."""
    if data not in DATA:
        raise ValueError(unknown("data set of the paper", data, DATA))
    return _accuracies().get((data, shifts, ratio, method, group))


@cache
def _accuracies() -> dict[tuple[str, tuple[str, ...], float | None, str, str], float]:
    return {(s.data, s.shifts, s.ratio, s.method, s.group): s.accuracy for s in scores()}


def find_comparable(data: str) -> str | None:
    """Return the data set of the paper that compares to one of ours, or None."""
    family = data.removesuffix("-mini").removesuffix("-c")
    return {"cifar10": "cifar10c", "cifar100": "cifar100c"}.get(family)


@cache
def averages() -> tuple[Average, ...]:
    """Return the mean accuracies and mCEs of the pure table."""
    ends: dict[tuple[str, str], dict[str, float]] = {}
    for row in _rows("pure"):
        ends.setdefault((row["dataset"], row["method"]), {})[row["corruption"]] = float(row["value"])
    return tuple(Average(*key, row["mean_accuracy"], row["mce"]) for key, row in ends.items())


@cache
def complexity() -> tuple[Complexity, ...]:
    """Return the rows of the complexity table."""
    rows = []
    for row in _rows("complexity"):
        method, *setting = row["method"].split("_")
        number = int(setting[0]) if setting else None
        steps = {"mita": number, "tea": 1}.get(method)
        rows.append(
            Complexity(
                label=row["method"],
                method=method,
                langevin_steps=steps,
                views=number if method == "memo" else None,
                million_parameters=float(row["params_m"]),
                gflops=float(row["gflops_per_image"]),
                seconds=float(row["seconds_for_200_images_a800"]),
            )
        )
    return tuple(rows)


def _rows(name: str) -> list[dict[str, Any]]:
    text = (resources.files("midway.bench") / "assets" / "paper" / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
