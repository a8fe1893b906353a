"""Time: how long cells take, estimated on a few images, and which part of a plan fits a budget."""

from __future__ import annotations

import hashlib
import json
import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from midway._files import parse_json, write_atomically
from midway.adaptation.classifier import AdaptiveClassifier
from midway.adaptation.parameters import first_weight
from midway.bench.engines.base import using_threads
from midway.bench.plan import Grid
from midway.bench.record import Cell
from midway.bench.resources import ResourceCache
from midway.bench.store import Store
from midway.cost.measured import count_cost

LEAST_BATCHES = 2
"""With fewer batches nothing adapts from one to the next; entries are left out instead."""

REQUIRED = ("source", "mita")
"""Entries that are never left out."""

TRIAL_IMAGES = range(8, 41)
"""Number of images of a trial: the largest, unless it would take longer than ``TRIAL_SECONDS``."""
TRIAL_SECONDS = 3.0

READ_IMAGES = 8
"""Number of images of a stream that are computed to measure the time of one."""


@dataclass(frozen=True)
class CostEstimate:
    """Estimated seconds per image: of the first ``adapts_to`` images after a reset (None: all), and of later ones.

    ``start`` are the seconds of a cell whatever its number of images: to create the method, check the shape of the
    images and count the cost of the first batch.
    """

    first: float
    later: float
    adapts_to: int | None = None
    start: float = 0.0

    def seconds(self, images: int) -> float:
        """Return the seconds of a stream with this many images, without the start."""
        first = images if self.adapts_to is None else min(images, self.adapts_to)
        return first * self.first + (images - first) * self.later


def estimate_cost(method: AdaptiveClassifier, images: Tensor) -> CostEstimate:
    """Measure the time per image of a method on a few images; the method is adapted afterwards."""
    images = images.to(first_weight(method, images))
    rough = _seconds(lambda: method(images[:2])) / 2  # the first call is slower
    method.reset()
    count = min(max(int(TRIAL_SECONDS / rough), TRIAL_IMAGES[0]), TRIAL_IMAGES[-1])
    part = images[: min(count, method.adapts_to or count)]
    first = _seconds(lambda: method(part)) / len(part)
    if method.adapts_to is None:
        return CostEstimate(first, first)
    with torch.no_grad():
        later = _seconds(lambda: method.model(part)) / len(part)
    return CostEstimate(first, later, method.adapts_to)


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


class CostEstimator:
    """Estimates the time of cells: each combination of method, network, data set and batch size is tried once.

    Attributes:
        spent: Seconds that the trials took so far.
    """

    def __init__(self, resources: ResourceCache | None = None) -> None:
        self.resources = resources or ResourceCache()
        self.estimates: dict[tuple[object, ...], CostEstimate] = {}
        self.spent = 0.0

    def seconds(self, cell: Cell) -> float:
        """Return the seconds of a cell, without its start and the time to compute its images."""
        return self.estimate(cell).seconds(len(self.resources.lazy_stream(cell).order))

    def estimate(self, cell: Cell) -> CostEstimate:
        """Return the time per image of the method of a cell."""
        settings = tuple(sorted((name, repr(value)) for name, value in cell.settings.items() if name != "seed"))
        kind = (cell.method, settings, cell.network, cell.data, cell.size, cell.batch_size, cell.precision)
        if kind not in self.estimates:
            began = time.perf_counter()
            images = next(iter(self.resources.lazy_stream(cell))).images.to(cell.device)
            self.resources.network(cell)  # is loaded once
            with using_threads(cell.threads), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                start = _seconds(lambda: self._start(cell, images[:2]))
                self.estimates[kind] = replace(estimate_cost(self.resources.method(cell), images), start=start)
            self.spent += time.perf_counter() - began
        return self.estimates[kind]

    def _start(self, cell: Cell, images: Tensor) -> None:
        """Begin a cell as an engine does, with few images."""
        method = self.resources.method(cell)
        method(images)
        method.reset()
        with count_cost(method, images, {}):
            method(images)

    def image_seconds(self, cell: Cell) -> float:
        """Return the seconds to compute one image of the stream of a cell."""
        stream = self.resources.lazy_stream(cell)
        few = np.arange(min(READ_IMAGES, len(stream.order)))
        return _seconds(lambda: stream.pixels(few)) / len(few)


