"""Pictures of a run, put into the page itself."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

LARGEST = 3_000_000
"""Bytes of a picture that still goes into a page."""

CAPTIONS = {
    "motivation": "What every method gains or loses against the unadapted Source.",
    "corruptions": "Methods by corruptions, coloured by what is gained over Source.",
    "samples": "Images drawn by Langevin dynamics from the source, from MITA's predictor and from its data model.",
    "moves": "One image under each corruption: as it arrived, as MITA moved it, and the difference.",
    "severities": "The same at five severities.",
    "corrections": "Outliers that a baseline gets wrong and MITA gets right.",
    "energies": "Energies of clean, corrupted, sampled and adapted images, before and after adaptation.",
}
"""Figures that the page does not draw itself -> what they show."""


@dataclass(frozen=True)
class Shown:
    """A picture in a page: its caption, its size in pixels, and its bytes as an address."""

    name: str
    caption: str
    width: int
    height: int
    address: str


def pictures_of(folder: Path | None) -> tuple[list[Shown], list[str]]:
    """Read the pictures that ``midway figures`` wrote beside a run.

    Returns:
        The pictures, and what to say of those that were left out.

    Example:
        >>> from midway.report.html.gallery import pictures_of
        >>> pictures_of(None)
        ([], [])
    """
    shown, left_out = [], []
    for name, caption in CAPTIONS.items() if folder is not None else ():
        path = (folder or Path()) / "figures" / f"{name}.png"
        if not path.is_file():
            continue
        if path.stat().st_size > LARGEST:
            left_out.append(f"The picture {path.name} is larger than {LARGEST / 1e6:g} MB and was left out.")
            continue
        with Image.open(path) as picture:
            width, height = picture.size
        address = f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
        shown.append(Shown(name, caption, width, height, address))
    return shown, left_out
