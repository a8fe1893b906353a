"""Pictures of a run, put into the page itself."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from PIL import Image

from midway.bench.store import RESULTS
from midway.report.stored_run import StoredRun, read_run

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


def pictures_of(run: StoredRun) -> tuple[list[Shown], list[str]]:
    """Read the pictures that ``midway figures`` wrote beside a run; of several comparisons each has its own.

    Returns:
        The pictures, and what to say of those that were left out.

    Example:
        >>> from midway.report.html.gallery import pictures_of
        >>> from midway.report.stored_run import StoredRun
        >>> pictures_of(StoredRun("of the moment", None, ()))
        ([], [])
    """
    shown: list[Shown] = []
    left_out: list[str] = []
    if run.folder is None:
        return shown, left_out
    suffixes = {"": ""} | {f"_{number}": title for number, title in enumerate(_titles(run, run.folder), start=1)}
    for name, caption in CAPTIONS.items():
        for suffix, title in suffixes.items():
            path = run.folder / "figures" / f"{name}{suffix}.png"
            if not path.is_file():
                continue
            if path.stat().st_size > LARGEST:
                left_out.append(f"The picture {path.name} is larger than {LARGEST / 1e6:g} MB and was left out.")
                continue
            with Image.open(path) as picture:
                width, height = picture.size
            said = f"{title}: {caption}" if title else caption
            shown.append(Shown(name + suffix, said, width, height, address(path.read_bytes())))
    return shown, left_out


def address(picture: bytes) -> str:
    """Return the bytes of a PNG as an address that a page can hold."""
    return f"data:image/png;base64,{base64.b64encode(picture).decode()}"


def _titles(run: StoredRun, folder: Path) -> list[str]:
    """Name the comparisons as pictures are numbered: of the whole folder, also where a run is a part of it."""
    numbered = any((folder / "figures" / f"{name}_1.png").is_file() for name in CAPTIONS)
    whole = read_run(folder) if numbered and (folder / RESULTS).is_file() else run
    return [comparison.title for comparison in whole.comparisons]


def gallery(pictures: Sequence[tuple[str, Shown]]) -> str:
    """Write pictures as a section, each with the name of its run; a name may be empty."""
    return f'<section id="pictures"><h2>Pictures</h2>{figures(pictures)}</section>' if pictures else ""


def figures(pictures: Sequence[tuple[str, Shown]]) -> str:
    """Write pictures that enlarge, each with the name of its run; a name may be empty."""
    made = []
    for name, picture in pictures:
        caption = escape(f"{name}: {picture.caption}" if name else picture.caption)
        made.append(
            f'<figure><button type="button" aria-label="Enlarge: {caption}">'
            f'<img src="{picture.address}" alt="{caption}" width="{picture.width}" height="{picture.height}">'
            f"</button><figcaption>{caption}</figcaption></figure>"
        )
    return f'<div class="gallery">{"".join(made)}</div>'
