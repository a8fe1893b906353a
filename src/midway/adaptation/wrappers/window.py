"""Window: single images, predicted and adapted to with the images before them."""

from __future__ import annotations

import torch
from torch import Tensor

from midway.adaptation.batch_norm.statistics import uses_batch_statistics
from midway.adaptation.classifier import AdaptiveClassifier
from midway.adaptation.wrappers import Wrapper, register_wrapper

IMAGES = 16


@register_wrapper
class Window(Wrapper):
    """Gives a method single images in a sliding window, for streams that have no batches.

    The window fills image by image; then each image overwrites the oldest. Whenever all its images are new, the method
    adapts to the window. In between, the network predicts in its current state. In networks with batch statistics each
    prediction takes a pass over the window, in others over the image alone. Batches of several images are treated as
    single images in turn, so predictions do not depend on how a stream is divided. Methods that do not change the
    network (T3A, LAME, MEMO) gain nothing in a window: between updates it predicts like the source.

    Protocol: the single-sample setting of Marsden et al., WACV 2024.

    Args:
        method: The method to wrap. It is copied, never changed.
        size: Images in the window.

    Example:
        >>> import midway, torch
        >>> adapted = midway.Window(midway.Tent(midway.models.create("resnet20")), size=4)
        >>> images = torch.rand(10, 3, 32, 32)
        >>> torch.cat([adapted(image) for image in images.split(1)]).shape, adapted.diagnostics["updates"]
        (torch.Size([10, 10]), 2)
    """

    def __init__(self, method: AdaptiveClassifier, *, size: int = IMAGES) -> None:
        super().__init__(method)
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}.")
        self.size = size
        self.images: Tensor | None = self.add_state("images", None)
        self.pointer = self.add_state("pointer", 0)

    @property
    def takes_batches(self) -> bool:
        """False: the window is the batch, whenever the method adapts to it."""
        return False

    def step(self, images: Tensor) -> Tensor:
        """Predict image by image; adapt whenever the whole window is new."""
        return torch.cat([self._predict(image) for image in images.split(1)])

    def _predict(self, image: Tensor) -> Tensor:
        before = self.images, self.pointer
        window = self._moved(image)
        row = self.pointer
        self.pointer = (row + 1) % self.size
        if self.pointer == 0:
            logits = self.method.adapt_to(window)[row : row + 1].detach()
            self.count("updates")
        elif uses_batch_statistics(self.model):
            logits = self.method.network_logits(window)[row : row + 1]
        else:
            logits = self.method.network_logits(image)
        if not bool(logits.isfinite().all()):  # an overflow would stay in the window for many images
            self.images, self.pointer = before
            self.count("images_left_out")
        return logits

    def _moved(self, image: Tensor) -> Tensor:
        """Put an image at the pointer and return the window; images of another size start a new one."""
        if self.images is None or self.images.shape[1:] != image.shape[1:]:
            self.images, self.pointer = image.clone(), 0
        elif len(self.images) < self.size:
            self.images = torch.cat([self.images, image])
        else:
            self.images = self.images.clone()  # a saved state may hold the old one
            self.images[self.pointer] = image[0]
        if self.images.ndim == 4:
            self.images = self.images.contiguous(memory_format=self.method.memory_format)
        return self.images
