"""The memory of NOTE: a sample of a stream that is balanced over the predicted classes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import Tensor

from midway.sampling import Randomness


class ReservoirMemory:
    """PBRS, prediction-balanced reservoir sampling: few images of a stream, about equally many of each class.

    If the memory is full, an image of another class replaces one of the largest class. An image of a largest class
    replaces one of its own class with probability (stored of that class) / (seen of that class), as in reservoir
    sampling.
    """

    def __init__(self, capacity: int, randomness: Randomness, *, balanced: bool = True) -> None:
        self.capacity, self.randomness, self.balanced = capacity, randomness, balanced
        self.images: list[Tensor] = []
        self.classes: list[int] = []
        self.seen: Counter[int] = Counter()

    def add(self, image: Tensor, label: int) -> None:
        """Offer an image with its predicted class to the memory."""
        self.seen[label] += 1
        if len(self.images) < self.capacity:
            self.images.append(image)
            self.classes.append(label)
            return
        index = self._replaced(label) if self.balanced else 0
        if index is not None:
            del self.images[index], self.classes[index]
            self.images.append(image)
            self.classes.append(label)

    def _replaced(self, label: int) -> int | None:
        """Return the index of the image that a new one of this class replaces; None if the new one is not stored."""
        stored = Counter(self.classes)
        largest = sorted(each for each, count in stored.items() if count == max(stored.values()))
        if label not in largest:
            label = largest[self._draw(len(largest))]
        elif self._uniform() > stored[label] / self.seen[label]:
            return None
        same = [index for index, each in enumerate(self.classes) if each == label]
        return same[self._draw(len(same))]

    def _draw(self, count: int) -> int:
        return int(torch.randint(count, (), generator=self.randomness.on(torch.device("cpu"))))

    def _uniform(self) -> float:
        return float(torch.rand((), generator=self.randomness.on(torch.device("cpu")), dtype=torch.float32))

    def state_dict(self) -> dict[str, Any]:
        """Return copies of the images, their classes, and how many of each class were seen."""
        images = [image.clone() for image in self.images]
        return {"images": images, "classes": list(self.classes), "seen": dict(self.seen)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load what ``state_dict`` returned."""
        self.images, self.classes = list(state["images"]), list(state["classes"])
        self.seen = Counter(state["seen"])
