"""Mirrored: the answers to an image and to its mirror image, averaged."""

from __future__ import annotations

from torch import Tensor

from midway.adaptation.wrappers import Wrapper, register_wrapper


@register_wrapper
class Mirrored(Wrapper):
    """Averages the probabilities of each image and of its mirror image, for one forward pass more.

    The method adapts to the images as usual. Then its network, in the state after that, answers the mirror images; MITA
    answers those of the images it has adapted. Do not use it where mirroring changes the label (digits, text, left and
    right). ``midway.adapt(model, "bn", views="mirror")`` is the same.

    Args:
        method: The method to wrap. It is copied, never changed.

    Example:
        >>> import midway, torch
        >>> adapted, images = midway.Mirrored(midway.BN(midway.models.create("resnet20"))), torch.rand(8, 3, 32, 32)
        >>> torch.allclose(adapted(images), adapted(images.flip(-1)), atol=1e-4)
        True
    """

    def step(self, images: Tensor) -> Tensor:
        """Adapt and predict, predict the mirror images, and return the logarithm of the mean probabilities."""
        return self.method.mirrored_step(images)
