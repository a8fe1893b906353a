"""How MITA changes an image: the original, the adapted image, and their difference."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from midway.data import corruption_names
from midway.data.corruptions.registry import shift_title
from midway.methods import MITA, adapt
from midway.report.figures.drawing import INK, PAGE, Picture, draw_tile, new_figure, to_picture
from midway.report.figures.registry import NetworkAndImages, figure
from midway.streams import pure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.gridspec import GridSpec

FACTOR = 3
"""How much the shown differences are enlarged."""


class ImageChange(NamedTuple):
    """One image under one corruption, as it arrived and as the predictor classifies it."""

    shift: str
    severity: int
    original: Picture
    adapted: Picture
    distance: float  # Euclidean, over all values in [0, 1]


def image_changes(given: NetworkAndImages, *, severities: Sequence[int] = (5,)) -> tuple[ImageChange, ...]:
    """Adapt to each corruption separately, up to the batch with the chosen image, and return its changes."""
    data, image, size = given.data, given.image, given.batch_size
    if not 0 <= image < len(data):
        raise ValueError(f"there is no image {image} in {data.name}: it has 0 to {len(data) - 1}.")
    until = data.first((image // size + 1) * size)
    method = adapt(given.model, "mita", seed=given.seed, **given.mita)
    assert isinstance(method, MITA)
    changes = []
    for shift in corruption_names("benchmark"):
        for severity in severities:
            method.reset()
            for batch in pure(until, shift, severity=severity, batch_size=size, seed=given.seed):
                method(batch.images)
            assert method.adapted_images is not None
            before, after = batch.images[image % size], method.adapted_images[image % size]
            distance = (after - before).norm().item()
            changes.append(ImageChange(shift, severity, to_picture(before), to_picture(after), distance))
    return tuple(changes)


@figure(
    "image_changes",
    title="What MITA changes in an image",
    caption="One image under each corruption: the original, the image that MITA adapted, and their difference,"
    f" enlarged {FACTOR} times.",
    source=NetworkAndImages,
    build=image_changes,
    requires="a network and images",
)
def draw_image_changes(changes: Sequence[ImageChange]) -> Figure:
    """Draw original, adapted image and difference of each corruption, three corruptions per row."""
    rows = -(-len(changes) // 3)
    figure = new_figure(PAGE, ((PAGE - 0.45) / 9 + 0.24) * rows + 0.3, padding=(0.01, 0.03))
    grid = _grid(figure, rows, blocks=3, gap=0.12)
    for number, change in enumerate(changes):
        first, _, _ = _draw_change(figure, grid, change, number // 3, number % 3)
        first.set_title(shift_title(change.shift), loc="left", fontsize=7.5, pad=2)
    return figure


@figure(
    "severities",
    title="What MITA changes at five severities",
    caption="The same image under each corruption at each severity.",
    source=NetworkAndImages,
    build=partial(image_changes, severities=(1, 2, 3, 4, 5)),
    requires="a network and images",
)
def draw_severities(changes: Sequence[ImageChange]) -> Figure:
    """Draw a row per corruption, and for each severity original, adapted image and difference."""
    shifts = list(dict.fromkeys(change.shift for change in changes))
    severities = sorted({change.severity for change in changes})
    tile = (PAGE - 1.1 - 0.07 * len(severities)) / (3 * len(severities))
    figure = new_figure(PAGE, (tile + 0.024) * len(shifts) + 0.45, padding=(0.008, 0.012))
    grid = _grid(figure, len(shifts), blocks=len(severities), gap=0.18)
    for change in changes:
        row, block = shifts.index(change.shift), severities.index(change.severity)
        first, second, _ = _draw_change(figure, grid, change, row, block)
        if block == 0:
            first.set_ylabel(shift_title(change.shift), rotation=0, ha="right", va="center", labelpad=4, fontsize=7)
        if row == 0:
            second.set_title(f"severity {change.severity}", fontsize=7.5, pad=3)
    return figure


def _grid(figure: Figure, rows: int, *, blocks: int, gap: float) -> GridSpec:
    """Add the heading and return a grid whose rows have blocks of three tiles with gaps between blocks."""
    heading = f"original, adapted, and their difference enlarged {FACTOR} times"
    figure.suptitle(heading, fontsize=8, color=INK, x=0.005, ha="left")
    widths = ([1.0, 1.0, 1.0, gap] * blocks)[:-1]
    return figure.add_gridspec(rows, len(widths), width_ratios=widths)


def _draw_change(figure: Figure, grid: GridSpec, change: ImageChange, row: int, block: int) -> list[Axes]:
    axes = [figure.add_subplot(grid[row, 4 * block + column]) for column in range(3)]
    shown = (change.original, change.adapted, difference(change.original, change.adapted, factor=FACTOR))
    for each, picture in zip(axes, shown, strict=True):
        draw_tile(each, picture)
    return axes


def difference(before: Picture, after: Picture, *, factor: float) -> Picture:
    """Return a picture of a change: grey where nothing changed, brighter where a value rose, darker where it fell."""
    changed: Picture = np.clip(0.5 + factor * (after - before), 0, 1)
    return changed
