"""Images sampled from a classifier by Langevin dynamics, before and after its adaptation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch

from midway.adaptation.samples import sample_images
from midway.functional import free_energy
from midway.report.figures.drawing import PAGE, Picture, draw_tile, new_figure, to_picture
from midway.report.figures.registry import NetworkAndImages, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Samples(NamedTuple):
    """Images sampled from one network, and their mean energy under it."""

    title: str
    pictures: tuple[Picture, ...]
    energy: float


def langevin_samples(given: NetworkAndImages, *, count: int = 10) -> tuple[Samples, ...]:
    """Sample images from the source, from MITA's predictor and from its data model, starting from the same noise."""
    _, height, width, channels = given.data.images.shape
    adapted = given.adapted_mita()
    rows = []
    networks = {"source": given.model, "predictor": adapted.model, "data model": adapted.data_model}
    for title, network in networks.items():
        shape = (channels, height, width)
        images = sample_images(network, count, shape=shape, steps=given.langevin_steps, seed=given.seed)
        with torch.no_grad():
            energy = free_energy(network(images).float()).mean().item()
        rows.append(Samples(title, tuple(map(to_picture, images)), energy))
    return tuple(rows)


@figure(
    "samples",
    title="Langevin samples",
    caption="Images sampled by Langevin dynamics from the source, from MITA's predictor and from its data model, with"
    " their mean energies.",
    source=NetworkAndImages,
    build=langevin_samples,
    requires="a network and images",
)
def draw_samples(rows: Sequence[Samples]) -> Figure:
    """Draw a row per network."""
    across = max(len(row.pictures) for row in rows)
    tile = min(0.66, (PAGE - 0.9) / across)
    figure = new_figure(0.9 + tile * across, tile * 1.02 * len(rows) + 0.1, padding=(0.01, 0.01))
    grid = figure.subplots(len(rows), across, squeeze=False)
    for row, axes in zip(rows, grid, strict=True):
        for each, picture in zip(axes, row.pictures, strict=False):
            draw_tile(each, picture)
        label = f"{row.title}\nE = {row.energy:.1f}"
        axes[0].set_ylabel(label, rotation=0, ha="right", va="center", labelpad=6)
    return figure
