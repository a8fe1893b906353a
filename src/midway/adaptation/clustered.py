"""Clustered statistics: BatchNorm layers normalise each image with the statistics of images of the same kind.

Batch statistics (Schneider et al., NeurIPS 2020) assume one kind of image per batch: an outlier is normalised with the
statistics of unrelated images, and those of a mixture fit no part of it. Clustered statistics find the kinds of images,
that is their corruptions or domains, from the spectra of the images (``midway.adaptation.kinds``), once per batch and
before the network runs. In every BatchNorm layer a kind then has

    the mean and variance of its images in the batch,
    completed to 64 images by those it had in earlier batches (the memory), if the batch has fewer,
    and the source's statistics, which count as 3 images more.

An image that belongs to several kinds with probabilities p_k is normalised with the averages weighted by p_k. A large
batch of one kind keeps nearly its batch statistics, each part of a mixture gets its own, a rare kind has those of all
its images so far, and a single unknown image relies on the source by three quarters.

The method is not in the MITA paper; the constants were chosen on the tuning corruptions (``docs/clustered.md``).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

from midway.adaptation.kinds import LIMIT, RECENT, Assignment, KnownKinds, assign
from midway.adaptation.normalization import drop_running_statistics
from midway.adaptation.spectra import FEATURES, spectra
from midway.adaptation.state import Stateful

PRIOR = 3.0
"""The number of images that the source's statistics count as."""

_STATE = ("centres", "counts", "covariance")

ENOUGH = 64.0
"""The number of images up to which the memory completes those of the batch, and which it averages over."""


@dataclass
class Plan:
    """How the layers compute the statistics of one pass, for the ``kinds`` that occur in it.

    Attributes:
        members: The probability of each kind for each image, (images, kinds).
        mixing: The share of each kind in the statistics of each kind.
        kinds: The slots of the kinds.
        remembered: The number of images in memory of each of these kinds, before this batch.
        transfer: The weights with which the memories of all slots make up those before this batch, since kinds may have
            been split or merged; None for a pass that is not remembered.
        spectra: The spectra of the images.
        outliers: Which images are of a rare kind.
        layers: The memory of each layer before this batch.
    """

    members: Tensor
    mixing: Tensor
    kinds: Tensor
    remembered: Tensor
    transfer: Tensor | None
    spectra: Tensor
    outliers: Tensor
    layers: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)


