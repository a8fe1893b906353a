"""What MITA does to an image: the original, the adapted image, and the difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn

from midway.data import corruption_names
from midway.data.image_set import ImageSet
from midway.methods import MITA, adapt
from midway.report.figures.style import INK, PAGE, new_figure, styled
from midway.report.figures.tiles import Picture, difference, draw_tile, to_picture
from midway.report.labels import words
from midway.streams import pure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Move:
    """One image of one corruption, before and after it was moved.

    Attributes:
        shift: The corruption.
        severity: Its severity.
        original: As it arrived.
        adapted: As the predictor saw it.
        distance: Length of the move, root of the summed squares over all values in [0, 1].
    """

    shift: str
    severity: int
    original: Picture
    adapted: Picture
    distance: float


def moved_images(
    model: nn.Module,
    data: ImageSet,
    *,
    image: int = 0,
    shifts: Sequence[str] | None = None,
    severities: Sequence[int] = (5,),
    batch_size: int = 200,
    seed: int = 0,
    **settings: Any,
) -> tuple[Move, ...]:
    """Adapt to each corruption by itself, up to the batch with the chosen image, and keep how it was moved.

    Args:
        model: The classifier.
        data: Clean images, in the order they arrive.
        image: The number of the chosen one.
        shifts: Corruptions; the fifteen of the benchmark by default.
        severities: Of each corruption.
        batch_size: Images a batch.
        seed: Of corruptions and of MITA.
        **settings: Of MITA, as ``midway.adapt`` takes them.

    Example:
        >>> import midway
        >>> from midway.report.figures.moves import moved_images
        >>> data = midway.data.load("cifar10-mini").first(8)
        >>> moves = moved_images(midway.models.create("resnet20"), data, image=3, shifts=["fog"], batch_size=8)
        >>> moves[0].original.shape, moves[0].distance > 0
        ((32, 32, 3), True)
    """
    if not 0 <= image < len(data):
        raise ValueError(f"there is no image {image} in {data.name}: it has 0 to {len(data) - 1}.")
    shifts = corruption_names("benchmark") if shifts is None else shifts
    until = data.first((image // batch_size + 1) * batch_size)
    method = adapt(model, "mita", seed=seed, **settings)
    assert isinstance(method, MITA)
    moves = []
    for shift in shifts:
        for severity in severities:
            method.reset()
            for batch in pure(until, shift, severity=severity, batch_size=batch_size, seed=seed):
                method(batch.images)
            assert method.adapted_images is not None
            place = image % batch_size
            before, after = batch.images[place], method.adapted_images[place]
            distance = (after - before).norm().item()
            moves.append(Move(shift, severity, to_picture(before), to_picture(after), distance))
    return tuple(moves)


@styled
def draw_moves(moves: Sequence[Move], *, times: float = 3, across: int = 3) -> Figure:
    """Draw original, adapted and difference of each, a few a row, the difference enlarged so many times."""
    down = -(-len(moves) // across)
    tile = (PAGE - 0.15 * across) / (3 * across)
    figure = new_figure(PAGE, (tile + 0.24) * down + 0.3, padding=(0.01, 0.03))
    widths = ([1.0, 1.0, 1.0, 0.12] * across)[:-1]
    grid = figure.add_gridspec(down, len(widths), width_ratios=widths)
    for number, move in enumerate(moves):
        left = number % across * 4
        shown = (move.original, move.adapted, difference(move.original, move.adapted, times=times))
        for column, picture in enumerate(shown):
            axes = figure.add_subplot(grid[number // across, left + column])
            draw_tile(axes, picture)
            if column == 0:
                axes.set_title(words(move.shift), loc="left", fontsize=7.5, pad=2)
    figure.suptitle(_heading(times), fontsize=8, color=INK, x=0.005, ha="left")
    return figure


@styled
def draw_severities(moves: Sequence[Move], *, times: float = 3) -> Figure:
    """Draw a row a corruption, and for each severity original, adapted and difference."""
    shifts = list(dict.fromkeys(move.shift for move in moves))
    severities = sorted({move.severity for move in moves})
    tile = (PAGE - 1.1 - 0.07 * len(severities)) / (3 * len(severities))
    figure = new_figure(PAGE, (tile + 0.024) * len(shifts) + 0.45, padding=(0.008, 0.012))
    widths = ([1.0, 1.0, 1.0, 0.18] * len(severities))[:-1]
    grid = figure.add_gridspec(len(shifts), len(widths), width_ratios=widths)
    for move in moves:
        row, block = shifts.index(move.shift), severities.index(move.severity)
        shown = (move.original, move.adapted, difference(move.original, move.adapted, times=times))
        for column, picture in enumerate(shown):
            axes = figure.add_subplot(grid[row, 4 * block + column])
            draw_tile(axes, picture)
            if block == 0 and column == 0:
                axes.set_ylabel(words(move.shift), rotation=0, ha="right", va="center", labelpad=4, fontsize=7)
            if row == 0 and column == 1:
                axes.set_title(f"severity {move.severity}", fontsize=7.5, pad=3)
    figure.suptitle(_heading(times), fontsize=8, color=INK, x=0.005, ha="left")
    return figure


def _heading(times: float) -> str:
    return f"original, adapted, and their difference enlarged {times:g} times"
