"""The contact sheet: one image under all corruptions."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from midway._files import write_atomically
from midway.data.corrupted import corrupt
from midway.data.corruptions import corruption_names
from midway.data.corruptions.registry import Purpose, shift_title
from midway.data.image_set import ImageSet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, FAINT = "#1c1e22", "#7a7f88"
TILE, GRID_TILE = 128, 80  # layout pixels of a picture in a block, in a grid
GAP, MARGIN, LINE = 10, 28, 20
SCALE = 2  # pixels of the file per layout pixel: text is sharp on dense screens
COLUMNS = 5


class Panel(NamedTuple):
    """A picture of the sheet: uint8 (H, W, 3), the corruption or ``"clean"``, and the severity, 0 if it is clean."""

    image: NDArray[np.uint8]
    corruption: str
    severity: int


def panels(data: ImageSet, *, image: int = 0, severities: Sequence[int] = (5,), seed: int = 0) -> list[Panel]:
    """Return one image clean, then under each corruption at each severity."""
    if not 0 <= image < len(data):
        raise ValueError(f"there is no image {image} in {data.name}: it has 0 to {len(data) - 1}.")
    clean = np.asarray(data.images[[image]])
    corrupted = [
        Panel(_rgb(corrupt(clean, name, severity=severity, seed=seed, indices=[image])), name, severity)
        for name in corruption_names()
        for severity in severities
    ]
    return [Panel(_rgb(clean), "clean", 0), *corrupted]


def contact_sheet(
    data: ImageSet, out: str | Path, *, image: int = 0, severities: Sequence[int] = (5,), seed: int = 0
) -> Path:
    """Write a PNG of one image under all registered corruptions, with their names.

    One severity gives a block of pictures; several give one row per corruption, from weak to strong. ``image`` is the
    index of the image, ``seed`` that of the random corruptions.

    Example:
        >>> import tempfile
        >>> from midway import data
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     data.contact_sheet(data.load("cifar10-mini"), f"{folder}/sheet.png", image=3).name
        'sheet.png'
    """
    out = Path(out).expanduser()
    if out.suffix.lower() != ".png":
        raise ValueError(f"{out} is to be a PNG: give it a name that ends in .png.")
    severities = tuple(sorted(set(severities)))
    pictures = panels(data, image=image, severities=severities, seed=seed)
    title = f"{data.name}, image {image}: {data.class_names[data.labels[image]] if data.labelled else 'unlabelled'}"
    sheet = _block(pictures, title, severities[0]) if len(severities) == 1 else _grid(pictures, title, severities)
    file = io.BytesIO()
    sheet.figure.canvas.print_figure(file, format="png")
    return write_atomically(out, file.getvalue())


def _block(pictures: Sequence[Panel], title: str, severity: int) -> Axes:
    rows = -(-len(pictures) // COLUMNS)
    step = TILE + GAP
    width = 2 * MARGIN + COLUMNS * step - GAP
    sheet = _sheet(width, 2 * MARGIN + 2 * LINE + rows * (step + LINE) - GAP, title)
    _text(sheet, f"severity {severity} of 5", width - MARGIN, MARGIN - 3, color=FAINT, ha="right")
    for index, panel in enumerate(pictures):
        left = MARGIN + index % COLUMNS * step
        top = MARGIN + 2 * LINE + index // COLUMNS * (step + LINE)
        _picture(sheet, panel.image, left, top, TILE)
        _text(sheet, shift_title(panel.corruption), left, top + TILE + 4, weight="normal" if panel.severity else "bold")
    return sheet


def _grid(pictures: Sequence[Panel], title: str, severities: Sequence[int]) -> Axes:
    step = GRID_TILE + GAP
    names_width = 150
    purposes: tuple[Purpose, ...] = ("tuning", "extra")
    first = {name: purpose for purpose in purposes for name in corruption_names(purpose)[:1]}
    sheet = _sheet(
        2 * MARGIN + names_width + (1 + len(severities)) * step - GAP,
        2 * MARGIN + 3 * LINE + len(corruption_names()) * step - GAP + len(first) * (LINE + GAP),
        title,
    )
    clean, corrupted = pictures[0], pictures[1:]
    left, top = MARGIN + names_width, MARGIN + 3 * LINE
    for column, header in enumerate(("clean", *(f"severity {severity}" for severity in severities))):
        _text(sheet, header, left + column * step, top - LINE, color=FAINT)
    for row, name in enumerate(corruption_names()):
        if name in first:
            _text(sheet, first[name], MARGIN, top + row * step + 4, color=FAINT)
            top += LINE + GAP
        _text(sheet, shift_title(name), MARGIN, top + row * step + GRID_TILE // 2 - 8)
        shown = [clean, *(panel for panel in corrupted if panel.corruption == name)]
        for column, panel in enumerate(shown):
            _picture(sheet, panel.image, left + column * step, top + row * step, GRID_TILE)
    return sheet


def _sheet(width: int, height: int, title: str) -> Axes:
    """Return a white sheet with a title: axes in layout pixels from the top left."""
    from matplotlib.figure import Figure  # slow to import

    figure = Figure(figsize=(width / 100, height / 100), dpi=100 * SCALE, facecolor="white")
    sheet = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0), autoscale_on=False)
    sheet.set_axis_off()
    _text(sheet, title, MARGIN, MARGIN - 6, pixels=17, weight="bold")
    return sheet


def _text(sheet: Axes, words: str, left: int, top: int, *, pixels: int = 13, color: str = INK, **style: Any) -> None:
    sheet.text(left, top + 3, words, size=pixels * 0.72, color=color, va="top", family="DejaVu Sans", **style)


def _picture(sheet: Axes, pixels: NDArray[np.uint8], left: float, top: float, tile: int) -> None:
    """Draw a picture in the middle of a square tile; small pictures are enlarged without smoothing."""
    height, width = (side * tile / max(pixels.shape[:2]) for side in pixels.shape[:2])
    left, top = left + (tile - width) / 2, top + (tile - height) / 2
    sheet.imshow(pixels, extent=(left, left + width, top + height, top), aspect="auto")


def _rgb(batch: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(np.broadcast_to(batch[0], (*batch.shape[1:3], 3)))
