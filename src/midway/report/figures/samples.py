"""Images sampled from a classifier by Langevin dynamics, before and after its adaptation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from midway.functional import free_energy
from midway.methods import MITA
from midway.report.figures.drawing import PAGE, new_figure
from midway.report.figures.registry import figure
from midway.report.figures.sources import NetworkAndImages
from midway.report.figures.tiles import Picture, draw_tile, to_picture
from midway.sampling.images import sample_images

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Samples:
    """Images sampled from one network.

    Attributes:
        title: Name of the network.
        pictures: The images.
        energy: Their mean energy under the network.
    """

    title: str
    pictures: tuple[Picture, ...]
    energy: float


def langevin_samples(
    source: nn.Module, adapted: MITA, *, count: int = 10, shape: Sequence[int] = (3, 32, 32), **chain: Any
) -> tuple[Samples, ...]:
    """Sample images from the source, from MITA's predictor and from its data model, starting from the same noise.

    Args:
        source: The unadapted network, in evaluation mode.
        adapted: A MITA that has seen some batches.
        count: Images per network.
        shape: Channels, height and width.
        **chain: Settings of the Langevin chains: ``steps``, ``step_size``, ``noise``, ``seed``; see
            ``midway.sample_images``.
    """
    rows = []
    for title, network in (("source", source), ("predictor", adapted.model), ("data model", adapted.data_model)):
        images = sample_images(network, count, shape=shape, **chain)
        with torch.no_grad():
            energy = free_energy(network(images).float()).mean().item()
        rows.append(Samples(title, tuple(map(to_picture, images)), energy))
    return tuple(rows)


def _samples_of(given: NetworkAndImages) -> tuple[Samples, ...]:
    _, height, width, channels = given.data.images.shape
    chain = {"steps": given.langevin_steps, "seed": given.seed}
    return langevin_samples(given.model, given.adapted_mita(), shape=(channels, height, width), **chain)


@figure(
    "samples",
    title="Langevin samples",
    caption="Images sampled by Langevin dynamics from the source, from MITA's predictor and from its data model, with"
    " their mean energies.",
    source=NetworkAndImages,
    build=_samples_of,
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
