"""The benchmark of `midway benchmark`: every method on six kinds of streams, and published errors for the order."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import NamedTuple

from midway._suggest import unknown
from midway.bench.entries import Entry, parse_entries
from midway.bench.paper import PAIRS
from midway.bench.plan import Grid
from midway.bench.record import Cell
from midway.methods import names
from midway.streams import Scenario, expand

LEFT_OUT = {
    "memo": "a batch costs about 70 passes for each image",
    "dda": "a batch costs about as many passes as the diffusion has steps",
    "ttt": "it needs a network that was trained with its second head",
}
"""Methods that only run if they are named, and why."""

CHEAPER = {"tea": "tea(langevin_steps=1, shared_pass=True, label='tea')"}
"""Methods with other settings than their defaults: 20 Langevin steps, as published, cost nine times as much."""

VARIANTS = (
    'note(batch_statistics=True, sampling="recent", lr=0.001, label="note_star")',
    'lame(preset="published", label="lame_rbf")',
    'bn(statistics="alpha", label="bn_alpha")',
    'bn(statistics="unmix", label="bn_unmix")',
    'bn(statistics="unmix-128", label="bn_unmix_128")',
    'bn(views="mirror", label="bn_mirror")',
    'tent(views="mirror", label="tent_mirror")',
    'mita(adapt_data=False, views="mirror", label="mita_without_data_mirror")',
    'bn(statistics="clustered", label="bn_clustered")',
    'tent(statistics="clustered", label="tent_clustered")',
    'eata(statistics="clustered", label="eata_clustered")',
    'shot(statistics="clustered", label="shot_clustered")',
    'sar(statistics="clustered", label="sar_clustered")',
    'tea(langevin_steps=1, shared_pass=True, statistics="clustered", label="tea_clustered")',
    'mita(statistics="clustered", label="mita_clustered")',
)
"""Rows besides the methods."""


class BenchmarkColumn(NamedTuple):
    """A column of the benchmark: streams whose errors are averaged.

    Attributes:
        title: The heading of the column.
        texts: The scenarios.
        first_shift_only: Only images with the first shift of a stream count, the outliers.
        batch_size: Images per batch, if that is less than the other streams have.
    """

    title: str
    texts: tuple[str, ...]
    first_shift_only: bool = False
    batch_size: int | None = None

    @property
    def scenarios(self) -> list[Scenario]:
        """The scenarios, each stream by itself."""
        return [scenario for text in self.texts for scenario in expand(text)]


COLUMNS = {
    "reset": BenchmarkColumn("reset each", ("pure:all",)),
    "continual": BenchmarkColumn("continual", ("continual:all",)),
    "mixed": BenchmarkColumn("mixed domains", ("mixed:all",)),
    "correlated": BenchmarkColumn("correlated", ("correlated:all@0",), batch_size=64),
    "outlier": BenchmarkColumn("outliers", tuple(f"outlier:{a}/{b}@0.02" for a, b in PAIRS), first_shift_only=True),
    "mixture": BenchmarkColumn("mixtures", tuple(f"mixture:{a}/{b}@0.5" for a, b in PAIRS)),
}
"""The columns of the benchmark by name.

Correlated labels are sorted, in batches of 64 as published for NOTE and RoTTA: what matters is that a batch has few
classes. The Dirichlet order of NOTE has that with 10,000 images (1.2 classes in a batch of 64, as the exponential of
the entropy of their shares) but not with a few hundred (3.0 with 600 images, where sorted ones have 1.7).
"""


def benchmark_entries(only: str = "") -> tuple[Entry, ...]:
    """Return the rows: those written in ``only`` and Source, or all methods that are not too slow and some variants.

    Example:
        >>> from midway.bench.benchmark import benchmark_entries
        >>> [entry.label for entry in benchmark_entries("tent, bn(prior=16)")]
        ['source', 'tent', 'bn(prior=16)']
    """
    if only:
        entries = parse_entries(only)
        return (*([] if "source" in {each.label for each in entries} else parse_entries("source")), *entries)
    methods = [CHEAPER.get(name, name) for name in names() if name not in LEFT_OUT]
    return tuple(parse_entries(", ".join([*methods, *VARIANTS])))


def select_columns(only: Sequence[str] = ()) -> dict[str, BenchmarkColumn]:
    """Return the columns of the given names, or all."""
    for name in only:
        if name not in COLUMNS:
            raise ValueError(unknown("column of the benchmark", name, COLUMNS))
    return {name: column for name, column in COLUMNS.items() if not only or name in only}


def benchmark_cells(grid: Grid, columns: Mapping[str, BenchmarkColumn]) -> list[Cell]:
    """Return the cells of columns, with the rows, images and seeds of a grid, in batches of at most its size."""
    size = grid.batch_sizes[0]
    grids = [
        replace(grid, scenarios=column.texts, batch_sizes=(min(size, column.batch_size or size),))
        for column in columns.values()
    ]
    return [cell for each in grids for cell in each.cells()]


@cache
def published_errors(data: str = "cifar10") -> dict[str, dict[str, dict[str, float]]]:
    """Return column -> network -> label -> error in percent, as published for a data set at severity 5; {} without.

    CIFAR-10-C, CIFAR-100-C and ImageNet-C have some; clean images that are corrupted here count as these.

    Most are of the repository of Döbler and Marsden: 10,000 images a corruption in batches of 200 (ImageNet-C: 5,000 in
    batches of 64), correlated labels sorted, LAME with the affinity "rbf". On CIFAR it has Adam, but its code builds
    SAR with SGD. ResNet-18 is of NOTE: each corruption by itself in batches of 64, correlated labels in NOTE's order,
    and a network trained with IABN in the rows of NOTE; which affinity its LAME has is not known.

    Example:
        >>> from midway.bench.benchmark import published_errors
        >>> published_errors("cifar100")["mixed"]["ResNeXt-29"]["roid"], published_errors("pacs")
        (35.0, {})
    """
    family = data.removesuffix("-mini").removesuffix("-c")
    text = (resources.files("midway.bench") / "assets" / "benchmark" / "published.csv").read_text(encoding="utf-8")
    errors: dict[str, dict[str, dict[str, float]]] = {}
    for row in csv.DictReader(text.splitlines()):
        if row["data"].removesuffix("c").removesuffix("-") == family:
            errors.setdefault(row["stream"], {}).setdefault(row["network"], {})[row["label"]] = float(row["error"])
    return errors
