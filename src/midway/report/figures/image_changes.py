"""How MITA changes an image: the original, the adapted image, and their difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn

from midway.data.corruptions import CORRUPTIONS
from midway.data.image_set import ImageSet
from midway.methods import MITA, adapt
from midway.report.figures.drawing import INK, PAGE, new_figure
from midway.report.figures.registry import figure
from midway.report.figures.sources import NetworkAndImages
from midway.report.figures.tiles import Picture, difference, draw_tile, to_picture
from midway.report.style import words
from midway.streams import pure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FACTOR = 3
"""How much the shown differences are enlarged."""


@dataclass(frozen=True)
class ImageChange:
    """One image under one corruption, before and after its adaptation.

    Attributes:
        shift: The corruption.
        severity: Its severity.
        original: The image as it arrived.
        adapted: The image that the predictor classifies.
        distance: Euclidean distance of both, over all values in [0, 1].
    """

    shift: str
    severity: int
    original: Picture
    adapted: Picture
    distance: float


def image_changes(
    model: nn.Module,
    data: ImageSet,
    *,
    image: int = 0,
    shifts: Sequence[str] = CORRUPTIONS,
    severities: Sequence[int] = (5,),
    batch_size: int = 200,
    seed: int = 0,
    **settings: Any,
) -> tuple[ImageChange, ...]:
    """Adapt to each corruption separately, up to the batch with the chosen image, and return the changes of the image.

    Args:
        model: The classifier.
        data: Clean images, in the order in which they arrive.
        image: Index of the chosen image.
        shifts: Corruptions.
        severities: Severities of each corruption.
        batch_size: Images per batch.
        seed: Seed of the corruptions and of MITA.
        **settings: Settings of MITA, as ``midway.adapt`` takes them.

    Raises:
        ValueError: The data set has no image with this index.
    """
    if not 0 <= image < len(data):
        raise ValueError(f"there is no image {image} in {data.name}: it has 0 to {len(data) - 1}.")
    used = data.first((image // batch_size + 1) * batch_size)
    index = image % batch_size
    method = adapt(model, "mita", seed=seed, **settings)
    assert isinstance(method, MITA)
    changes = []
    for shift in shifts:
        for severity in severities:
            method.reset()
            for batch in pure(used, shift, severity=severity, batch_size=batch_size, seed=seed):
                method(batch.images)
            assert method.adapted_images is not None
            before, after = batch.images[index], method.adapted_images[index]
            distance = (after - before).norm().item()
            changes.append(ImageChange(shift, severity, to_picture(before), to_picture(after), distance))
    return tuple(changes)


def _changes_of(given: NetworkAndImages, severities: Sequence[int]) -> tuple[ImageChange, ...]:
    settings = {"batch_size": given.batch_size, "seed": given.seed} | dict(given.mita)
    return image_changes(given.model, given.data, image=given.image, severities=severities, **settings)


@figure(
    "image_changes",
    title="What MITA changes in an image",
    caption="One image under each corruption: the original, the image that MITA adapted, and their difference,"
    f" enlarged {FACTOR} times.",
    source=NetworkAndImages,
    build=lambda given: _changes_of(given, (5,)),
    requires="a network and images",
)
def draw_image_changes(changes: Sequence[ImageChange]) -> Figure:
    """Draw original, adapted image and difference of each corruption, three corruptions per row."""
    across = 3
    down = -(-len(changes) // across)
    tile = (PAGE - 0.15 * across) / (3 * across)
    figure = new_figure(PAGE, (tile + 0.24) * down + 0.3, padding=(0.01, 0.03))
    widths = ([1.0, 1.0, 1.0, 0.12] * across)[:-1]
    grid = figure.add_gridspec(down, len(widths), width_ratios=widths)
    for number, change in enumerate(changes):
        left = 4 * (number % across)
        axes = [figure.add_subplot(grid[number // across, left + column]) for column in range(3)]
        _draw_change(axes, change)
        axes[0].set_title(words(change.shift), loc="left", fontsize=7.5, pad=2)
    _add_heading(figure)
    return figure


@figure(
    "severities",
    title="What MITA changes at five severities",
    caption="The same image under each corruption at each severity.",
    source=NetworkAndImages,
    build=lambda given: _changes_of(given, (1, 2, 3, 4, 5)),
    requires="a network and images",
)
def draw_severities(changes: Sequence[ImageChange]) -> Figure:
    """Draw a row per corruption, and for each severity original, adapted image and difference."""
    shifts = list(dict.fromkeys(change.shift for change in changes))
    severities = sorted({change.severity for change in changes})
    tile = (PAGE - 1.1 - 0.07 * len(severities)) / (3 * len(severities))
    figure = new_figure(PAGE, (tile + 0.024) * len(shifts) + 0.45, padding=(0.008, 0.012))
    widths = ([1.0, 1.0, 1.0, 0.18] * len(severities))[:-1]
    grid = figure.add_gridspec(len(shifts), len(widths), width_ratios=widths)
    for change in changes:
        row, block = shifts.index(change.shift), severities.index(change.severity)
        axes = [figure.add_subplot(grid[row, 4 * block + column]) for column in range(3)]
        _draw_change(axes, change)
        if block == 0:
            axes[0].set_ylabel(words(change.shift), rotation=0, ha="right", va="center", labelpad=4, fontsize=7)
        if row == 0:
            axes[1].set_title(f"severity {change.severity}", fontsize=7.5, pad=3)
    _add_heading(figure)
    return figure


def _draw_change(axes: Sequence[Axes], change: ImageChange) -> None:
    shown = (change.original, change.adapted, difference(change.original, change.adapted, factor=FACTOR))
    for each, picture in zip(axes, shown, strict=True):
        draw_tile(each, picture)


def _add_heading(figure: Figure) -> None:
    heading = f"original, adapted, and their difference enlarged {FACTOR} times"
    figure.suptitle(heading, fontsize=8, color=INK, x=0.005, ha="left")
