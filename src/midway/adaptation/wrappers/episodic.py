"""Episodic: every batch starts from the source."""

from __future__ import annotations

from torch import Tensor

from midway.adaptation.wrappers import Wrapper, register_wrapper


@register_wrapper
class Episodic(Wrapper):
    """Resets a method before every batch, so no batch depends on earlier ones.

    A method that predicts before its only update then shows no effect of the update: ``Episodic(Tent(model))`` predicts
    like BN. Use ``predict="after"``, or several steps.

    Args:
        method: The method to wrap. It is copied, never changed.

    Example:
        >>> import midway, torch
        >>> adapted = midway.Episodic(midway.Tent(midway.models.create("resnet20"), predict="after"))
        >>> images = torch.rand(8, 3, 32, 32)
        >>> torch.equal(adapted(images), adapted(images))
        True
    """

    def step(self, images: Tensor) -> Tensor:
        """Reset, then adapt and predict; the counters of an inner wrapper continue."""
        self.method.reset(keep=("records",) if isinstance(self.method, Wrapper) else ())
        return self.method.step(images)
