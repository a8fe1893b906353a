"""The benchmark of `midway benchmark`: every method on six kinds of streams, and published errors for the order."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import NamedTuple

from midway._suggest import unknown
from midway.bench.entries import Entry, parse_entries
from midway.bench.paper import PAIRS
from midway.bench.suites import equal_budget_tea
from midway.methods import names
from midway.streams import Scenario, expand

LEFT_OUT = {
    "memo": "a batch costs about 70 passes for each image",
    "dda": "a batch costs about as many passes as the diffusion has steps",
    "ttt": "it needs a network that was trained with its second head",
}
"""Methods that only run if they are named, and why."""

VARIANTS = (
    'bn(views="mirror", label="bn_mirror"), tent(views="mirror", label="tent_mirror")'
    ', bn(statistics="clustered", label="bn_clustered"), tent(statistics="clustered", label="tent_clustered")'
    ', eata(statistics="clustered", label="eata_clustered"), roid(statistics="clustered", label="roid_clustered")'
    ', tea(statistics="clustered", label="tea_clustered"), mita(statistics="clustered", label="mita_clustered")'
)
"""Rows besides the methods with their defaults."""


class Streams(NamedTuple):
    """A column of the benchmark: streams whose errors are averaged.

    Attributes:
        title: The heading of the column.
        texts: The scenarios.
        first_shift_only: Only images with the first shift of a stream count, the outliers.
    """

    title: str
    texts: tuple[str, ...]
    first_shift_only: bool = False

    @property
    def scenarios(self) -> list[Scenario]:
        """The scenarios, each stream by itself."""
        return [scenario for text in self.texts for scenario in expand(text)]


STREAMS = {
    "reset": Streams("reset each", ("pure:all",)),
    "continual": Streams("continual", ("continual:all",)),
    "mixed": Streams("mixed domains", ("mixed:all",)),
    "correlated": Streams("correlated", ("correlated:all@0.1",)),
    "outlier": Streams("outliers", tuple(f"outlier:{a}/{b}@0.02" for a, b in PAIRS), first_shift_only=True),
    "mixture": Streams("mixtures", tuple(f"mixture:{a}/{b}@0.5" for a, b in PAIRS)),
}
"""The columns of the benchmark by name."""


def benchmark_entries(only: str = "") -> tuple[Entry, ...]:
    """Return the rows: those written in ``only`` and Source, or all methods with their defaults and some variants.

    Example:
        >>> from midway.bench.benchmark import benchmark_entries
        >>> [entry.label for entry in benchmark_entries("tent, bn(prior=16)")]
        ['source', 'tent', 'bn(prior=16)']
    """
    if only:
        entries = parse_entries(only)
        return (*([] if "source" in {each.label for each in entries} else parse_entries("source")), *entries)
    methods = ", ".join([name for name in names() if name not in LEFT_OUT])
    return (*parse_entries(methods), equal_budget_tea(), *parse_entries(VARIANTS))


def benchmark_streams(only: Sequence[str] = ()) -> dict[str, Streams]:
    """Return the columns of the given names, or all."""
    for name in only:
        if name not in STREAMS:
            raise ValueError(unknown("column of the benchmark", name, STREAMS))
    return {name: streams for name, streams in STREAMS.items() if not only or name in only}


@cache
def published_errors() -> dict[tuple[str, str], tuple[str, float]]:
    """Return column and method -> network and error in percent, as published for CIFAR-10-C at severity 5.

    Continual and mixed domains: the repository of Döbler and Marsden, Adam and 10,000 images a corruption. Correlated:
    NOTE, each corruption by itself, with a network that was trained with IABN in the row of NOTE.
    """
    text = (resources.files("midway.bench") / "assets" / "benchmark" / "published.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return {(row["stream"], row["method"]): (row["network"], float(row["error"])) for row in rows}
