"""Spatter: drops of water or splashes of mud on the lens."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from midway.data.corruptions.pixels import Bytes, Floats, grey, smooth, to_bytes, to_unit
from midway.data.corruptions.randomness import Draws
from midway.data.corruptions.registry import Strength, corruption

WATER = np.array([175, 238, 238], dtype=np.float32) / np.float32(255)
MUD = np.array([63, 42, 20], dtype=np.float32) / np.float32(255)

MUD_EDGE = 0.8  # thinner mud is removed
EDGE_WEAK, EDGE_STRONG = 50, 150  # of the gradient, for 8-bit layers
FURTHEST = 20.0  # largest distance in pixels from the edge of a drop; water is flat beyond it
STRAIGHT, DIAGONAL, KNIGHT = 1.0, 1.4, 2.1969  # lengths of the steps of which a distance consists
SHADE = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])  # light from the bottom right
SIDEWAYS = np.array([[[0, 0, 0]] * 3, [[1, 1, 1]] * 3, [[0, 0, 0]] * 3])  # neighbours within an image, not across


@corruption(
    purpose="tuning",
    category="weather",
    strengths={
        32: (
            (0.62, 0.1, 0.7, 0.7, 0.5, 0),
            (0.65, 0.1, 0.8, 0.7, 0.5, 0),
            (0.65, 0.3, 1, 0.69, 0.5, 0),
            (0.65, 0.1, 0.7, 0.69, 0.6, 1),
            (0.65, 0.1, 0.5, 0.68, 0.6, 1),
        ),
        64: (
            (0.62, 0.1, 0.7, 0.7, 0.6, 0),
            (0.65, 0.1, 0.8, 0.7, 0.6, 0),
            (0.65, 0.3, 1, 0.69, 0.6, 0),
            (0.65, 0.1, 0.7, 0.68, 0.6, 1),
            (0.65, 0.1, 0.5, 0.67, 0.6, 1),
        ),
        224: (
            (0.65, 0.3, 4, 0.69, 0.6, 0),
            (0.65, 0.3, 3, 0.68, 0.6, 0),
            (0.65, 0.3, 2, 0.68, 0.5, 0),
            (0.65, 0.3, 1, 0.65, 1.5, 1),
            (0.67, 0.4, 1, 0.65, 1.5, 1),
        ),
    },
)
def spatter(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """Water (lit drops, severities 1 to 3) or mud (opaque, 4 and 5) on the lens.

    A greyscale image gets the luma of water or mud. Strength: mean and standard deviation of the normal layer, its
    smoothing sigma, the threshold below which the lens is dry, the strength of water or the sigma of mud's edge,
    mud (1) or water (0).
    """
    mean, deviation, sigma, threshold, amount, mud = strength
    layer = draws.normal(images.shape[1:3]) * np.float32(deviation) + np.float32(mean)
    layer = smooth(layer, sigma)
    clean, colour = to_unit(images), MUD if mud else WATER
    colour = colour if images.shape[-1] == 3 else grey(colour)
    if mud:
        cover = smooth((layer > threshold).astype(np.float32), amount)[..., None]
        cover[cover < MUD_EDGE] = 0
        return to_bytes(clean * (1 - cover) + cover * colour)
    layer[layer < threshold] = 0
    drops = _drops(to_bytes(layer))
    deepest = drops.max(axis=(1, 2), keepdims=True)
    drops *= np.float32(amount) / np.where(deepest > 0, deepest, np.float32(1))
    return to_bytes(clean + drops[..., None] * colour)


def _drops(liquid: Bytes) -> Floats:
    """Return the brightness of the water, (n, H, W): that of the layer, shaded by the distance to the drops' edges.

    These are the published 8-bit steps: edges, distance to them, mean of 3 x 3, equalised histogram, shading,
    mean of 3 x 3.
    """
    from scipy import ndimage  # slow to import

    distance = np.minimum(edge_distance(edges(liquid)), FURTHEST)
    level = equalise((_mean_3x3(distance) + 1e-6).astype(np.uint8))
    shaded = np.clip(ndimage.correlate(level.astype(np.int32), SHADE[None], mode="mirror"), 0, 255)
    soft = np.floor(_mean_3x3(shaded.astype(np.float64)) + 0.5)
    return np.asarray(liquid * soft, dtype=np.float32)


def edge_distance(edge: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the distance of each pixel of layers (n, H, W) to the nearest edge of its layer; infinite if it has none.

    The distance is that of OpenCV's 5 x 5 mask, the shortest path of straight, diagonal and knight's steps, to the
    edge pixel with the smallest Euclidean distance.
    """
    from scipy import ndimage  # slow to import

    distance = np.full(edge.shape, np.inf)
    with_edges = edge.any(axis=(1, 2))
    if with_edges.any():
        # The layers are far apart along the batch axis: the nearest edge is always in the same layer.
        apart = 4.0 * sum(edge.shape[1:])
        _, rows, columns = ndimage.distance_transform_edt(
            ~edge[with_edges], sampling=(apart, 1, 1), return_distances=False, return_indices=True
        )
        own_rows, own_columns = np.indices(edge.shape[1:])
        down, right = np.abs(rows - own_rows), np.abs(columns - own_columns)
        longer, shorter = np.maximum(down, right), np.minimum(down, right)
        knight = np.minimum(shorter, longer - shorter)
        diagonal, straight = shorter - knight, np.maximum(longer - 2 * shorter, 0)
        distance[with_edges] = straight * STRAIGHT + diagonal * DIAGONAL + knight * KNIGHT
    return distance


