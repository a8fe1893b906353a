"""The registry of corruptions: one decorated function each, with its strengths beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from midway._registry import Registered, Registry
from midway.data.corruptions.pixels import Bytes
from midway.data.corruptions.randomness import Draws

Purpose = Literal["benchmark", "tuning", "extra"]
Category = Literal["noise", "blur", "weather", "digital", "extra"]
Strength = tuple[float, ...]
Function = Callable[[Bytes, Strength, Draws], Bytes]
"""Images (n, H, W, C), the strength of one severity, the images' random numbers -> new images."""

SIZES = (32, 64, 224)
"""Image sides that strengths are published for: CIFAR-C, Tiny-ImageNet-C, ImageNet-C."""


@dataclass(eq=False)
class Corruption(Registered):
    """A registered corruption.

    Attributes: those of ``corruption``, with a table of strengths per size; ``function``, the corruption itself.
    """

    purpose: Purpose
    category: Category
    strengths: Mapping[int, tuple[Strength, ...]]

    def strength(self, size: int, severity: int) -> Strength:
        """Return the strength for a published image side, or for the nearest side that this corruption defines."""
        return self.strengths[min(self.strengths, key=lambda side: abs(side - size))][severity - 1]


REGISTRY: Registry[Corruption] = Registry("corruption", group="corruptions", package="midway.data.corruptions")


def corruption(
    *,
    strengths: Mapping[int, Sequence[float | Strength]] | Sequence[float | Strength],
    purpose: Purpose = "extra",
    category: Category = "extra",
    name: str | None = None,
) -> Callable[[Function], Function]:
    """Register a function as a corruption; other packages list its module as an entry point in ``midway.corruptions``.

    Args:
        strengths: Five values, for severities 1 to 5; or a mapping from image sides (32, 64, 224) to five values each,
            in which case other sides use the nearest one. A value is a number or a tuple of numbers and is passed to
            the function as a tuple.
        purpose: ``"benchmark"`` for the fifteen of reported results (``all`` in scenarios), ``"tuning"`` for the four
            of hyperparameter searches (``tuning``), ``"extra"`` for all others.
        category: The archive of ImageNet-C that contains it.
        name: Default: the name of the function.

    Example:
        >>> import midway, numpy as np
        >>> @midway.data.corruption(strengths=[0.9, 0.7, 0.5, 0.3, 0.1])
        ... def darkness(images, strength, draws):
        ...     return (images * strength[0]).astype(np.uint8)
        >>> midway.corrupt(np.full((1, 8, 8, 3), 200, np.uint8), "darkness", severity=3).max()
        np.uint8(100)
        >>> from midway.data.corruptions import REGISTRY
        >>> REGISTRY.remove("darkness")
    """
    by_size = strengths if isinstance(strengths, Mapping) else {SIZES[0]: strengths}
    table = {
        size: tuple(value if isinstance(value, tuple) else (value,) for value in values)
        for size, values in by_size.items()
    }

    def register(function: Function) -> Function:
        title = name or function.__name__
        if not table or not set(table) <= set(SIZES) or any(len(values) != 5 for values in table.values()):
            raise ValueError(
                f"strengths of {title} must be five values, for severities 1 to 5, or a mapping from image sides "
                "(32, 64, 224) to five values each."
            )
        for argument, value, valid in (("purpose", purpose, Purpose), ("category", category, Category)):
            if value not in get_args(valid):
                raise ValueError(f"{argument} of {title} must be one of {', '.join(get_args(valid))}, got {value!r}.")
        REGISTRY.add(title, Corruption(title, function, purpose, category, table))
        return function

    return register


def corruption_names(purpose: Purpose | None = None) -> tuple[str, ...]:
    """Return the names of the corruptions for a purpose in the published order; of all by default.

    Example:
        >>> from midway.data import corruption_names
        >>> corruption_names("tuning"), len(corruption_names("benchmark"))
        (('speckle_noise', 'gaussian_blur', 'spatter', 'saturate'), 15)
    """
    purposes, categories = get_args(Purpose), get_args(Category)
    known = [each for each in REGISTRY.values() if purpose in (None, each.purpose)]
    known.sort(key=lambda each: (purposes.index(each.purpose), categories.index(each.category)))
    return tuple(each.name for each in known)


def shift_title(name: str) -> str:
    """Return the name of a corruption or a domain as plain words.

    Example:
        >>> shift_title("jpeg_compression")
        'JPEG compression'
    """
    return name.replace("_", " ").replace("jpeg", "JPEG")


def closest_size(height: int, width: int) -> int:
    """Return the published side nearest to the shorter side of an image."""
    return min(SIZES, key=lambda side: abs(side - min(height, width)))
