"""Clustered statistics: BatchNorm layers normalise each image with the statistics of images of the same kind.

Batch statistics (Schneider et al., NeurIPS 2020) assume one kind of image per batch: an outlier is normalised with the
statistics of unrelated images, and those of a mixture fit no part of it. Clustered statistics find the kinds of images,
that is their corruptions or domains, from the spectra of the images (``cluster_mixture.py``), once per batch and before
the network runs. In every BatchNorm layer a kind then has

    the mean and variance of its images in the batch,
    completed to 64 images by those it had in earlier batches (the memory), if the batch has fewer,
    and the source's statistics, which count as 3 images more.

An image that belongs to several kinds with probabilities p_k is normalised with the averages weighted by p_k. A large
batch of one kind keeps nearly its batch statistics, each part of a mixture gets its own, a rare kind has those of all
its images so far, and three quarters of the statistics of a single unknown image are the source's.

The method is not in the MITA paper; the constants were chosen on the tuning corruptions (``docs/clustered.md``).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from midway.adaptation.batch_norm.cluster_state import ENOUGH, Kinds, Plan, one_kind
from midway.adaptation.batch_norm.gaussian_mixture import MAX_CLUSTERS
from midway.adaptation.batch_norm.normalize_by_image import normalise_by_image
from midway.adaptation.batch_norm.replaced_statistics import ReplacedBatchNorm, plain_copy, replace_layers

PRIOR = 3.0
"""The number of images that the source's statistics count as."""


def clustered(model: nn.Module, *, memory: bool = True, prior: float = PRIOR) -> nn.Module:
    """Return a copy of a classifier with clustered statistics, which any method can adapt.

    The copy also works without a method, as BN with clustered statistics. It expects images in [0, 1], as all methods
    do, and remembers the kinds of the images it has seen; ``midway.BN(midway.clustered(model))`` can be reset.

    Args:
        model: Any classifier; it is not changed. Layers other than BatchNorm stay as they are.
        memory: Whether kinds are remembered from batch to batch. Without memory, each batch is divided on its own.
        prior: The number of images that the source's statistics count as.

    Example:
        >>> import midway, torch
        >>> adapted = midway.Tent(midway.clustered(midway.models.create("resnet20")))
        >>> adapted(torch.rand(8, 3, 32, 32)).shape
        torch.Size([8, 10])
        >>> adapted.diagnostics["kinds"]  # of each image
        [0, 0, 0, 0, 0, 0, 0, 0]
    """
    model = plain_copy(model)
    if not use_clustered_statistics(model, memory=memory, prior=prior):
        raise ValueError("the model has no BatchNorm layer, so its images share no statistics: adapt it as it is.")
    return model


def use_clustered_statistics(model: nn.Module, *, memory: bool = True, prior: float = PRIOR) -> int:
    """Give every BatchNorm layer clustered statistics, in place and in both modes; return the number of layers.

    The layers keep their names, scales and shifts; the running statistics become those of the prior.
    """
    if not 0 <= prior < math.inf:
        raise ValueError(f"prior must be 0 or a number of images, got {prior}.")
    layers = replace_layers(model, ClusteredBatchNorm)
    if not layers:
        return 0
    kinds = Kinds(memory)
    for layer in layers:
        layer.shared, layer.prior = (kinds,), prior
        known = layer.weight if layer.source_mean is None else layer.source_mean
        device = known.device if isinstance(known, Tensor) else None
        for name in ("kind_mean", "kind_var"):
            shape = (MAX_CLUSTERS, layer.num_features)
            layer.register_buffer(name, torch.zeros(shape, dtype=torch.float32, device=device) if memory else None)
        kinds.to(device)
    # One layer owns the kinds as a submodule, so that they are part of the model's state once.
    layers[0].add_module("all_kinds", kinds)
    model.register_forward_pre_hook(kinds.enter)
    return len(layers)


