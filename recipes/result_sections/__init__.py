"""The sections of docs/results.md in the order of the page, one file for each group."""

from __future__ import annotations

from result_sections import clustered, corruptions, mita, other_data, pairs, single_images
from result_sections.section import TUNED, Section

__all__ = ["SECTIONS", "TUNED", "Section"]

SECTIONS = (
    *corruptions.SECTIONS,
    *single_images.SECTIONS,
    *pairs.SECTIONS,
    *mita.SECTIONS,
    *clustered.SECTIONS,
    *other_data.SECTIONS,
)
