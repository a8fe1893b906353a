"""DUA: dynamic unsupervised adaptation of normalisation (Mirza et al., CVPR 2022)."""

from __future__ import annotations

import itertools
import warnings

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from midway.adaptation.about import About
from midway.adaptation.base import Method
from midway.adaptation.batch_norm.image_statistics import Moments, UnsupportedError, statistics_by_image
from midway.adaptation.batch_norm.statistics import running_layers
from midway.adaptation.checks import check_range
from midway.adaptation.problem import Problem
from midway.adaptation.registry import register
from midway.adaptation.space import Choice, LogUniform, Uniform, preset_values, search_over
from midway.adaptation.views import CROP_NUMBERS, Crop, crops, draw, quarter_turns
from midway.sampling import Randomness

VALUES_PER_PASS = 800_000
"""Largest number of values in the copies that one pass processes."""


@register
class DUA(Method):
    """Updates the running statistics of BatchNorm layers image by image, with decaying momentum; no weight changes.

    Each image becomes a batch of randomly cropped and flipped copies. With ``rotate=True``, as published, they are also
    turned by random multiples of 90 degrees. The copies pass through the network with their own statistics, and the
    running statistics are updated towards these with momentum m_i = 0.1 * 0.94^i + 0.005. After the images of a batch,
    the prediction is f(x) with the running statistics.

    The statistics of the copies do not depend on the running statistics. Many images therefore share a pass, and their
    updates are computed in closed form, with the same result as one image at a time. The published code selects its
    best iteration by the test error, which needs labels; Midway uses the last one.

    Paper: Mirza et al., CVPR 2022.

    Args:
        model: The classifier to adapt; it needs BatchNorm layers.
        momentum: Start of the decaying part of the momentum (published: 0.1).
        decay: Factor of the decaying part per image (published: 0.94).
        floor: Constant part of the momentum (published: 0.005).
        copies: Copies per image (published: 64).
        images: Number of images to adapt to after a reset, None for all (published: 80). A pass over 64 copies of each
            image is expensive, and the momenta of later images are near the floor.
        crop: ``"pad"`` by 4 pixels (published), ``"resize"`` a part; None resizes images of ImageNet's size, where a
            shift by 4 pixels hardly matters, and pads smaller ones.
        rotate: Turn each copy by 0, 90, 180 or 270 degrees at random (published: True; images that are not square by
            0 or 180). It hardly changes the predictions.
        seed: Seed of the copies.

    Attributes:
        supports_many_images: Whether several images share a pass; False once the network has not supported it.

    Example:
        >>> import midway, torch
        >>> adapted = midway.DUA(midway.models.create("resnet20"), copies=8, images=3)
        >>> adapted(torch.rand(4, 3, 32, 32)).shape, adapted.adapted_images
        (torch.Size([4, 10]), 3)
    """

    about = About(
        name="dua",
        title="DUA",
        colour="#cc6677",
        marker="p",
        paper="Mirza et al., CVPR 2022",
        paradigm="batch",
        adapts="BatchNorm statistics",
        predicts="after",
        passes="K + 1 F (K copies)",
        needs=("BatchNorm",),
    )
    uses_source_statistics = True
    search_space = search_over(
        momentum=LogUniform(0.01, 0.5),
        decay=Uniform(0.8, 0.99),
        floor=LogUniform(5e-4, 5e-2),
        images=Choice(25, 50, 100, 200),
    )

    published = preset_values(rotate=True, images=80, crop="pad")

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
        rotate: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(model)
        if not (momentum >= 0 and 0 <= decay <= 1 and floor >= 0 and momentum * decay + floor <= 1):
            raise ValueError(
                "momentum and floor must be 0 or more, decay at most 1, and momentum * decay + floor at most 1, "
                f"got {momentum}, {floor} and {decay}."
            )
        check_range(at_least=1, copies=copies)
        check_range(at_least=0, or_none=True, images=images)
        self.momentum, self.decay, self.floor = momentum, decay, floor
        self.copies, self.images, self.rotate = copies, images, rotate
        self.randomness = self.add_state("randomness", Randomness(seed))
        self.adapted_images = self.add_state("adapted_images", 0)
        self.supports_many_images = True
        if not any(isinstance(layer, _BatchNorm) for layer in running_layers(self.model)):
            self.images = 0
            warnings.warn(
                "DUA changes nothing: the model has no BatchNorm layer with running statistics. "
                "Use a method that adapts weights, such as tent.",
                stacklevel=4,
            )

    @property
    def adapts_to(self) -> int | None:
        """The number of images after a reset that the method adapts to."""
        return self.images

    @classmethod
    def defaults_for(cls, problem: Problem) -> dict[str, Crop]:
        """Return the published crop, or for images of ImageNet's size one that changes them as much."""
        return {"crop": "resize" if problem.is_imagenet_size else "pad"}

    @torch.no_grad()
    def step(self, images: Tensor) -> Tensor:
        """Update the running statistics image by image and return f(x)."""
        self.resolve(images)
        left = len(images) if self.images is None else min(len(images), self.images - self.adapted_images)
        numbers = draw(left, self.copies, self.randomness.on(torch.device("cpu")), CROP_NUMBERS + self.rotate)
        size = max(1, VALUES_PER_PASS // (self.copies * images[0].numel())) if self.supports_many_images else 1
        start = 0
        while start < left:
            some = slice(start, min(start + size, left))
            try:
                self._update_statistics(images[some], numbers[some])
            except UnsupportedError:
                self.supports_many_images, size = False, 1
                continue
            start = some.stop
        return self.network_logits(images)

    def _update_statistics(self, images: Tensor, numbers: Tensor) -> None:
        """Update the running statistics with some images, in order."""
        copies = crops(images, numbers, self.hyperparameters["crop"])
        if self.rotate:
            copies = quarter_turns(copies, numbers[..., CROP_NUMBERS].to(copies.device))
        copies = copies.flatten(0, 1)
        copies = copies.contiguous(memory_format=self.memory_format)
        with statistics_by_image(self.model, len(images), source_share=0) as seen:
            self.model(copies)
        momenta = [self.momentum * self.decay ** (self.adapted_images + i + 1) + self.floor for i in range(len(images))]
        finite = torch.ones(len(images), dtype=torch.bool, device=images.device)
        for moments in itertools.chain(*seen.values()):  # other values would stay in the running statistics
            finite &= moments.finite
        self.count("images_left_out", int((~finite).sum()))
        used = [momentum for momentum, good in zip(momenta, finite.tolist(), strict=True) if good]
        for name, uses in seen.items():
            good = [Moments(mean[finite], variance[finite], values) for mean, variance, values in uses]
            update_running_statistics(self.model.get_submodule(name), good, used)
        self.adapted_images += len(images)


def update_running_statistics(layer: nn.Module, uses: list[Moments], momenta: list[float]) -> None:
    """Update a layer's running statistics with images one after the other, r <- (1 - m_i) r + m_i s_i, in closed form.

    Unrolled over k updates, r_k = r_0 prod_i (1 - m_i) + sum_i s_i m_i prod_{j > i} (1 - m_j): one weighted sum. As in
    training, the variance is the unbiased estimate, and a layer that runs several times is updated each time.
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