class Kinds(nn.Module):
    """The kinds of images that a network with clustered statistics has seen; all its layers share one instance.

    A new batch updates the kinds and the memory. Further passes over the batch (also mirrored or slightly changed) use
    its kinds. Passes over other images, as samples of the model, are divided into kinds by themselves and are not
    remembered.
    """

    centres: Tensor
    counts: Tensor
    covariance: Tensor
    recent: Tensor
    filled: Tensor
    unsplit: Tensor
    remembered: Tensor

    def __init__(self, memory: bool) -> None:
        super().__init__()
        self.memory = memory
        known = KnownKinds.none()
        for name in _STATE:
            self.register_buffer(name, getattr(known, name))
        self.register_buffer("recent", torch.zeros(RECENT if memory else 0, FEATURES, dtype=torch.float64))
        self.register_buffer("filled", torch.zeros((), dtype=torch.long))
        self.register_buffer("unsplit", torch.zeros((), dtype=torch.long))
        self.register_buffer("remembered", torch.zeros(LIMIT, dtype=torch.float64))
        self.managed = False  # whether a method says when a batch begins
        self.images: Tensor | None = None
        self.batch: Plan | None = None
        self.present: Plan | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Omit the present batch: a copy starts with the next one."""
        return {**self.__dict__, "images": None, "batch": None, "present": None}

    @contextmanager
    def during(self, images: Tensor) -> Iterator[None]:
        """Treat these images as the batch: they update the kinds, and passes over them use their kinds."""
        self.images, self.batch = images, self._observe(spectra(images))
        try:
            yield
        finally:
            self.images = None

    def enter(self, model: nn.Module, inputs: tuple[Any, ...]) -> None:
        """Choose the plan of a pass from its images (a forward pre-hook of the network)."""
        images = inputs[0]
        batch = self.batch if self.images is not None or not self.managed else None
        if batch is not None and _close(images, self.images):
            self.present = batch
            return
        found = spectra(images)
        if batch is not None and _close(found, batch.spectra):
            self.present = batch
        elif self.managed:
            self.present = self._plan(assign(KnownKinds.none(images.device), found)[0], found, learn=False)
        else:
            self.present = self.batch = self._observe(found)

    def _observe(self, found: Tensor) -> Plan:
        if not self.memory:
            return self._plan(assign(KnownKinds.none(found.device), found)[0], found, learn=False)
        recent = self.recent[RECENT - int(self.filled) :]
        centres, counts, covariance, recent = (
            each.double() for each in (self.centres, self.counts, self.covariance, recent)
        )
        assignment, known = assign(KnownKinds(centres, counts, covariance, recent, int(self.unsplit)), found)
        plan = self._plan(assignment, found, learn=True)
        for name in _STATE:
            getattr(self, name).copy_(getattr(known, name))
        self.filled.fill_(len(known.recent))
        self.unsplit.fill_(known.unsplit)
        self.recent[RECENT - len(known.recent) :] = known.recent.to(self.recent)
        batch = assignment.members.sum(dim=0)
        self.remembered.copy_((assignment.moves @ self.remembered.double()).clamp(max=ENOUGH) + batch)
        self.remembered.mul_(self.counts > 0)
        return plan

    def _plan(self, found: Assignment, of: Tensor, *, learn: bool) -> Plan:
        moved = found.moves * self.remembered.double() if learn else torch.zeros_like(found.moves)
        remembered = moved.sum(dim=1)
        transfer = (moved / remembered.clamp(min=1e-9)[:, None]).float() if learn else None
        present = found.members.sum(dim=0) > 1e-3
        kinds = (present | (found.mixing[present] > 1e-3).any(dim=0)).nonzero().flatten()
        members, mixing = found.members[:, kinds], found.mixing[kinds][:, kinds]
        members, mixing = (each / each.sum(dim=1, keepdim=True).clamp(min=1e-9) for each in (members, mixing))
        remembered = remembered[kinds].clamp(max=ENOUGH).float()
        return Plan(members.float(), mixing.float(), kinds, remembered, transfer, of, found.outliers)

    def of_images(self) -> list[int]:
        """Return the kind of each image of the last batch, as the number of its slot."""
        if self.batch is None:
            return []
        return self.batch.kinds[self.batch.members.argmax(dim=1)].tolist()

    def outliers(self) -> int:
        """Return how many images of the last batch are of a rare kind."""
        return 0 if self.batch is None else int(self.batch.outliers.sum())


def clustered(model: nn.Module, *, memory: bool = True, prior: float = PRIOR) -> nn.Module:
    """Return a copy of a classifier with clustered statistics, which any method can adapt.

    The copy can also be used by itself: it is then BN with clustered statistics. It expects images in [0, 1], as all
    methods do, and remembers the kinds of the images it has seen; ``midway.BN(midway.clustered(model))`` can be reset.

    Args:
        model: Any classifier; it is not changed. Layers other than BatchNorm stay as they are.
        memory: Whether kinds are remembered from batch to batch. Without memory every batch is divided by itself.
        prior: The number of images that the source's statistics count as.

    Example:
        >>> import midway, torch
        >>> adapted = midway.Tent(midway.clustered(midway.models.create("resnet20")))
        >>> adapted(torch.rand(8, 3, 32, 32)).shape
        torch.Size([8, 10])
        >>> adapted.diagnostics["kinds"]  # of each image
        [0, 0, 0, 0, 0, 0, 0, 0]
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}.")
    if isinstance(model, Stateful):
        raise TypeError(f"model is already adapted by {type(model).__name__}: give the plain network, then adapt it.")
    if is_clustered(model):
        raise ValueError("the model already has clustered statistics: adapt it as it is.")
    model = copy.deepcopy(model)
    if not use_clustered_statistics(model, memory=memory, prior=prior):
        raise ValueError("the model has no BatchNorm layer, so its images share no statistics: adapt it as it is.")
    return model


def is_clustered(model: nn.Module) -> bool:
    """Return whether a model has clustered statistics."""
    return statistics_of(model) is not None


def kinds_of(model: nn.Module) -> list[Kinds]:
    """Return the kinds of a model, or of the networks of a method."""
    return [module for module in model.modules() if isinstance(module, Kinds)]


def statistics_of(model: nn.Module) -> str | None:
    """Return a description of a model's clustered statistics; None if it has none."""
    for module in model.modules():
        if isinstance(module, ClusteredBatchNorm):
            name = "clustered" if module.kinds.memory else "clustered-batch"
            return name if module.prior == PRIOR else f"{name}, prior {module.prior:g}"
    return None


