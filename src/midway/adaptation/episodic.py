"""Episodic: every batch meets the source."""

from __future__ import annotations

from torch import Tensor

from midway.adaptation.base import Method
from midway.adaptation.wrappers import Wrapper


class Episodic(Wrapper):
    """Resets a method before every batch, so that no batch depends on those before it.

    Nothing is carried over: a bad batch harms itself alone, and nothing learnt from a good one helps the next. A method
    that answers from before its only update shows nothing of it then: ``Episodic(Tent(model))`` answers like BN. Give
    it ``predict="after"``, or several steps.

    Args:
        method: The method to wrap. It is copied, never changed.

    Example:
        >>> import midway, torch
        >>> adapted = midway.Episodic(midway.Tent(midway.models.create("resnet20"), predict="after"))
        >>> images = torch.rand(8, 3, 32, 32)
        >>> torch.equal(adapted(images), adapted(images))
        True
        >>> adapted
        Episodic(Tent(CifarResNet, optimizer='adam', lr=0.001, betas=(0.9, 0.999), steps=1, predict='after'))
    """

    def __init__(self, method: Method) -> None:
        super().__init__(method)

    def step(self, images: Tensor) -> Tensor:
        """Forget everything, then adapt and answer."""
        events = dict(self.method.events) if isinstance(self.method, Wrapper) else {}
        self.method.reset()
        if isinstance(self.method, Wrapper):
            self.method.events |= events  # what it counted is no part of what it learnt
        return self.method.step(images)
