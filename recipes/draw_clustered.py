"""Draw docs/images/clustered.png: spectra of kinds, a batch divided into kinds, and what that is worth.

    python recipes/draw_clustered.py docs/results docs/images/clustered.png

The first two parts use the embedded images and tuning corruptions; the third shows a stored run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes

import midway
from midway.adaptation.batch_norm.cluster_mixture import assign_clusters
from midway.adaptation.batch_norm.gaussian_mixture import MixtureState
from midway.adaptation.batch_norm.spectra import BANDS, spectra
from midway.report import frame

KINDS = {"clean": "#7f7f7f", "speckle_noise": "#d55e00", "gaussian_blur": "#0072b2", "saturate": "#cc79a7"}
ROWS = {
    "source": ("Source", "#b0b0b0"),
    "bn": ("BN", "#3a9bd9"),
    "bn_clustered": ("BN, clustered statistics", "#d55e00"),
}


def described(images: np.ndarray) -> torch.Tensor:
    """Return the spectra of images as bytes."""
    return spectra(torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float() / 255)


def draw_spectra(axes: Axes, images: np.ndarray) -> None:
    """Draw the mean log power and its spread for several kinds."""
    centres = [(low + high) / 2 for low, high in pairwise(BANDS)]
    for name, colour in KINDS.items():
        found = described(images if name == "clean" else midway.data.corrupt(images, name, severity=5))[
            :, : len(centres)
        ]
        mean, deviation = found.mean(0), found.std(0)
        axes.plot(centres, mean, color=colour, marker="o", markersize=3, label=name.replace("_", " "))
        axes.fill_between(centres, mean - deviation, mean + deviation, color=colour, alpha=0.15, linewidth=0)
    axes.set(title="Spectra of four kinds", xlabel="frequency (radial band)", ylabel="log power, mean of channels")
    axes.legend(frameon=False, fontsize=8)


def draw_batch(axes: Axes, images: np.ndarray) -> None:
    """Draw a batch with two kinds and an outlier along the directions that separate its kinds, marked as found."""
    noisy = midway.data.corrupt(images, "speckle_noise", severity=5)
    blurred = midway.data.corrupt(images, "gaussian_blur", severity=5)
    true = np.array([0, 1] * 100)
    true[17] = 2
    batch = np.where(true[:, None, None, None] == 0, noisy, np.where(true[:, None, None, None] == 1, blurred, images))
    found = described(batch)
    kinds = assign_clusters(MixtureState.initial(), found)[0].probabilities.argmax(dim=1).numpy()
    _, _, directions = torch.linalg.svd((found - found.mean(0)) / found.std(0), full_matrices=False)
    x, y = ((found - found.mean(0)) / found.std(0) @ directions[:2].T).T.numpy()
    colours = np.array([KINDS["speckle_noise"], KINDS["gaussian_blur"], "#009e73"])
    markers = "o^sDvP*X"
    for number, kind in enumerate(sorted(set(kinds.tolist()), key=lambda each: -(kinds == each).sum())):
        these = kinds == kind
        axes.scatter(
            x[these], y[these], c=colours[true[these]], marker=markers[number % 8], s=22, alpha=0.8, linewidth=0
        )
    axes.annotate("one clean image", (x[17], y[17]), (-25, -16), textcoords="offset points", fontsize=8)
    axes.set(
        title="A batch: colour is the truth, shape the kind found", xlabel="first component", ylabel="second component"
    )


def draw_accuracies(axes: Axes, folder: Path) -> None:
    """Draw the accuracies of outliers and mixtures of the stored runs, means over the pairs and the seeds."""
    runs = [folder / f"{kind}_statistics" for kind in ("outlier", "mixture")]
    rows = [row for run in runs for row in frame(run) if row.metric == "accuracy"]
    parts: dict[str, Callable[[Any], bool]] = {
        "outliers": lambda row: row.scenario.kind == "outlier" and row.group == row.scenario.shifts[0],
        "rest of the stream": lambda row: row.scenario.kind == "outlier" and row.group == row.scenario.shifts[1],
        "mixtures": lambda row: row.scenario.kind == "mixture" and row.group == "all",
    }
    for position, belongs in enumerate(parts.values()):
        for number, (label, (title, colour)) in enumerate(ROWS.items()):
            height = float(np.mean([row.value for row in rows if row.label == label and belongs(row)]))
            name = None if position else title
            bar = axes.bar(position + 0.27 * (number - 1), height, 0.25, color=colour, label=name)
            axes.bar_label(bar, fmt="%.1f", fontsize=8)
    axes.set_xticks(range(3), list(parts))
    axes.set(title="Accuracy, means over the paper's six pairs", ylabel="accuracy in %", ylim=(0, 100))
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="upper left")


def main() -> None:
    """Draw the picture."""
    folder, target = map(Path, sys.argv[1:])
    images = np.asarray(midway.data.load("cifar10-mini").first(200).images)
    figure, axes = plt.subplots(1, 3, figsize=(14, 4), layout="constrained")
    draw_spectra(axes[0], images)
    draw_batch(axes[1], images)
    draw_accuracies(axes[2], folder)
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
    figure.savefig(target, dpi=110)


if __name__ == "__main__":
    main()