def use_clustered_statistics(model: nn.Module, *, memory: bool = True, prior: float = PRIOR) -> int:
    """Give every BatchNorm layer clustered statistics, in place and in both modes; return the number of layers.

    The layers keep their names, scales and shifts; the running statistics become those of the prior.
    """
    if not 0 <= prior < math.inf:
        raise ValueError(f"prior must be 0 or a number of images, got {prior}.")
    layers = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, _BatchNorm)]
    for name, layer in layers:
        if type(layer).forward not in (_BatchNorm.forward, nn.SyncBatchNorm.forward):
            raise ValueError(
                f"layer '{name}' is a {type(layer).__name__}, which computes more than BatchNorm: "
                "its statistics cannot be replaced."
            )
    if not layers:
        return 0
    kinds = Kinds(memory)
    for _, layer in layers:
        source = {"source_mean": layer.running_mean, "source_var": layer.running_var}
        drop_running_statistics(layer)
        layer.__class__ = ClusteredBatchNorm
        layer.shared, layer.prior = (kinds,), prior  # type: ignore[assignment]
        device = layer.weight.device if isinstance(layer.weight, Tensor) else None
        for name, value in source.items():
            nn.Module.register_buffer(layer, name, value.detach().clone() if isinstance(value, Tensor) else None)
            device = value.device if isinstance(value, Tensor) else device
        for name in ("kind_mean", "kind_var"):
            value = torch.zeros(LIMIT, layer.num_features, device=device) if memory else None
            nn.Module.register_buffer(layer, name, value)
        kinds.to(device)
    # One layer owns the kinds as a submodule, so that they are part of the model's state once.
    layers[0][1].add_module("all_kinds", kinds)
    model.register_forward_pre_hook(kinds.enter)
    return len(layers)


class ClusteredBatchNorm(_BatchNorm):
    """A BatchNorm layer with clustered statistics, created by ``use_clustered_statistics``.

    Gradients flow through the statistics of the batch, as in BatchNorm; the kinds and the memory are constants.
    """

    shared: tuple[Kinds]
    prior: float
    source_mean: Tensor | None
    source_var: Tensor | None
    kind_mean: Tensor | None
    kind_var: Tensor | None

    @property
    def kinds(self) -> Kinds:
        """The kinds of images, common to all layers."""
        return self.shared[0]

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each image with its statistics."""
        if x.ndim < 2 or x.shape[1] != self.num_features:
            raise ValueError(f"expected {self.num_features} channels in dimension 1, got images {tuple(x.shape)}.")
        if x.numel() == x.shape[1] and (self.source_mean is None or not self.prior):
            raise ValueError(f"expected more than 1 value per channel, got images {tuple(x.shape)}.")
        if not x.numel():
            return x.clone()
        normalised: Tensor = _Normalise.apply(x, self.weight, self.bias, self)  # type: ignore[no-untyped-call]
        return normalised

    def scale_and_shift(
        self, mean: Tensor, square: Tensor, centre: Tensor, weight: Tensor | None, bias: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the factor and the summand of each image and channel, for pixels relative to the centre.

        ``mean`` and ``square`` are of each image and channel, relative to the centre, which has a value per channel.
        """
        plan = self.kinds.present
        if plan is None or len(plan.members) != len(mean):
            plan = _one_kind(mean)
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
            self.kind_mean.copy_(moved)
            self.kind_var.copy_(plan.layers[id(self)][1])
            earlier = moved[plan.kinds], plan.layers[id(self)][1][plan.kinds], plan.remembered[:, None].to(mean)
            new_mean, new_var = _union((mean + centre, var, images), earlier)
            finite = new_mean.isfinite() & new_var.isfinite()  # an overflow must not stay
            for memory, new, source in (
                (self.kind_mean, new_mean, self.source_mean),
                (self.kind_var, new_var, self.source_var),
            ):
                instead = memory[plan.kinds] if source is None else source.expand_as(new)
                memory[plan.kinds] = torch.where(finite, new, instead.to(new)).to(memory)
        earlier_mean, earlier_var = (each[plan.kinds] for each in plan.layers[id(self)])
        return earlier_mean - centre, earlier_var


def _close(some: Tensor, others: Tensor | None) -> bool:
    """Return whether images, or their spectra, differ by less than 0.1 on average."""
    if others is None or some.shape != others.shape:
        return False
    return some is others or bool((some.detach() - others).abs().mean() < 0.1)


Group = tuple[Tensor, Tensor, Tensor]
"""Mean, variance and number of images of some groups."""


