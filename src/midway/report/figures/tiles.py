"""Images as tiles of figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Picture = NDArray[np.float32]
"""(H, W, 3) in [0, 1]."""


def to_picture(image: Tensor) -> Picture:
    """Turn an image (C, H, W) into a picture; a single channel becomes grey."""
    clamped = image.detach().float().cpu().clamp(0, 1)
    return np.ascontiguousarray(clamped.expand(3, *clamped.shape[1:]).permute(1, 2, 0).numpy())


def difference(before: Picture, after: Picture, *, factor: float) -> Picture:
    """Return a picture of a change: grey where nothing changed, brighter where a value rose, darker where it fell.

    Args:
        before: A picture.
        after: The same picture, changed.
        factor: How much the change is enlarged.
    """
    changed: Picture = np.clip(0.5 + factor * (after - before), 0, 1)
    return changed


def draw_tile(axes: Axes, picture: Picture) -> None:
    """Draw a picture without ticks, frame or interpolation."""
    axes.imshow(picture, interpolation="nearest", vmin=0, vmax=1)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
