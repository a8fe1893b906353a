"""The record that describes a method in tables and listings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

PARADIGMS = ("none", "batch", "instance", "purification", "mutual")
"""The paradigms of the MITA paper's comparison, ordered by how much adapts."""

PREDICTS = ("before", "after", "-")
"""Whether logits are from before or after the update."""


@dataclass(frozen=True)
class About:
    """What a method is, for tables and listings.

    Only the name is required. ``ValueError`` if a value is not one of those listed here.

    Attributes:
        name: The name for ``midway.adapt`` and the command line.
        title: The name in tables; empty takes the name.
        paper: Authors, venue, year.
        paradigm: What adapts, as in the comparison of the MITA paper: ``"none"``; ``"batch"`` (the model to batches);
            ``"instance"`` (the model to each image); ``"purification"`` (the images); ``"mutual"`` (both).
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

    Example:
        >>> from midway.methods import About
        >>> about = About("half", paper="Doe et al., 2026", passes="1 F + 1 B")
        >>> about.title, about.year, about.predicts
        ('half', 2026, 'before')
    """

    name: str
    title: str = ""
    paper: str = "-"
    paradigm: str = "batch"
    adapts: str = "-"
    predicts: str = "before"
    passes: str = "-"
    needs: tuple[str, ...] = ()
    uses_other_images: bool = True
    aligns_each_image: bool = False
    uses_energy: bool = False
    accepts_signals: bool = False
    colour: str = ""
    marker: str = ""

    def __post_init__(self) -> None:
        if not self.title:
            object.__setattr__(self, "title", self.name)
        for field, allowed in {"paradigm": PARADIGMS, "predicts": PREDICTS}.items():
            if getattr(self, field) not in allowed:
                raise ValueError(
                    f"{field} of method {self.name} must be one of {allowed}, got {getattr(self, field)!r}."
                )

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
