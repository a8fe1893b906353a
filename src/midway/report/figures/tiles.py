"""Pictures side by side, with words above and below them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Picture = NDArray[np.float32]
"""(H, W, 3) in [0, 1]."""


def to_picture(image: Tensor) -> Picture:
    """Turn an image (C, H, W) into a picture; a single channel becomes grey.

    Example:
        >>> import torch
        >>> from midway.report.figures.tiles import to_picture
        >>> to_picture(torch.full((1, 2, 4), 1.5)).shape
        (2, 4, 3)
    """
    shown = image.detach().float().cpu().clamp(0, 1)
    return np.ascontiguousarray(shown.expand(3, *shown.shape[1:]).permute(1, 2, 0).numpy())


def difference(before: Picture, after: Picture, *, times: float) -> Picture:
    """Show what changed: grey where nothing did, brighter where a value rose, darker where it fell.

    Args:
        before: A picture.
        after: The same, changed.
        times: How often the change is enlarged.

    Example:
        >>> import numpy as np
        >>> from midway.report.figures.tiles import difference
        >>> a = np.zeros((1, 1, 3), np.float32)
        >>> difference(a, a + 0.125, times=2).tolist()
        [[[0.75, 0.75, 0.75]]]
    """
    changed: Picture = np.clip(0.5 + times * (after - before), 0, 1)
    return changed


def draw_tile(axes: Axes, picture: Picture, **frame: Any) -> None:
    """Draw a picture by whole pixels, so that nothing is smoothed away."""
    axes.imshow(picture, interpolation="nearest", vmin=0, vmax=1)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(bool(frame))
        spine.set(**frame)
