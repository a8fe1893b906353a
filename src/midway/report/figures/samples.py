"""Images drawn from a classifier by Langevin dynamics, before and after it was adapted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from midway.adaptation.samples import sample_images
from midway.functional import free_energy
from midway.methods.mita import MITA
from midway.report.figures.style import PAGE, new_figure, styled
from midway.report.figures.tiles import Picture, draw_tile, to_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Samples:
    """What one network draws.

    Attributes:
        title: Whose they are.
        pictures: The images.
        energy: Their mean energy under that network.
    """

    title: str
    pictures: tuple[Picture, ...]
    energy: float


def langevin_samples(
    source: nn.Module, adapted: MITA, *, count: int = 10, shape: Sequence[int] = (3, 32, 32), **walk: Any
) -> tuple[Samples, ...]:
    """Draw images from the source, from MITA's predictor and from its data model, from the same noise.

    Args:
        source: The unadapted network, in evaluation mode.
        adapted: A MITA that has seen some batches.
        count: Images of each.
        shape: Channels, height and width.
        **walk: Of the chains: ``steps``, ``step_size``, ``noise``, ``seed``; see ``midway.sample_images``.

    Example:
        >>> import midway, torch
        >>> from midway.report.figures.samples import langevin_samples
        >>> network = midway.models.create("resnet20").eval()
        >>> adapted = midway.MITA(network)
        >>> _ = adapted(torch.rand(4, 3, 32, 32))
        >>> [(row.title, len(row.pictures)) for row in langevin_samples(network, adapted, count=2, steps=1)]
        [('source', 2), ('predictor', 2), ('data model', 2)]
    """
    rows = []
    for title, network in (("source", source), ("predictor", adapted.model), ("data model", adapted.data_model)):
        images = sample_images(network, count, shape=shape, **walk)
        with torch.no_grad():
            energy = free_energy(network(images).float()).mean().item()
        rows.append(Samples(title, tuple(map(to_picture, images)), energy))
    return tuple(rows)


@styled
def draw_samples(rows: Sequence[Samples]) -> Figure:
    """Draw a row a network."""
    across = max(len(row.pictures) for row in rows)
    tile = min(0.66, (PAGE - 0.9) / across)
    figure = new_figure(0.9 + tile * across, tile * 1.02 * len(rows) + 0.1, padding=(0.01, 0.01))
    grid = figure.subplots(len(rows), across, squeeze=False)
    for row, places in zip(rows, grid, strict=True):
        for axes, picture in zip(places, row.pictures, strict=False):
            draw_tile(axes, picture)
        label = f"{row.title}\nE = {row.energy:.1f}"
        places[0].set_ylabel(label, rotation=0, ha="right", va="center", labelpad=6)
    return figure
