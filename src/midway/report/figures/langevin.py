"""Images sampled from a classifier by Langevin dynamics, and energies of images, before and after its adaptation."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from midway.adaptation.samples import sample_images
from midway.functional import free_energy
from midway.report.figures.drawing import PAGE, Picture, draw_tile, new_figure, to_picture
from midway.report.figures.registry import NetworkAndImages, figure
from midway.streams import pure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS: dict[str, tuple[str, Any]] = {
    "clean": ("#000000", "-"),
    "corrupted": ("#707070", (0, (4, 1.5))),
    "sampled": ("#a0a0a0", (0, (1.2, 1))),
    "adapted": ("#383838", (0, (6, 1.5, 1.5, 1.5))),
}
"""Kind of images -> its grey and its line; colours are for methods."""

SAMPLES = 10
"""Images that are sampled from each network."""


@torch.no_grad()
def _energies(network: nn.Module, images: Tensor) -> Tensor:
    return free_energy(network(images).float())


class Samples(NamedTuple):
    """Images sampled from one network, and their mean energy under it."""

    title: str
    pictures: tuple[Picture, ...]
    energy: float


def langevin_samples(given: NetworkAndImages) -> tuple[Samples, ...]:
    """Sample images from the source, from MITA's predictor and from its data model, starting from the same noise."""
    _, height, width, channels = given.data.images.shape
    adapted = given.adapted_mita()
    rows = []
    networks = {"source": given.model, "predictor": adapted.model, "data model": adapted.data_model}
    for title, network in networks.items():
        shape = (channels, height, width)
        images = sample_images(network, SAMPLES, shape=shape, steps=given.langevin_steps, seed=given.seed)
        rows.append(Samples(title, tuple(map(to_picture, images)), _energies(network, images).mean().item()))
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


class Energies(NamedTuple):
    """Energies under one network: kind of images -> one value per image."""

    title: str
    values: dict[str, tuple[float, ...]]


def image_energies(given: NetworkAndImages) -> tuple[Energies, ...]:
    """Measure the energies of the first batch under the source and under a MITA that has adapted to all images.

    MITA adapts to the corrupted first batch once more. Networks with batch statistics see each kind of images as one
    batch. Each network has its own sampled images.
    """
    first, settings = given.data.first(given.batch_size), {"batch_size": given.batch_size, "seed": given.seed}
    clean, corrupted = (next(iter(pure(first, shift, **settings))).images for shift in ("clean", given.shift))
    method = given.adapted_mita()
    method(corrupted)
    adapted = method.adapted_images
    assert adapted is not None
    panels = []
    for title, network in (("before: source", given.model), ("after: data model", method.data_model)):
        shape, steps = clean.shape[1:], given.langevin_steps
        sampled = sample_images(network, len(clean), shape=shape, steps=steps, seed=given.seed)
        kinds = dict(zip(KINDS, (clean, corrupted, sampled, adapted), strict=True))
        values = {kind: tuple(_energies(network, images).tolist()) for kind, images in kinds.items()}
        panels.append(Energies(title, values))
    return tuple(panels)


@figure(
    "energies",
    title="Energies of images",
    caption="Energies of clean, corrupted, sampled and adapted images under the source and under MITA's data model;"
    " thin lines are means.",
    source=NetworkAndImages,
    build=image_energies,
    requires="a network and images",
)
def draw_energies(panels: Sequence[Energies]) -> Figure:
    """Draw histograms with the same bins in every panel, a panel per network; thin lines mark the means."""
    figure = new_figure(PAGE, 2.4)
    count = max(len(values) for panel in panels for values in panel.values.values())
    bins = max(10, min(40, count // 5))
    every = [value for panel in panels for values in panel.values.values() for value in values]
    low, high = min(every), max(every)
    edges = [low + (high - low) * step / bins for step in range(bins + 1)]
    first = None
    for number, panel in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), number + 1, sharex=first, sharey=first)
        first = first or axes
        for kind, values in panel.values.items():
            style: dict[str, Any] = dict(zip(("color", "linestyle"), KINDS[kind], strict=True))
            shares = [100 / len(values)] * len(values)
            axes.hist(values, edges, weights=shares, histtype="step", linewidth=1.1, label=kind, **style)
            axes.axvline(fmean(values), linewidth=0.6, **style)
        axes.set_title(panel.title, loc="left")
        axes.set_xlabel("energy  E(x) = -logsumexp f(x)")
        axes.grid(axis="y")
        if number == 0:
            axes.set_ylabel("images (%)")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=4, columnspacing=1.4, handlelength=3)
    return figure
