"""Energies of clean, corrupted, sampled and adapted images, under the source and under the adapted network."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from midway.adaptation.samples import sample_images
from midway.functional import free_energy
from midway.report.figures.drawing import PAGE, new_figure
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
        with torch.no_grad():
            values = {kind: tuple(free_energy(network(images).float()).tolist()) for kind, images in kinds.items()}
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
