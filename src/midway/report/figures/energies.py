"""Energies of clean, corrupted, sampled and adapted images, under the source and under the adapted network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from midway.adaptation.samples import sample_images
from midway.functional import free_energy
from midway.methods.mita import MITA
from midway.report.figures.style import PAGE, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS: dict[str, tuple[str, Any]] = {
    "clean": ("#000000", "-"),
    "corrupted": ("#707070", (0, (4, 1.5))),
    "sampled": ("#a0a0a0", (0, (1.2, 1))),
    "adapted": ("#383838", (0, (6, 1.5, 1.5, 1.5))),
}
"""Kind of images -> its grey and its line: colours are for methods."""


@dataclass(frozen=True)
class Energies:
    """Energies under one network: kind of images -> one value an image."""

    title: str
    values: dict[str, tuple[float, ...]]


def image_energies(
    source: nn.Module, adapted: MITA, clean: Tensor, corrupted: Tensor, **walk: Any
) -> tuple[Energies, ...]:
    """Measure energies before and after adaptation; the method adapts to the corrupted images once more.

    Networks with batch statistics see each kind of images as one batch. Sampled images are each network's own.

    Args:
        source: The unadapted network, in evaluation mode.
        adapted: A MITA; its data model is looked at.
        clean: Images before they were corrupted.
        corrupted: The same images, corrupted: a batch as the method sees it.
        **walk: Of the chains: ``steps``, ``step_size``, ``noise``, ``seed``; see ``midway.sample_images``.

    Example:
        >>> import midway, torch
        >>> from midway.report.figures.energies import image_energies
        >>> network, images = midway.models.create("resnet20").eval(), torch.rand(4, 3, 32, 32)
        >>> before, after = image_energies(network, midway.MITA(network), images, images / 2, steps=1)
        >>> list(after.values), len(after.values["adapted"])
        (['clean', 'corrupted', 'sampled', 'adapted'], 4)
    """
    adapted(corrupted)
    moved = adapted.adapted_images
    assert moved is not None
    panels = []
    for title, network in (("before: source", source), ("after: data model", adapted.data_model)):
        sampled = sample_images(network, len(clean), shape=clean.shape[1:], **walk)
        kinds = dict(zip(KINDS, (clean, corrupted, sampled, moved), strict=True))
        with torch.no_grad():
            values = {kind: tuple(free_energy(network(images).float()).tolist()) for kind, images in kinds.items()}
        panels.append(Energies(title, values))
    return tuple(panels)


@styled
def draw_energies(panels: Sequence[Energies], *, bins: int | None = None) -> Figure:
    """Draw histograms with the same bins everywhere, a panel a network; thin lines mark the means."""
    figure = new_figure(PAGE, 2.4)
    count = max(len(values) for panel in panels for values in panel.values.values())
    bins = bins or max(10, min(40, count // 5))
    every = [value for panel in panels for values in panel.values.values() for value in values]
    low, high = min(every), max(every)
    edges = [low + (high - low) * step / bins for step in range(bins + 1)]
    first = None
    for number, panel in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), number + 1, sharex=first, sharey=first)
        first = first or axes
        for kind, values in panel.values.items():
            shares = [100 / len(values)] * len(values)
            colour, line = KINDS[kind]
            axes.hist(
                values, edges, weights=shares, histtype="step", linewidth=1.1, color=colour, linestyle=line, label=kind
            )
            axes.axvline(fmean(values), color=colour, linestyle=line, linewidth=0.6)
        axes.set_title(panel.title, loc="left")
        axes.set_xlabel("energy  E(x) = -logsumexp f(x)")
        axes.grid(axis="y")
        if number == 0:
            axes.set_ylabel("images (%)")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=4, columnspacing=1.4, handlelength=3)
    return figure