def _union(first: Group, second: Group) -> tuple[Tensor, Tensor]:
    """Return mean and variance of the union of two groups of images."""
    (mean, var, images), (other_mean, other_var, others) = first, second
    share = others / (images + others).clamp(min=1e-6)
    difference = other_mean - mean
    return mean + share * difference, torch.lerp(var, other_var, share) + share * (1 - share) * difference.square()


def _one_kind(images: Tensor) -> Plan:
    ones = images.new_ones(len(images), 1)
    nothing = torch.zeros(1, dtype=torch.long, device=images.device)
    return Plan(ones, ones[:1], nothing, ones[0] * 0, None, ones, ones[:, 0] == 0)


class _Normalise(torch.autograd.Function):
    """y = s x + b with a scale s and a shift b for each image and channel, in few passes over the pixels.

    s and b depend on x only through two numbers for each image and channel, mean m = E[x - c] and mean square
    q = E[(x - c)^2] relative to a constant centre c (the mean of the batch, which avoids cancellation). Autograd
    differentiates the small function (m, q, weight, bias) -> (s, b); the passes over the pixels are written by hand.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, layer: ClusteredBatchNorm) -> Tensor:
        pixels = tuple(range(2, x.ndim))
        exact = torch.promote_types(x.dtype, torch.float32)
        with torch.autocast(x.device.type, enabled=False):
            mean, variance = _moments(x, exact)
            centre = mean.mean(0)
            mean = (mean - centre).requires_grad_()
            square = (variance + mean.detach().square()).requires_grad_()
            weight, bias = (None if each is None else each.detach().requires_grad_() for each in (weight, bias))
            with torch.enable_grad():
                scale, shift = layer.scale_and_shift(mean, square, centre, weight, bias)
                shift = shift - centre * scale  # s (x - c) + b' = s x + (b' - s c)
            ctx.save_for_backward(x, centre)
            ctx.inputs, ctx.pixels, ctx.outputs = (mean, square, weight, bias), pixels, (scale, shift)
            return torch.addcmul(_expanded(shift, x), x, _expanded(scale, x)).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Return dL/dx, dL/dweight and dL/dbias from dy = dL/dy.

        With P pixels p in each image and channel, y_p = s x_p + b gives

            dL/ds = sum_p dy_p x_p,    dL/db = sum_p dy_p.

        Autograd turns these into dL/dm, dL/dq, dL/dweight and dL/dbias. A pixel enters y directly, with factor s,
        and through m = sum_p (x_p - c) / P and q = sum_p (x_p - c)^2 / P, whose derivatives are 1 / P and
        2 (x_p - c) / P. The sum of the three paths is

            dL/dx_p = s dy_p + (2 / P) dL/dq x_p + (dL/dm / P - (2 / P) dL/dq c).

        The centre is a constant by choice: y does not depend on it, so its own derivative is zero.
        """
        x, centre = ctx.saved_tensors
        pixels, exact = ctx.pixels, centre.dtype
        dy = dy.to(exact)
        d_scale, d_shift = (t.sum(pixels) if pixels else t for t in (dy * x, dy))
        present = [each for each in ctx.inputs if each is not None]
        gradients = iter(torch.autograd.grad(ctx.outputs, present, (d_scale, d_shift), retain_graph=True))
        d_mean, d_square, d_weight, d_bias = (None if each is None else next(gradients) for each in ctx.inputs)
        if not ctx.needs_input_grad[0]:
            return None, d_weight, d_bias, None
        count = x[0, 0].numel()
        slope = 2 / count * d_square
        constant = d_mean / count - slope * centre
        dx = dy * _expanded(ctx.outputs[0].detach(), x)
        dx.addcmul_(x.to(exact), _expanded(slope, x)).add_(_expanded(constant, x))
        return dx.to(x.dtype), d_weight, d_bias, None


def _moments(x: Tensor, exact: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return mean and variance of each image and channel, a few images at a time, which stay in the cache."""
    if x.ndim == 2:
        return x.to(exact), torch.zeros_like(x, dtype=exact)
    pixels, few = tuple(range(2, x.ndim)), max(1, 2**18 // x[0].numel())
    means, variances = [], []
    for some in x.split(few):
        means.append(some.mean(pixels, dtype=exact))
        variances.append((some - _expanded(means[-1], some)).square_().mean(pixels))
    return torch.cat(means), torch.cat(variances)


def _expanded(values: Tensor, x: Tensor) -> Tensor:
    """Give values of channels, or of images and channels, the number of dimensions of the images."""
    return values.view(*[1] * (2 - values.ndim), *values.shape, *[1] * (x.ndim - 2))
