"""How long a plan will take, from a part of a batch of each kind of cell."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from midway.adaptation.parameters import first_weight
from midway.bench.cell import Cell
from midway.bench.resources import ResourceCache
from midway.bench.work import make_method, using_threads
from midway.methods import Method

PRICING_IMAGES = range(8, 41)
"""How many images a trial takes: the most, unless they are dear."""
PRICING_SECONDS = 3.0


@dataclass(frozen=True)
class Price:
    """What images cost a method.

    Attributes:
        first: Seconds an image it adapts to.
        later: Seconds an image beyond those.
        adapts_to: How many images after a reset it adapts to; None: all.
    """

    first: float
    later: float
    adapts_to: int | None = None

    def of(self, images: int) -> float:
        """Return the seconds a stream of so many images takes.

        Example:
            >>> from midway.bench.estimate import Price
            >>> Price(first=0.5, later=0.25, adapts_to=100).of(200), Price(0.5, 0.5).of(200)
            (75.0, 100.0)
        """
        first = images if self.adapts_to is None else min(images, self.adapts_to)
        return first * self.first + (images - first) * self.later


def price(method: Method, images: Tensor) -> Price:
    """Measure what images cost a method, on a few of them; it is another one afterwards.

    Args:
        method: The method as it begins a stream.
        images: A batch, of which a part is used.
    """
    images = images.to(first_weight(method, images))
    rough = _seconds(lambda: method(images[:2])) / 2  # the first call is slower
    method.reset()
    count = min(max(int(PRICING_SECONDS / rough), PRICING_IMAGES[0]), PRICING_IMAGES[-1])
    part = images[: min(count, method.adapts_to or count)]
    first = _seconds(lambda: method(part)) / len(part)
    if method.adapts_to is None:
        return Price(first, first)
    with torch.no_grad():
        later = _seconds(lambda: method.model(part)) / len(part)
    return Price(first, later, method.adapts_to)


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


class Estimate:
    """Prices cells: each kind of method, network, data set and batch size is tried once.

    Example:
        >>> from midway.bench import Grid
        >>> from midway.bench.estimate import Estimate
        >>> cells = Grid.from_dict({"methods": "source,bn", "images": 400}).cells()
        >>> [seconds > 0 for _, seconds in Estimate().of(cells)]
        [True, True]
    """

    def __init__(self) -> None:
        self.resources = ResourceCache()
        self.prices: dict[tuple[object, ...], Price] = {}

    def of(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, float]]:
        """Yield each cell with the seconds it will take by itself."""
        for cell in cells:
            yield cell, self.seconds(cell)

    def seconds(self, cell: Cell) -> float:
        """Return the seconds a cell will take by itself, making its images not counted.

        Raises:
            ValueError: The data or the network of the cell cannot be loaded.
        """
        return self.price(cell).of(len(self.resources.lazy_stream(cell).order))

    def price(self, cell: Cell) -> Price:
        """Return what images cost the method of a cell.

        Raises:
            ValueError: The data or the network of the cell cannot be loaded.
        """
        settings = tuple(sorted((name, repr(value)) for name, value in cell.settings.items() if name != "seed"))
        kind = (cell.method, settings, cell.network, cell.data, cell.size, cell.batch_size, cell.precision)
        if kind not in self.prices:
            images = next(iter(self.resources.lazy_stream(cell))).images.to(cell.device)
            with using_threads(cell.threads), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.prices[kind] = price(make_method(cell, self.resources), images)
        return self.prices[kind]
