"""The record that describes a method in tables and listings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

PARADIGMS = ("none", "batch", "instance", "purification", "mutual")
"""The paradigms of the MITA paper's comparison, ordered by how much adapts."""


@dataclass(frozen=True)
class About:
    """What a method is, for tables and listings.

    Attributes:
        name: The name for ``midway.adapt`` and the command line.
        title: The name in tables.
        paper: Authors, venue, year.
        paradigm: One of ``PARADIGMS``.
        adapts: What the method changes.
        predicts: Whether the logits are from ``"before"`` or ``"after"`` the update; ``"-"`` if there is no update.
        passes: Cost of a batch in forward (F) and backward (B) passes.
        needs: What the method requires besides the images.
        uses_other_images: A prediction depends on the rest of the batch or on earlier batches.
        aligns_each_image: The method adapts to each image separately, or adapts each image.
        uses_energy: The method adapts by the energy of images, -logsumexp of their logits.
        accepts_signals: The method needs no image operations and also takes signals (N, C, L).
        colour: Colour in figures on white, such as ``"#0059a0"``; empty uses a spare one.
        marker: Marker in figures, by matplotlib's name; empty uses a spare one.
    """

    name: str
    title: str
    paper: str
    paradigm: str
    adapts: str
    predicts: str
    passes: str
    needs: tuple[str, ...] = ()
    uses_other_images: bool = True
    aligns_each_image: bool = False
    uses_energy: bool = False
    accepts_signals: bool = False
    colour: str = ""
    marker: str = ""

    @property
    def year(self) -> int | None:
        """The year at the end of ``paper``; None if it has none."""
        match = re.search(r"\b(\d{4})\b\D*$", self.paper)
        return int(match[1]) if match else None

    @cached_property
    def position(self) -> tuple[int, int, str]:
        """The sort key of listings: paradigm, then year (methods without one last), then title."""
        paradigm = PARADIGMS.index(self.paradigm) if self.paradigm in PARADIGMS else len(PARADIGMS)
        return paradigm, self.year or 9999, self.title.lower()
