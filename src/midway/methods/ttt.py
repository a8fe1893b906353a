"""TTT: test-time training with rotation prediction (Sun et al., ICML 2020)."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from midway.adaptation.about import About
from midway.adaptation.auxiliary import AuxiliaryHead, parameters_behind
from midway.adaptation.base import Method
from midway.adaptation.checks import check_range
from midway.adaptation.parameters import freeze_all_but
from midway.adaptation.problem import Problem
from midway.adaptation.registry import register
from midway.adaptation.space import Choice, LogUniform, preset_values, search_over
from midway.adaptation.views import CROP_NUMBERS, Crop, crops, draw, quarter_turns
from midway.functional import at_least_float32
from midway.sampling import Randomness

Trainable = Literal["shared", "branch"]
Rotations = Literal["each", "random"]


def rotation_labels(numbers: Tensor, *, square: bool) -> Tensor:
    """Return the quarter turns that uniform numbers select: 0 to 3, or 0 and 2 for images that are not square."""
    return (4 * numbers).long() if square else 2 * (2 * numbers).long()


@register
class TTT(Method):
    """Adapts the features that two heads share by a task without labels: predicting how an image was rotated.

    The network was trained with a second head that predicts rotations by 0, 90, 180 and 270 degrees. SGD minimises the
    cross-entropy of this head on rotated copies of the test images; the prediction is f(x) of the plain images
    afterwards. Online, the weights are kept for the next images (one step for each group of images). Otherwise, every
    group starts from the source (ten steps). BatchNorm layers keep the source's statistics.

    Paper: Sun et al., ICML 2020.

    Args:
        model: The classifier to adapt; it needs a rotation head, as ``models.load("wrn16_2_rotation.cifar10")`` has.
        auxiliary: The rotation head: the name of a method of the model from images to the logits of 0, 90, 180 and 270
            degrees, anticlockwise as in ``torch.rot90``.
        online: Keep the adapted weights (TTT-Online), or start from the source for each group of images (TTT).
        lr: Step size of SGD, as published.
        steps: Steps for each group of images; None: 1 online, else 10 (published).
        images_per_step: Images in a group, which share their steps (published: 1); larger groups take less time.
        copies: Copies of each image per step, cropped, flipped and turned at random (published: 32).
        rotations: ``"each"`` turns the copies by 0, 90, 180, 270 degrees in order, ``"random"`` by a random one of
            these (published).
        trainable: ``"shared"``, the weights in front of both heads (the paper), or ``"branch"``, those of the rotation
            head too (its published code).
        crop: ``"pad"`` by 4 pixels (published) or ``"resize"`` a part; None chooses by image size.
        seed: Seed of the copies.

    Example:
        >>> import midway, torch
        >>> adapted = midway.TTT(midway.models.create("wrn16_2_rotation"), images_per_step=2)
        >>> adapted(torch.rand(4, 3, 32, 32)).shape, adapted.hyperparameters["steps"]
        (torch.Size([4, 10]), 1)
        >>> class Pair(torch.nn.Module):  # any network with two heads
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten())
        ...         self.classes, self.turns = torch.nn.Linear(7200, 10), torch.nn.Linear(7200, 4)
        ...     def forward(self, images):
        ...         return self.classes(self.body(images))
        ...     def turned_by(self, images):
        ...         return self.turns(self.body(images))
        >>> adapted = midway.TTT(Pair(), auxiliary="turned_by")
        >>> adapted.num_trainable()  # the convolution
        224
    """

    about = About(
        name="ttt",
        title="TTT",
        colour="#5d6d00",
        marker="h",
        paper="Sun et al., ICML 2020",
        paradigm="instance",
        adapts="weights before the rotation head",
        predicts="after",
        passes="N K + 1 F, N K B (N steps, K copies)",
        needs=("rotation head",),
        aligns_each_image=True,
    )
    uses_source_statistics = True
    search_space = search_over(lr=LogUniform(1e-4, 1e-1), images_per_step=Choice(1, 2, 4, 8, 16, 32))
    published = preset_values(online=False, copies=32, rotations="random", trainable="branch", crop="pad")

    def __init__(
        self,
        model: nn.Module,
        *,
        auxiliary: str = "rotation_logits",
        online: bool = True,
        lr: float = 0.001,
        steps: int | None = None,
        images_per_step: int = 1,
        copies: int = 4,
        rotations: Rotations = "each",
        trainable: Trainable = "shared",
        crop: Crop | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model)
        check_range(at_least=0, lr=lr)
        check_range(at_least=1, images_per_step=images_per_step, copies=copies)
        check_range(at_least=1, or_none=True, steps=steps)
        if steps is None:
            self.resolved["steps"] = 1 if online else 10
        self.online, self.images_per_step, self.copies, self.rotations = online, images_per_step, copies, rotations
        self.auxiliary = AuxiliaryHead(self.model, auxiliary, outputs=4, task="rotation")
        both = parameters_behind(self.model, self.auxiliary)
        self.trainable = freeze_all_but(self.model, both.shared if trainable == "shared" else both.branch)
        self.optimizer = self.add_state("optimizer", torch.optim.SGD(self.trainable, lr=lr))
        self.randomness = self.add_state("randomness", Randomness(seed))

    @classmethod
    def defaults_for(cls, problem: Problem) -> dict[str, Any]:
        """Return the published crop, or for images of ImageNet's size one that changes them as much."""
        return {"crop": "resize" if problem.is_imagenet_size else "pad"}

    def step(self, images: Tensor) -> Tensor:
        """Learn the rotations of some images at a time and return f(x)."""
        self.resolve(images)
        generator = self.randomness.on(torch.device("cpu"))
        numbers = draw(len(images), self.hyperparameters["steps"] * self.copies, generator, CROP_NUMBERS + 1)
        groups = zip(images.split(self.images_per_step), numbers.split(self.images_per_step), strict=True)
        return torch.cat([self._adapt(few, drawn) for few, drawn in groups])

    def _adapt(self, images: Tensor, numbers: Tensor) -> Tensor:
        """Take the steps on a group of images and return its logits."""
        source = None if self.online else [parameter.detach().clone() for parameter in self.trainable]
        losses = []
        for drawn in numbers.split(self.copies, dim=1):
            loss = self.rotation_loss(images, drawn)
            self.optimizer_step(loss, self.optimizer)
            losses.append(loss.item())
        self.record(rotation_loss=losses[0], rotation_loss_after=losses[-1])
        logits = self.network_logits(images)
        if source is not None:
            with torch.no_grad():
                for parameter, values in zip(self.trainable, source, strict=True):
                    parameter.copy_(values)
        return logits

    def rotation_loss(self, images: Tensor, numbers: Tensor) -> Tensor:
        """Return the mean cross-entropy of the rotations of copies, which uniform numbers (N, copies, 6) determine."""
        turns = numbers[..., CROP_NUMBERS]
        if self.rotations == "each":
            turns = ((torch.arange(self.copies) % 4 + 0.5) / 4).expand_as(turns)
        copies = crops(images, numbers, self.hyperparameters["crop"])
        turned = quarter_turns(copies, turns.to(copies.device)).flatten(0, 1)
        labels = rotation_labels(turns.flatten(), square=images.shape[2] == images.shape[3]).to(images.device)
        logits = self.auxiliary(turned.contiguous(memory_format=self.memory_format))
        return F.cross_entropy(at_least_float32(logits), labels)
