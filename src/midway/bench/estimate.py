"""How long a plan will take, from a part of a batch of each kind of cell."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence

from midway.bench.cell import Cell
from midway.bench.material import Material
from midway.bench.work import make_method, using_threads

PRICING_IMAGES = 40


class Estimate:
    """Prices cells: seconds a batch are measured once for each method, network, data set and batch size.

    Example:
        >>> from midway.bench import Grid
        >>> from midway.bench.estimate import Estimate
        >>> cells = Grid.from_dict({"methods": "source,bn", "images": 400}).cells()
        >>> [seconds > 0 for _, seconds in Estimate().of(cells)]
        [True, True]
    """

    def __init__(self) -> None:
        self.material = Material()
        self.prices: dict[tuple[object, ...], float] = {}

    def of(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, float]]:
        """Yield each cell with the seconds it will take by itself."""
        for cell in cells:
            yield cell, self.seconds(cell)

    def seconds(self, cell: Cell) -> float:
        """Return the seconds a cell will take by itself, making its images not counted.

        Raises:
            ValueError: The data or the network of the cell cannot be loaded.
        """
        stream = self.material.lazy_stream(cell)
        settings = tuple(sorted((name, repr(value)) for name, value in cell.settings.items() if name != "seed"))
        kind = (cell.method, settings, cell.network, cell.data, cell.size, cell.batch_size, cell.precision)
        if kind not in self.prices:
            images = next(iter(stream)).images.to(cell.device)
            part = images[:PRICING_IMAGES]
            with using_threads(cell.threads), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                method = make_method(cell, self.material)
                method(part[:2])  # the first call is slower
                started = time.perf_counter()
                method(part)
            self.prices[kind] = (time.perf_counter() - started) * len(images) / len(part)
        return self.prices[kind] * len(stream)
