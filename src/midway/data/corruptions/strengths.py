"""The published strengths: corruption -> image side (32, 64, 224) -> severity 1 to 5.

From the generators of CIFAR-10-C, Tiny-ImageNet-C and ImageNet-C (Hendrycks and Dietterich, ICLR 2019). The 64 px
strengths of the four tuning corruptions are those of the Tiny-ImageNet-C generator too, none is interpolated.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

Strength = tuple[float, ...]
Severities = tuple[Strength, Strength, Strength, Strength, Strength]

STRENGTH_SETS = (32, 64, 224)

# ImageNet-C scales its elastic transform by 244, not by its image side 224.
IMAGENET_STRETCH = 244 / 224


def _single(a: float, b: float, c: float, d: float, e: float) -> Severities:
    return (a,), (b,), (c,), (d,), (e,)


_STRENGTHS: dict[str, dict[int, Severities]] = {
    # standard deviation
    "gaussian_noise": {
        32: _single(0.04, 0.06, 0.08, 0.09, 0.10),
        64: _single(0.04, 0.08, 0.12, 0.15, 0.18),
        224: _single(0.08, 0.12, 0.18, 0.26, 0.38),
    },
    # Poisson events at full white
    "shot_noise": {
        32: _single(500, 250, 100, 75, 50),
        64: _single(250, 100, 50, 30, 15),
        224: _single(60, 25, 12, 5, 3),
    },
    # share of values turned to salt or pepper
    "impulse_noise": {
        32: _single(0.01, 0.02, 0.03, 0.05, 0.07),
        64: _single(0.01, 0.02, 0.05, 0.08, 0.14),
        224: _single(0.03, 0.06, 0.09, 0.17, 0.27),
    },
    # disk radius in pixels, sigma of the blur that softens the disk
    "defocus_blur": {
        32: ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
        64: ((0.5, 0.6), (1, 0.1), (1.5, 0.1), (2.5, 0.01), (3, 0.1)),
        224: ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    },
    # sigma in pixels, largest move in pixels, iterations
    "glass_blur": {
        32: ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
        64: ((0.1, 1, 1), (0.5, 1, 1), (0.6, 1, 2), (0.7, 2, 1), (0.9, 2, 2)),
        224: ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    },
    # radius, sigma in pixels
    "motion_blur": {
        32: ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
        64: ((10, 1), (10, 1.5), (10, 2), (10, 2.5), (12, 3)),
        224: ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
    },
    # zoom factors: first one left out, step
    "zoom_blur": {
        32: ((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
        64: ((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
        224: ((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
    },
    # layer mean, layer sd, zoom, threshold, streak radius, streak sigma, share of the image kept
    "snow": {
        32: (
            (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
        ),
        64: (
            (0.1, 0.2, 1, 0.6, 8, 3, 0.8),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.8),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.7),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.65),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.6),
        ),
        224: (
            (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
            (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
            (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
            (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
            (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
        ),
    },
    # image weight, frost weight, scale of the overlay photograph
    "frost": {
        32: ((1, 0.2, 0.2), (1, 0.3, 0.2), (0.9, 0.4, 0.2), (0.85, 0.4, 0.2), (0.75, 0.45, 0.2)),
        64: ((1, 0.3, 0.3), (0.9, 0.4, 0.3), (0.8, 0.45, 0.3), (0.75, 0.5, 0.3), (0.7, 0.55, 0.3)),
        224: ((1, 0.4, 1), (0.8, 0.6, 1), (0.7, 0.7, 1), (0.65, 0.7, 1), (0.6, 0.75, 1)),
    },
    # amount, wibble decay of the plasma fractal
    "fog": {
        32: ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
        64: ((0.4, 3), (0.7, 3), (1, 2.5), (1.5, 2), (2, 1.75)),
        224: ((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
    },
    # added to the HSV value
    "brightness": {
        32: _single(0.05, 0.1, 0.15, 0.2, 0.3),
        64: _single(0.1, 0.2, 0.3, 0.4, 0.5),
        224: _single(0.1, 0.2, 0.3, 0.4, 0.5),
    },
    # factor round the mean
    "contrast": {
        32: _single(0.75, 0.5, 0.4, 0.3, 0.15),
        64: _single(0.4, 0.3, 0.2, 0.1, 0.05),
        224: _single(0.4, 0.3, 0.2, 0.1, 0.05),
    },
    # displacement, its smoothing sigma, affine jitter, all in sides; what a side is times
    "elastic_transform": {
        32: ((0, 0, 0.08, 1), (0.05, 0.2, 0.07, 1), (0.08, 0.06, 0.06, 1), (0.1, 0.04, 0.05, 1), (0.1, 0.03, 0.03, 1)),
        64: ((0, 0, 0.08, 1), (0.05, 0.3, 0.06, 1), (0.1, 0.08, 0.06, 1), (0.1, 0.03, 0.03, 1), (0.16, 0.03, 0.02, 1)),
        224: (
            (2, 0.7, 0.1, IMAGENET_STRETCH),
            (2, 0.08, 0.2, IMAGENET_STRETCH),
            (0.05, 0.01, 0.02, IMAGENET_STRETCH),
            (0.07, 0.01, 0.02, IMAGENET_STRETCH),
            (0.12, 0.01, 0.02, IMAGENET_STRETCH),
        ),
    },
    # shrink factor
    "pixelate": {
        32: _single(0.95, 0.9, 0.85, 0.75, 0.65),
        64: _single(0.9, 0.8, 0.7, 0.6, 0.5),
        224: _single(0.6, 0.5, 0.4, 0.3, 0.25),
    },
    # quality
    "jpeg_compression": {
        32: _single(80, 65, 58, 50, 40),
        64: _single(65, 58, 50, 40, 25),
        224: _single(25, 18, 15, 10, 7),
    },
    # standard deviation at full white
    "speckle_noise": {
        32: _single(0.06, 0.1, 0.12, 0.16, 0.2),
        64: _single(0.15, 0.2, 0.25, 0.3, 0.35),
        224: _single(0.15, 0.2, 0.35, 0.45, 0.6),
    },
    # sigma in pixels
    "gaussian_blur": {
        32: _single(0.4, 0.6, 0.7, 0.8, 1),
        64: _single(0.5, 0.75, 1, 1.25, 1.5),
        224: _single(1, 2, 3, 4, 6),
    },
    # layer mean, layer sd, layer sigma, threshold, strength (water) or edge sigma (mud), mud (1) or water (0)
    "spatter": {
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
    # HSV saturation times, plus
    "saturate": {
        32: ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
        64: ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (30, 0.2)),
        224: ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),
    },
}

STRENGTHS: Mapping[str, Mapping[int, Severities]] = MappingProxyType(
    {name: MappingProxyType(sets) for name, sets in _STRENGTHS.items()}
)


def closest_set(height: int, width: int) -> int:
    """Return the strength set for images of this size, by the shorter side: to 48 the 32, to 144 the 64, else the 224.

    Example:
        >>> from midway.data.corruptions.strengths import closest_set
        >>> closest_set(28, 28), closest_set(96, 128), closest_set(224, 300)
        (32, 64, 224)
    """
    side = min(height, width)
    if side <= 48:
        return 32
    return 64 if side <= 144 else 224
