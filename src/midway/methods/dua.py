"""DUA: dynamic unsupervised adaptation of normalisation (Mirza et al., CVPR 2022)."""

from __future__ import annotations

import itertools
import warnings

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from midway.adaptation.base import About, Method
from midway.adaptation.normalization import running_layers
from midway.adaptation.per_image import Moments, UnsuitedError, statistics_by_image
from midway.adaptation.problem import Problem
from midway.adaptation.space import Choice, LogUniform, Uniform, search_over
from midway.adaptation.views import CROP_NUMBERS, Crop, crops, draw
from midway.sampling import Randomness

NUMBERS_AT_ONCE = 800_000
"""Values in the copies of the images that one pass takes."""


class DUA(Method):
    """Running statistics of BatchNorm layers follow the images one by one, in ever smaller steps; no weight moves.

    Each image becomes a batch of randomly cropped and flipped copies. These pass through the network normalised by
    their own statistics, and the running statistics move towards those with momentum m_i = 0.1 * 0.94^i + 0.005. After
    the images of a batch, the answer is f(x) with the running statistics.

    The copies' statistics do not depend on the running ones, so many images pass at once and their moves follow in
    closed form: the same as one image at a time. Labels choose nothing: the published code keeps its best iteration by
    the test error, this one the last.

    Paper: Mirza et al., CVPR 2022.

    Args:
        model: The classifier to adapt; it needs BatchNorm layers.
        momentum: Start of the decaying part of the momentum (published: 0.1).
        decay: What each image multiplies it with (published: 0.94).
        floor: Constant part of the momentum (published: 0.005).
        copies: Copies an image (published: 64).
        images: How many images since the last reset to adapt to: a pass over 64 copies each is dear, and after the
            first hundred all momenta are near the floor (published: 1 % of the test set, 100 images of CIFAR-10-C);
            None adapts to every image.
        crop: ``"pad"`` by 4 pixels (published for CIFAR) or ``"resize"`` a part of the image (ImageNet); None chooses
            by the size of the images.
        seed: Seed of the copies.

    Example:
        >>> import midway, torch
        >>> adapted = midway.DUA(midway.models.create("resnet20"), copies=8, images=3)
        >>> adapted(torch.rand(4, 3, 32, 32)).shape
        torch.Size([4, 10])
        >>> adapted.adapted_images
        3
    """

    about = About(
        name="dua",
        title="DUA",
        colour="#cc6677",
        marker="p",
        paper="Mirza et al., CVPR 2022",
        paradigm="batch",
        moves="BatchNorm statistics",
        answers="after",
        passes="K + 1 F (K copies)",
        needs=("BatchNorm",),
    )
    evolving = ("adapted_images", "randomness")
    uses_source_statistics = True
    search_space = search_over(
        momentum=LogUniform(0.01, 0.5),
        decay=Uniform(0.8, 0.99),
        floor=LogUniform(5e-4, 5e-2),
        images=Choice(25, 50, 100, 200),
    )

    def __init__(
        self,
        model: nn.Module,
        *,
        momentum: float = 0.1,
        decay: float = 0.94,
        floor: float = 0.005,
        copies: int = 64,
        images: int | None = 100,
        crop: Crop | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model)
        if not (momentum >= 0 and 0 <= decay <= 1 and floor >= 0 and momentum * decay + floor <= 1):
            raise ValueError(
                "momentum and floor must be 0 or more, decay at most 1, and momentum * decay + floor at most 1, "
                f"got {momentum}, {floor} and {decay}."
            )
        if copies < 1:
            raise ValueError(f"copies must be at least 1, got {copies}.")
        if images is not None and images < 0:
            raise ValueError(f"images must be 0 or more, or None for all, got {images}.")
        if crop not in (None, "pad", "resize"):
            raise ValueError(f"crop must be 'pad', 'resize' or None, got {crop!r}.")
        self.momentum, self.decay, self.floor = momentum, decay, floor
        self.copies, self.images = copies, images
        self.randomness = Randomness(seed)
        self.adapted_images = 0
        self._takes_many_images = True  # until the network shows otherwise
        if not any(isinstance(layer, _BatchNorm) for layer in running_layers(self.model)):
            self.images = 0
            warnings.warn(
                "DUA changes nothing here: the model has no BatchNorm layer with running statistics. "
                "Use a method that moves weights, such as tent.",
                stacklevel=4,
            )

    @property
    def adapts_to(self) -> int | None:
        """How many images after a reset it adapts to."""
        return self.images

    @classmethod
    def defaults_for(cls, problem: Problem) -> dict[str, Crop]:
        """Return how published code crops CIFAR's or ImageNet's images."""
        return {"crop": "resize" if problem.is_imagenet_size else "pad"}

    @torch.no_grad()
    def step(self, images: Tensor) -> Tensor:
        """Move the running statistics image by image and answer f(x)."""
        if self.hyperparameters["crop"] is None:
            self.settle(images, self.model(images[:2]))
        left = len(images) if self.images is None else min(len(images), self.images - self.adapted_images)
        numbers = draw(left, self.copies, self.randomness.on(torch.device("cpu")), CROP_NUMBERS)
        size = max(1, NUMBERS_AT_ONCE // (self.copies * images[0].numel())) if self._takes_many_images else 1
        start = 0
        while start < left:
            some = slice(start, min(start + size, left))
            try:
                self._follow(images[some], numbers[some])
            except UnsuitedError:
                self._takes_many_images, size = False, 1
                continue
            start = some.stop
        logits: Tensor = self.model(images)
        return logits

    def _follow(self, images: Tensor, numbers: Tensor) -> None:
        """Let the running statistics follow some images, in order."""
        copies = crops(images, numbers, self.hyperparameters["crop"]).flatten(0, 1)
        copies = copies.contiguous(memory_format=self.memory_format)
        with statistics_by_image(self.model, len(images), source_share=0) as seen:
            self.model(copies)
        momenta = [self.momentum * self.decay ** (self.adapted_images + i + 1) + self.floor for i in range(len(images))]
        sound = torch.ones(len(images), dtype=torch.bool, device=images.device)
        for moments in itertools.chain(*seen.values()):  # what is not finite would stay in the running statistics
            sound &= moments.finite
        self.count("images_left_out", int((~sound).sum()))
        followed = [momentum for momentum, good in zip(momenta, sound.tolist(), strict=True) if good]
        for name, uses in seen.items():
            good = [Moments(mean[sound], variance[sound], values) for mean, variance, values in uses]
            move_statistics(self.model.get_submodule(name), good, followed)
        self.adapted_images += len(images)


def move_statistics(layer: nn.Module, uses: list[Moments], momenta: list[float]) -> None:
    """Let a layer's running statistics follow images one after the other, r <- (1 - m_i) r + m_i s_i, in closed form.

    As in training, the variance is the unbiased estimate, and a layer that runs several times follows each time.

    Example:
        >>> import torch
        >>> from midway.methods.dua import move_statistics
        >>> from midway.adaptation.per_image import Moments
        >>> layer = torch.nn.BatchNorm1d(1)
        >>> move_statistics(layer, [Moments(torch.tensor([[4.0], [8.0]]), torch.ones(2, 1), 100)], [0.5, 0.5])
        >>> layer.running_mean  # 0 -> 2 -> 5
        tensor([5.])
    """
    if not isinstance(layer.running_mean, Tensor) or not isinstance(layer.running_var, Tensor):
        return
    rest, shares = 1.0, []
    for momentum in reversed([momentum for momentum in momenta for _ in uses]):
        shares.append(rest * momentum)
        rest *= 1 - momentum
    means = torch.stack([moments.mean for moments in uses], dim=1).flatten(0, 1)  # image by image, use by use
    variances = torch.stack([moments.unbiased_variance for moments in uses], dim=1).flatten(0, 1)
    weights = means.new_tensor(shares[::-1])
    layer.running_mean.mul_(rest).add_(weights @ means)
    layer.running_var.mul_(rest).add_(weights @ variances)
