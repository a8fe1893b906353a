"""UnMix-TNS: K components of statistics in each layer, matched by the image (Tomar et al., ICLR 2024).

A layer has K components with means M_k and variances V_k, (C,) each. They start around the source's statistics,

    M_k = mean + sqrt(K / (K - 1) / 2) sd e_k,    V_k = var / 2,    e_k standard normal numbers.

For an image with mean m and variance v over the positions of a channel,

    pi_k = softmax over k of cos(m, M_k) / 0.07                            (no gradient)
    a_k = (1 - pi_k) M_k + pi_k m,    b_k = (1 - pi_k) V_k + pi_k v
    mean = avg_k a_k,    variance = avg_k b_k + avg_k a_k^2 - mean^2

are the statistics it is normalised with. Afterwards M_k += s avg_i pi_ik (m_i - M_k), V_k likewise, with s = 1 - 0.9 ^
(n / 64) for n images; 16 in place of 64 for images of ImageNet's size. 0.9 is 1 minus the momentum of the layer.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from midway.adaptation.batch_norm.normalize_by_image import normalise_by_image
from midway.adaptation.batch_norm.replaced_statistics import (
    BatchObserver,
    ReplacedBatchNorm,
    is_close,
    replace_statistics,
)
from midway.adaptation.problem import LARGE_SIDE

COMPONENTS, MIXED_COMPONENTS = 16, 128
"""The published numbers of components, for one domain at a time and for mixed domains."""

TEMPERATURE, MOMENTUM = 0.07, 0.1
FULL_BATCH, LARGE_FULL_BATCH = 64, 16
"""The published numbers of images to which the momentum applies, for CIFAR and for ImageNet."""


def use_unmix_statistics(model: nn.Module, components: int = COMPONENTS, seed: int = 0) -> list[UnmixBatchNorm]:
    """Give BatchNorm layers the statistics of UnMix-TNS, in place, and return these layers.

    Without a method, every pass of the network moves the components, as published. Under a method, only the first pass
    over a batch does, not passes over samples of the model or trial passes. The components are part of the method's
    state, so a reset brings the same components back. Layers without positions (BatchNorm1d after pooling) have the
    source's statistics.

    Args:
        model: Any classifier. Layers without running statistics keep those of the batch.
        components: K (published: 16, and 128 for mixed domains). A single component starts as the source's statistics.
        seed: Seed of the components' start.

    Example:
        >>> import midway, torch
        >>> from midway.adaptation.batch_norm.by_name import with_statistics
        >>> adapted = midway.Tent(with_statistics(midway.models.create("resnet20"), "unmix"))
        >>> adapted(torch.rand(8, 3, 32, 32)).shape
        torch.Size([8, 10])
    """
    if components < 1:
        raise ValueError(f"components must be at least 1, got {components}.")
    layers = replace_statistics(model, UnmixBatchNorm, without_source=False)
    if not layers:
        raise ValueError("the model has no BatchNorm layer with running statistics to start from: adapt it as it is.")
    generator, updates = torch.Generator().manual_seed(seed), UpdateTracker()
    for layer in layers:
        mean, var = layer.source_mean, layer.source_var
        noise = torch.randn(components, layer.num_features, generator=generator, dtype=torch.float32).to(mean)
        if components == 1:
            start = mean[None].clone(), var[None].clone()
        else:
            spread = (0.5 * components / (components - 1)) ** 0.5
            start = mean + spread * var.sqrt() * noise, 0.5 * var.expand_as(noise)
        layer.register_buffer("component_mean", start[0])
        layer.register_buffer("component_var", start[1].clone())
        layer.shared = (updates,)
    layers[0].add_module("updates", updates)
    model.register_forward_pre_hook(updates.check_pass, prepend=True)  # before the network's own
    return layers


class UpdateTracker(BatchObserver):
    """Whether a pass updates the components, and which layers are done; all layers of a network share one instance."""

    def __init__(self) -> None:
        super().__init__()
        self.updating = False
        self.updated: set[int] = set()
        self.full_batch = FULL_BATCH

    def __getstate__(self) -> dict[str, Any]:
        """Omit the current batch: a copy starts with the next one."""
        return {**self.__dict__, "images": None, "updating": False, "updated": set()}

    def begin_batch(self) -> None:
        """Let the first pass over the batch update every layer."""
        self.updated = set()

    restart_batch = begin_batch

    def check_pass(self, model: nn.Module, inputs: tuple[Any, ...]) -> None:
        """Check whether a pass is over the batch (a forward pre-hook of the network)."""
        if not self.managed:
            self.updated = set()
        self.updating = not self.managed or is_close(inputs[0], self.images)
        large = inputs[0].ndim == 4 and min(inputs[0].shape[2:]) >= LARGE_SIDE
        self.full_batch = LARGE_FULL_BATCH if large else FULL_BATCH


class UnmixBatchNorm(ReplacedBatchNorm):
    """A BatchNorm layer with K components of statistics, created by ``use_unmix_statistics``."""

    source_mean: Tensor
    source_var: Tensor
    component_mean: Tensor
    component_var: Tensor
    shared: tuple[UpdateTracker]

    @property
    def statistics(self) -> str:
        """The name and, if it is not the published one, the number of components."""
        count = len(self.component_mean)
        return "unmix" if count == COMPONENTS else f"unmix-{count}"

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each image with its mixture of the components, then move them."""
        if x.ndim == 2:
            return F.batch_norm(x, self.source_mean, self.source_var, self.weight, self.bias, eps=self.eps)
        if not x.numel():
            return x.clone()
        return normalise_by_image(x, self)

    def scale_and_shift(
        self, mean: Tensor, square: Tensor, centre: Tensor, weight: Tensor | None, bias: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the factor and the summand for each image and channel, for pixels relative to the centre.

        ``mean`` and ``square`` are per image and channel, relative to the centre, which has one value per channel.
        Since pi sums to 1, the averages over the components are matrix products. They are relative to the centre,
        because their squares would cancel otherwise.
        """
        own_var = (square - mean.square()).clamp(min=0)
        with torch.no_grad():
            means, variances = self.component_mean.to(mean), self.component_var.to(mean)
            cosines = F.normalize(mean + centre, dim=1) @ F.normalize(means, dim=1).T
            pi = (cosines / TEMPERATURE).softmax(dim=1)
            others, count, relative = 1 - pi, len(means), means - centre
            constant_mean, constant_var = others @ relative / count, others @ variances / count
            squares, slopes = others.square() @ relative.square() / count, 2 * (pi * others) @ relative / count
            own_share = pi.square().sum(dim=1, keepdim=True) / count
            self._move(pi, mean + centre, own_var)
        mixed = constant_mean + mean / count
        second = constant_var + own_var / count + squares + slopes * mean + own_share * mean.square()
        scale = ((second - mixed.square()).clamp(min=0) + self.eps).rsqrt()
        scale = scale if weight is None else scale * weight
        shift = -mixed * scale
        return scale, shift if bias is None else shift + bias

    def _move(self, pi: Tensor, mean: Tensor, var: Tensor) -> None:
        """Move the components towards the images that match them, once per batch."""
        updates = self.shared[0]
        if not updates.updating or id(self) in updates.updated:
            return
        updates.updated.add(id(self))
        momentum = MOMENTUM if self.momentum is None else self.momentum
        step = 1 - (1 - momentum) ** (len(pi) / updates.full_batch)
        matched = pi.mean(dim=0)[:, None]
        new = []
        for component, own in ((self.component_mean, mean), (self.component_var, var)):
            new.append(component + step * (pi.T @ own / len(pi) - matched * component.to(own)).to(component))
        finite = new[0].isfinite() & new[1].isfinite()  # an overflow must not persist
        self.component_mean.copy_(torch.where(finite, new[0], self.component_mean))
        self.component_var.copy_(torch.where(finite, new[1], self.component_var))