def _mean_3x3(layers: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy import ndimage  # slow to import

    third = np.full(3, 1 / 3)
    for axis in (1, 2):
        layers = ndimage.correlate1d(layers, third, axis=axis, mode="mirror")
    return layers


def equalise(layers: Bytes) -> Bytes:
    """Equalise the histogram of each layer (n, H, W); a layer of one level is unchanged."""
    count, size = len(layers), layers[0].size
    bins = layers.reshape(count, -1) + np.arange(count)[:, None] * 256
    histogram = np.bincount(bins.ravel(), minlength=count * 256).reshape(count, 256)
    lowest = layers.reshape(count, -1).min(axis=1)
    in_lowest = histogram[np.arange(count), lowest][:, None]
    below = np.cumsum(histogram, axis=1) - in_lowest
    scale = np.float32(255) / np.maximum(size - in_lowest, 1).astype(np.float32)
    table = np.clip(np.rint(below * scale), 0, 255).astype(np.uint8)
    flat = in_lowest[:, 0] == size
    table[flat] = np.arange(256)
    return np.asarray(table.ravel()[bins].reshape(layers.shape))


def edges(layers: Bytes) -> NDArray[np.bool_]:
    """Return the edges in layers (n, H, W) by Canny's method with Sobel gradients, as OpenCV does."""
    from scipy import ndimage  # slow to import

    wide = np.pad(layers.astype(np.int32), ((0, 0), (1, 1), (1, 1)), mode="edge")
    across = wide[:, :, 2:] - wide[:, :, :-2]
    along = wide[:, 2:, :] - wide[:, :-2, :]
    right = across[:, :-2] + 2 * across[:, 1:-1] + across[:, 2:]
    down = along[:, :, :-2] + 2 * along[:, :, 1:-1] + along[:, :, 2:]
    strength = np.abs(right) + np.abs(down)

    # Thin to ridges: compare with the two neighbours in the direction of the gradient, in steps of 45 degrees.
    around = np.pad(strength, ((0, 0), (1, 1), (1, 1)))

    def beside(rows: int, columns: int) -> NDArray[np.int32]:
        height, width = strength.shape[1:]
        return around[:, 1 + rows : 1 + rows + height, 1 + columns : 1 + columns + width]

    tangent = np.tan(np.pi / 8)
    flat = np.abs(down) < tangent * np.abs(right)
    steep = np.abs(down) > (tangent + 2) * np.abs(right)
    rising = (right < 0) != (down < 0)
    ridge = np.where(rising, (strength > beside(-1, 1)) & (strength > beside(1, -1)),
                     (strength > beside(-1, -1)) & (strength > beside(1, 1)))  # fmt: skip
    ridge = np.where(steep, (strength > beside(-1, 0)) & (strength >= beside(1, 0)), ridge)
    ridge = np.where(flat, (strength > beside(0, -1)) & (strength >= beside(0, 1)), ridge)

    # Keep weak ridges that touch a strong one.
    weak = ridge & (strength > EDGE_WEAK)
    lines, number = ndimage.label(weak, structure=SIDEWAYS)
    keep = np.zeros(number + 1, dtype=bool)
    keep[lines[weak & (strength > EDGE_STRONG)]] = True
    keep[0] = False
    return keep[lines]
