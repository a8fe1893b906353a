"""Mirrored: the predictions for an image and for its mirror image, averaged."""

from __future__ import annotations

from torch import Tensor

from midway.adaptation.base import Method
from midway.adaptation.classifier import AdaptiveClassifier
from midway.adaptation.wrappers import Wrapper, register_wrapper
from midway.functional import log_mean_softmax


@register_wrapper
class Mirrored(Wrapper):
    """Averages the probabilities of each image and of its mirror image, at the cost of one more forward pass.

    The method adapts to the images as usual. Its network then predicts the mirror images in the state after the step.
    MITA predicts those of its adapted images. Methods that do not change the network (T3A, LAME, MEMO) predict mirror
    images like the source. Do not use it where mirroring changes the label (digits, text, left and right).
    ``midway.adapt(model, "bn", views="mirror")`` is the same.

    Args:
        method: The method to wrap. It is copied, never changed.

    Example:
        >>> import midway, torch
        >>> adapted, images = midway.Mirrored(midway.BN(midway.models.create("resnet20"))), torch.rand(8, 3, 32, 32)
        >>> torch.allclose(adapted(images), adapted(images.flip(-1)), atol=1e-4)
        True
    """

    method: Method  # wrappers are refused

    def __init__(self, method: AdaptiveClassifier) -> None:
        super().__init__(method)
        if isinstance(method, Wrapper):
            name = type(method).__name__
            raise ValueError(f"Mirrored cannot wrap {name}: mirror the method in it, {name}(Mirrored(method)).")

    @property
    def adapts_to(self) -> int | None:
        """The number of images that the method adapts to."""
        return self.method.adapts_to

    def network_logits(self, images: Tensor) -> Tensor:
        """Return the mean of the network's predictions for the images and for their mirror images."""
        return log_mean_softmax([self.method.network_logits(each) for each in (images, images.flip(-1))])

    def step(self, images: Tensor) -> Tensor:
        """Adapt and predict, predict the mirror images, and return the logarithm of the mean probabilities."""
        return self.method.mirrored_step(images)
