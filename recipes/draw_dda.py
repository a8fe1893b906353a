"""Draw docs/images/dda.png: images before and after DDA, and samples of the embedded denoiser from pure noise.

    python recipes/draw_dda.py docs/images/dda.png

The images are embedded ones, under four corruptions of the benchmark; the settings are the defaults.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import SubFigure
from numpy.typing import NDArray
from torch import Tensor

import midway
from midway.models import NoisePredictor, load_denoiser
from midway.sampling.diffusion import Respaced, purify

CORRUPTIONS = ("gaussian_noise", "impulse_noise", "defocus_blur", "fog")
IMAGES, SAMPLES, SAMPLE_STEPS = 8, 16, 200


def as_tensor(images: NDArray[np.uint8]) -> Tensor:
    """Return images as bytes (N, H, W, 3) as float in [0, 1], (N, 3, H, W)."""
    return torch.from_numpy(np.array(images)).permute(0, 3, 1, 2).float() / 255


def strip(images: Tensor) -> NDArray[np.float32]:
    """Put images side by side with a white line between them."""
    padded = torch.nn.functional.pad(images, (1, 1, 1, 1), value=1.0)
    joined: NDArray[np.float32] = torch.cat(list(padded), dim=2).permute(1, 2, 0).numpy()
    return joined


def draw_adapted(part: SubFigure, clean: NDArray[np.uint8]) -> None:
    """Draw clean, corrupted and adapted images, one block per corruption."""
    rows = [("clean", as_tensor(clean))]
    for name in CORRUPTIONS:
        corrupted = as_tensor(midway.data.corrupt(clean, name, severity=5))
        dda = midway.DDA(midway.models.load("wrn16_2.cifar10"))
        dda(corrupted)
        assert dda.adapted_images is not None
        rows += [(name.replace("_", " "), corrupted), ("adapted", dda.adapted_images)]
    for axes, (title, images) in zip(part.subplots(len(rows), 1), rows, strict=True):
        axes.imshow(strip(images), interpolation="nearest")
        axes.set_ylabel(title, rotation=0, ha="right", va="center", fontsize=8)
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    part.suptitle("DDA at severity 5, default settings", fontsize=9)


def draw_samples(part: SubFigure) -> None:
    """Draw samples of the denoiser from pure noise."""
    predictor = NoisePredictor(load_denoiser("unet.cifar10"))
    noise = torch.randn(SAMPLES, SAMPLE_STEPS, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    schedule = Respaced.of(predictor.alphas_cumprod, SAMPLE_STEPS)
    samples = purify(torch.zeros(SAMPLES, 3, 32, 32), predictor, schedule, noise, scale=0.0, factor=4) / 2 + 0.5
    axes = part.subplots()
    axes.imshow(np.concatenate([strip(row) for row in samples.split(4)]), interpolation="nearest")
    axes.set_axis_off()
    part.suptitle(f"Samples of the denoiser, {SAMPLE_STEPS} steps", fontsize=9)


def main() -> None:
    """Draw the picture."""
    clean = np.asarray(midway.data.load("cifar10-mini").first(IMAGES).images)
    figure = plt.figure(figsize=(9, 5.4), layout="constrained")
    left, right = np.ravel(figure.subfigures(1, 2, width_ratios=(1.7, 1)))  # type: ignore[arg-type]
    draw_adapted(left, clean)
    draw_samples(right)
    figure.savefig(Path(sys.argv[1]), dpi=110)


if __name__ == "__main__":
    main()
