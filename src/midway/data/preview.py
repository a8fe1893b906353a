"""The contact sheet: one image under all corruptions."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont, ImageOps

from midway.data.corrupted import corrupt
from midway.data.corruptions import corruption_names
from midway.data.corruptions.registry import Purpose
from midway.data.image_set import ImageSet
from midway.files import write_atomically

PAPER, INK, FAINT = (255, 255, 255), (28, 30, 34), (122, 127, 136)
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

    One severity gives a block of pictures; several give one row per corruption, from weak to strong.

    Args:
        data: The set of the image.
        out: The file to write.
        image: Index of the image.
        severities: Some of 1 to 5.
        seed: Seed of the random corruptions.

    Example:
        >>> import tempfile
        >>> from midway import data
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     data.contact_sheet(data.load("cifar10-mini"), f"{folder}/sheet.png", image=3).name
        'sheet.png'
    """
    severities = tuple(sorted(set(severities)))
    pictures = panels(data, image=image, severities=severities, seed=seed)
    title = f"{data.name}, image {image}: {data.class_names[data.labels[image]]}"
    sheet = _block(pictures, title, severities[0]) if len(severities) == 1 else _grid(pictures, title, severities)
    file = io.BytesIO()
    sheet.save(file, format="PNG")
    return write_atomically(Path(out).expanduser(), file.getvalue())


def _block(pictures: Sequence[Panel], title: str, severity: int) -> Image.Image:
    rows = -(-len(pictures) // COLUMNS)
    step = TILE + GAP
    sheet = _Sheet(2 * MARGIN + COLUMNS * step - GAP, 2 * MARGIN + 2 * LINE + rows * (step + LINE) - GAP)
    sheet.heading(title, f"severity {severity} of 5")
    for index, panel in enumerate(pictures):
        left = MARGIN + index % COLUMNS * step
        top = MARGIN + 2 * LINE + index // COLUMNS * (step + LINE)
        sheet.picture(panel.image, left, top)
        sheet.text(_words(panel.corruption), left, top + TILE + 4, strong=panel.severity == 0)
    return sheet.image


def _grid(pictures: Sequence[Panel], title: str, severities: Sequence[int]) -> Image.Image:
    step = GRID_TILE + GAP
    names_width = 150
    purposes: tuple[Purpose, ...] = ("tuning", "extra")
    first = {name: purpose for purpose in purposes for name in corruption_names(purpose)[:1]}
    sheet = _Sheet(
        2 * MARGIN + names_width + (1 + len(severities)) * step - GAP,
        2 * MARGIN + 3 * LINE + len(corruption_names()) * step - GAP + len(first) * (LINE + GAP),
    )
    sheet.heading(title, "")
    clean, corrupted = pictures[0], pictures[1:]
    left, top = MARGIN + names_width, MARGIN + 3 * LINE
    for column, header in enumerate(("clean", *(f"severity {severity}" for severity in severities))):
        sheet.text(header, left + column * step, top - LINE, faint=True)
    for row, name in enumerate(corruption_names()):
        if name in first:
            sheet.text(first[name], MARGIN, top + row * step + 4, faint=True)
            top += LINE + GAP
        sheet.text(_words(name), MARGIN, top + row * step + GRID_TILE // 2 - 8)
        shown = [clean, *(panel for panel in corrupted if panel.corruption == name)]
        for column, panel in enumerate(shown):
            sheet.picture(panel.image, left + column * step, top + row * step, tile=GRID_TILE)
    return sheet.image


class _Sheet:
    """A white image for pictures and text, in layout pixels."""

    def __init__(self, width: int, height: int) -> None:
        self.image = Image.new("RGB", (width * SCALE, height * SCALE), PAPER)
        self._pen = ImageDraw.Draw(self.image)

    def heading(self, title: str, note: str) -> None:
        """Draw the title at the top left and a note at the top right."""
        self.text(title, MARGIN, MARGIN - 6, size=17, strong=True)
        self.text(note, self.image.width // SCALE - MARGIN, MARGIN - 3, faint=True, anchor="ra")

    def text(
        self,
        words: str,
        left: int,
        top: int,
        *,
        size: int = 13,
        strong: bool = False,
        faint: bool = False,
        anchor: str = "la",
    ) -> None:
        """Draw text with its top left corner, or the corner of a Pillow anchor, at a coordinate."""
        font = _font(size * SCALE, strong=strong)
        self._pen.text((left * SCALE, top * SCALE), words, fill=FAINT if faint else INK, font=font, anchor=anchor)

    def picture(self, pixels: NDArray[np.uint8], left: int, top: int, tile: int = TILE) -> None:
        """Draw a picture in a square tile; small pictures are enlarged without smoothing."""
        side = tile * SCALE
        method = Image.Resampling.NEAREST if max(pixels.shape[:2]) < side else Image.Resampling.LANCZOS
        square = ImageOps.pad(Image.fromarray(pixels), (side, side), method, color=PAPER)
        self.image.paste(square, (left * SCALE, top * SCALE))


def _font(size: int, *, strong: bool) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    from matplotlib import get_data_path  # only for its fonts, and slow to import

    name = "DejaVuSans-Bold.ttf" if strong else "DejaVuSans.ttf"
    return ImageFont.truetype(Path(get_data_path(), "fonts", "ttf", name), size)


def _words(name: str) -> str:
    return name.replace("_", " ").replace("jpeg", "JPEG")


def _rgb(batch: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(np.broadcast_to(batch[0], (*batch.shape[1:3], 3)))
