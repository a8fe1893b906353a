"""A memory of test images that is balanced over the predicted classes (RoTTA, Yuan et al., CVPR 2023)."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass
class _Item:
    image: Tensor
    label: int
    uncertainty: float
    age: int = 0


class BalancedMemory:
    """Keeps certain and recent images, about equally many of each predicted class.

    Every class has a quota, the capacity divided by the number of classes, not rounded. An image of a class below its
    quota is added if the memory has space, and otherwise competes with the images of the largest classes. An image of a
    class at its quota always competes with those of its class. The new image replaces the one with the largest score,
    1 / (1 + exp(-age / capacity)) + uncertainty, if its own score is lower. All ages grow by one with every image,
    stored or not. An image whose uncertainty is not finite is not stored.

    Example:
        >>> import torch
        >>> from midway.adaptation.balanced_memory import BalancedMemory
        >>> memory = BalancedMemory(capacity=4)
        >>> for uncertainty in (0.5, 0.9, 0.1):
        ...     memory.add(torch.rand(3, 8, 8), label=0, uncertainty=uncertainty, classes=2)
        >>> len(memory), [item.uncertainty for item in memory.items]
        (2, [0.5, 0.1])
    """

    def __init__(self, capacity: int = 64) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}.")
        self.capacity = capacity
        self.items: list[_Item] = []

    def __len__(self) -> int:
        return len(self.items)

    def add(self, image: Tensor, *, label: int, uncertainty: float, classes: int) -> None:
        """Offer an image with its predicted class and its entropy as a share of ln C; then all are one image older."""
        if self.items and self.items[0].image.shape != image.shape:
            self.items.clear()  # images of several sizes do not form a batch
        if math.isfinite(uncertainty) and self._makes_room(label, uncertainty, classes):
            self.items.append(_Item(image.detach().clone(), label, uncertainty))
        for item in self.items:
            item.age += 1

    def images(self) -> Tensor:
        """Return the stored images, (N, C, H, W)."""
        return torch.stack([item.image for item in self.items])

    def ages(self) -> list[float]:
        """Return the ages of the stored images, in multiples of the capacity."""
        return [item.age / self.capacity for item in self.items]

    def _makes_room(self, label: int, uncertainty: float, classes: int) -> bool:
        """Decide whether an image is stored, and remove the one that it replaces."""
        counts = Counter(item.label for item in self.items)
        if counts[label] < self.capacity / classes:
            if len(self) < self.capacity:
                return True
            challenged = {each for each, count in counts.items() if count == max(counts.values())}
        else:
            challenged = {label}
        rivals = sorted((item for item in self.items if item.label in challenged), key=lambda item: item.label)
        worst = max(reversed(rivals), key=self._score)  # of equal scores the last
        if self._score(worst) <= self._score(_Item(worst.image, label, uncertainty)):
            return False
        self.items = [item for item in self.items if item is not worst]
        return True

    def _score(self, item: _Item) -> float:
        return 1 / (1 + math.exp(-item.age / self.capacity)) + item.uncertainty

    def state_dict(self) -> dict[str, Any]:
        """Return the stored images with their classes, uncertainties and ages."""
        return {
            "images": self.images() if self.items else None,
            "labels": [item.label for item in self.items],
            "uncertainties": [item.uncertainty for item in self.items],
            "ages": [item.age for item in self.items],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load what ``state_dict`` returned."""
        images = [] if state["images"] is None else state["images"].clone().unbind()
        values = zip(images, state["labels"], state["uncertainties"], state["ages"], strict=True)
        self.items = [_Item(*each) for each in values]