class ClusteredBatchNorm(ReplacedBatchNorm):
    """A BatchNorm layer with clustered statistics, created by ``use_clustered_statistics``.

    Gradients flow through the statistics of the batch, as in BatchNorm; the kinds and the memory are constants.
    """

    shared: tuple[Kinds]
    prior: float
    kind_mean: Tensor | None
    kind_var: Tensor | None

    @property
    def kinds(self) -> Kinds:
        """The kinds of images, common to all layers."""
        return self.shared[0]

    @property
    def statistics(self) -> str:
        """The name and, if it is not the default, the prior."""
        name = "clustered" if self.kinds.memory else "clustered-batch"
        return name if self.prior == PRIOR else f"{name}, prior {self.prior:g}"

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each image with its statistics."""
        if x.ndim < 2 or x.shape[1] != self.num_features:
            raise ValueError(f"expected {self.num_features} channels in dimension 1, got images {tuple(x.shape)}.")
        if x.numel() == x.shape[1] and (self.source_mean is None or not self.prior):
            raise ValueError(f"expected more than 1 value per channel, got images {tuple(x.shape)}.")
        if not x.numel():
            return x.clone()
        return normalise_by_image(x, self)

    def scale_and_shift(
        self, mean: Tensor, square: Tensor, centre: Tensor, weight: Tensor | None, bias: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the factor and the summand for each image and channel, for pixels relative to the centre.

        ``mean`` and ``square`` are per image and channel, relative to the centre, which has one value per channel.
        """
        plan = self.kinds.present
        if plan is None or len(plan.members) != len(mean):
            plan = one_kind(mean)
        members = plan.members.to(mean)
        images = members.sum(dim=0)[:, None]
        kind_mean = members.T @ mean / images.clamp(min=1e-6)
        kind_var = (members.T @ square / images.clamp(min=1e-6) - kind_mean.square()).clamp(min=0)
        if plan.transfer is not None:
            earlier_mean, earlier_var = self._memory(plan, centre, kind_mean.detach(), kind_var.detach(), images)
            added = torch.minimum(plan.remembered[:, None].to(mean), (ENOUGH - images).clamp(min=0))
            kind_mean, kind_var = _union((kind_mean, kind_var, images), (earlier_mean, earlier_var, added))
            images = images + added
        if self.prior and self.source_mean is not None and self.source_var is not None:
            share = images / (images + self.prior)
            kind_mean = torch.lerp((self.source_mean - centre).to(kind_mean).expand_as(kind_mean), kind_mean, share)
            kind_var = torch.lerp(self.source_var.to(kind_var).expand_as(kind_var), kind_var, share)
        weights = members @ plan.mixing.to(mean)
        scale = (weights @ kind_var + self.eps).rsqrt()
        scale = scale if weight is None else scale * weight
        shift = -(weights @ kind_mean) * scale
        return scale, shift if bias is None else shift + bias

    @torch.no_grad()
    def _memory(self, plan: Plan, centre: Tensor, mean: Tensor, var: Tensor, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return the statistics of the kinds before this batch, relative to the centre; the first pass adds its own."""
        assert plan.transfer is not None
        assert self.kind_mean is not None
        assert self.kind_var is not None
        if id(self) not in plan.layers:
            old_mean, old_var, transfer = self.kind_mean.to(mean), self.kind_var.to(mean), plan.transfer.to(mean)
            moved = transfer @ old_mean
            spread = (transfer @ old_mean.square() - moved.square()).clamp(min=0)
            plan.layers[id(self)] = moved, transfer @ old_var + spread
            if plan.learn:
                self._remember(plan, mean + centre, var, images)
        earlier_mean, earlier_var = (each[plan.kinds] for each in plan.layers[id(self)])
        return earlier_mean - centre, earlier_var

    def _remember(self, plan: Plan, mean: Tensor, var: Tensor, images: Tensor) -> None:
        """Add the statistics of a batch to the memory of its kinds."""
        assert self.kind_mean is not None
        assert self.kind_var is not None
        earlier_mean, earlier_var = plan.layers[id(self)]
        self.kind_mean.copy_(earlier_mean)
        self.kind_var.copy_(earlier_var)
        earlier = earlier_mean[plan.kinds], earlier_var[plan.kinds], plan.remembered[:, None].to(mean)
        new_mean, new_var = _union((mean, var, images), earlier)
        finite = new_mean.isfinite() & new_var.isfinite()  # an overflow must not persist
        for memory, new, source in (
            (self.kind_mean, new_mean, self.source_mean),
            (self.kind_var, new_var, self.source_var),
        ):
            instead = memory[plan.kinds] if source is None else source.expand_as(new)
            memory[plan.kinds] = torch.where(finite, new, instead.to(new)).to(memory)


Group = tuple[Tensor, Tensor, Tensor]
"""Mean, variance and number of images of some groups."""


def _union(first: Group, second: Group) -> tuple[Tensor, Tensor]:
    """Return mean and variance of the union of two groups of images."""
    (mean, var, images), (other_mean, other_var, others) = first, second
    share = others / (images + others).clamp(min=1e-6)
    difference = other_mean - mean
    return mean + share * difference, torch.lerp(var, other_var, share) + share * (1 - share) * difference.square()