@dataclass(frozen=True)
class BudgetChoice:
    """The part of a plan that fits a budget: images of every cell, and label of an entry left out -> reason."""

    images: int
    available: int
    seconds: float
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def reduced(self) -> bool:
        """Whether this is less than the whole plan."""
        return self.images < self.available or bool(self.left_out)

    def save(self, path: Path) -> None:
        """Write as JSON."""
        write_atomically(path, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> BudgetChoice:
        """Read what ``save`` wrote."""
        try:
            return cls(**parse_json(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path} does not describe a budget ({error}): delete it to choose again.") from error


def read_duration(text: str) -> float:
    """Return the seconds of a duration such as ``90s``, ``30m``, ``1.5h`` or ``1h30m``."""
    number = r"(\d+(?:\.\d+)?)"
    parts = re.fullmatch(rf"(?:{number}h)?(?:{number}m)?(?:{number}s?)?", text.strip())
    hours, minutes, seconds = (float(part or 0) for part in parts.groups()) if parts else (0.0, 0.0, 0.0)
    duration = 3600 * hours + 60 * minutes + seconds
    if not duration:
        raise ValueError(f"'{text}' is not a duration: write it like 90s, 30m or 1h30m.")
    return duration


def fit_budget(
    estimates: Mapping[str, CostEstimate],
    *,
    streams: Mapping[str, float],
    available: int,
    batch_size: int,
    budget: float,
    jobs: int = 1,
    required: Sequence[str] = REQUIRED,
    starts: Mapping[str, int] | None = None,
    image_seconds: float = 0.0,
) -> BudgetChoice:
    """Choose how many images each cell gets so that all of them together fit a time.

    The number is a multiple of the batch size, at least two batches. If these take too long, the slowest entries are
    left out, except required ones: the rest may then exceed the budget. ``streams`` are the lengths of the streams of
    each entry together, ``starts`` their numbers, and ``image_seconds`` the time to compute one image of each stream,
    which all entries share.
    """
    least = min(available, LEAST_BATCHES * batch_size)
    kept, left_out = list(estimates), {}

    def seconds(images: int, labels: Sequence[str]) -> float:
        of_cells = {label: estimates[label].seconds(images) for label in labels if streams[label]}
        total = sum(of_cells[label] * streams[label] for label in of_cells)
        total += sum(estimates[label].start * starts.get(label, 0) for label in of_cells) if starts else 0.0
        return max(total / jobs, *of_cells.values(), 0.0)  # a cell is not divided among jobs

    def in_all(images: int) -> float:
        return seconds(images, kept) + image_seconds * images / jobs

    while in_all(least) > budget:
        optional = [label for label in kept if label not in required and streams[label]]
        if not optional or len(kept) == 1:
            break
        slowest = max(optional, key=lambda label: seconds(least, [label]))
        left_out[slowest] = (
            f"{least} images would take about {seconds(least, [slowest]):.0f} s, more than the others leave of "
            f"{budget:.0f} s"
        )
        kept.remove(slowest)
    sizes = [available, *range(available // batch_size * batch_size, least, -batch_size), least]
    images = next((size for size in sizes if in_all(size) <= budget * (1 + 1e-9)), least)
    return BudgetChoice(images, available, in_all(images), left_out)


def fit_grid(
    grid: Grid,
    store: Store,
    seconds: float,
    *,
    jobs: int = 1,
    required: Sequence[str] = REQUIRED,
    resources: ResourceCache | None = None,
    estimator: CostEstimator | None = None,
    fixed_images: int | None = None,
    reuse_images: bool = True,
) -> tuple[Grid, BudgetChoice]:
    """Reduce a grid to what fits a time, that of the trials included.

    The choice is stored: a run that is continued keeps it. With ``fixed_images`` only methods are left out. With
    ``reuse_images`` the number of images is kept under another budget if all stored results have the same. An
    ``estimator`` that is given keeps what it measured, for other grids with the same methods.
    """
    name = hashlib.sha256(repr((seconds, jobs, grid)).encode()).hexdigest()[:8]
    path = store.folder / f"budget-{name}.json"
    if path.exists():
        chosen = BudgetChoice.load(path)
    else:
        estimator = estimator or CostEstimator(resources)
        available = len(estimator.resources.lazy_stream(grid.cells()[0]).order)
        stored = {record.cell.images for record in store.records if reuse_images}
        fixed, planned = fixed_images, grid
        if fixed is None and len(stored) == 1:
            planned = replace(grid, images=stored.pop())
            fixed = min(planned.images or available, available)

        def length(cell: Cell) -> float:
            """Return the length of a stream relative to the first: mixed domains have all images fifteen times."""
            return len(estimator.resources.lazy_stream(cell).order) / available

        left: dict[str, list[Cell]] = {entry.label: [] for entry in grid.methods}
        for cell in planned.cells():
            if not store.has(cell):
                left[cell.label].append(cell)
        estimates = {
            label: estimator.estimate(cells[0]) if cells else CostEstimate(0, 0) for label, cells in left.items()
        }
        streams = {cell.stream_key: cell for cells in left.values() for cell in cells}.values()
        chosen = fit_budget(
            estimates,
            streams={label: sum(map(length, cells)) for label, cells in left.items()},
            available=fixed or available,
            batch_size=fixed or grid.batch_sizes[0],  # all images as one batch: not fewer
            budget=max(seconds - estimator.spent, 0.0),
            jobs=jobs,
            required=required,
            starts={label: len(cells) for label, cells in left.items()},
            image_seconds=sum(estimator.image_seconds(cell) * length(cell) for cell in streams),
        )
        chosen = replace(chosen, available=available)
        chosen.save(path)
    methods = tuple(entry for entry in grid.methods if entry.label not in chosen.left_out)
    images = chosen.images if chosen.images < chosen.available else grid.images
    return replace(grid, methods=methods, images=images), chosen
