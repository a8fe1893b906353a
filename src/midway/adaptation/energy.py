"""Algorithms 1 and 2 of the MITA paper: adapt a classifier as an energy-based model, which is TEA, and images to it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from midway.adaptation.averaging import average_towards
from midway.adaptation.base import Method
from midway.adaptation.capture import ChangesOf
from midway.adaptation.optimization import optimizer_step
from midway.adaptation.precision import Precision, use_bf16
from midway.functional import free_energy
from midway.sampling import GradientFilter, Randomness, ReplayBuffer, UniformNoise, langevin, langevin_step
from midway.sampling.changes import Changes


class EnergyModel:
    """A classifier as an energy-based model, E(x) = -logsumexp f(x) (MITA, eq. 7), in float32 even if run in bf16."""

    def __init__(self, network: nn.Module, precision: Precision) -> None:
        use_bf16(precision, torch.device("cpu"))  # refuses an unknown precision before the first batch
        self.network = network
        self.precision = precision

    def logits(self, images: Tensor) -> Tensor:
        """Return f(x), in float32 or higher precision."""
        bf16 = use_bf16(self.precision, images.device)
        with torch.autocast(images.device.type, torch.bfloat16) if bf16 else nullcontext():
            logits: Tensor = self.network(images)
        return logits if logits.dtype == torch.float64 else logits.float()

    def __call__(self, images: Tensor) -> Tensor:
        """Return E(x), one value for each image."""
        return free_energy(self.logits(images))


@dataclass(frozen=True)
class Chains:
    """The hyper-parameters of the Langevin chains that TEA and MITA share, and their checks.

    With ``shared_pass`` the last step of the chains uses the pass of the update, which sees them before that step:
    T + 1 passes instead of T + 2. ``samples`` is the number of chains in an update, at most the number of images; 0
    uses as many as images.
    """

    steps: int
    step_size: float
    noise: float | None
    clip: float | None
    shared_pass: bool
    buffer_size: int
    reinit_probability: float
    samples: int = 0

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise ValueError(f"langevin_steps must be 0 or more, got {self.steps}.")
        if self.step_size < 0 or (self.noise is not None and self.noise < 0):
            values = f"{self.step_size} and {self.noise}"
            raise ValueError(f"langevin_step_size and langevin_noise must be 0 or more, got {values}.")
        if self.clip is not None and self.clip <= 0:
            raise ValueError(f"langevin_clip must be above 0, or None, got {self.clip}.")
        if self.samples < 0 or self.buffer_size < 0:
            raise ValueError(
                f"samples and buffer_size must be 0 or more, got {self.samples} and {self.buffer_size}; "
                "0 samples are as many as images, and a buffer of 0 starts every chain from noise."
            )

    def starts(self) -> UniformNoise:
        """Return a new replay buffer, or uniform noise if its size is 0."""
        if not self.buffer_size:
            return UniformNoise()
        return ReplayBuffer(capacity=self.buffer_size, reinit_probability=self.reinit_probability)


class ContrastiveStep(NamedTuple):
    """The result of one step of Algorithm 1.

    Attributes:
        energy_images: Mean energy of the images before the update.
        energy_samples: Mean energy of the samples before the update.
        taken: Whether the update was finite.
        stalled_steps: Number of chains that skipped a step.
        logits: f(x) of the images before the update.
        image_gradient: dE/dx of the images before the update, if requested.
    """

    energy_images: float
    energy_samples: float
    taken: bool
    stalled_steps: int
    logits: Tensor
    image_gradient: Tensor | None

    def record(self, method: Method, prefix: str = "") -> None:
        """Write the result into a method's diagnostics, with a prefix that names the model."""
        energies = {"images": self.energy_images, "samples": self.energy_samples}
        energies["gap"] = self.energy_images - self.energy_samples
        method.record(**{f"{prefix}energy_{name}": value for name, value in energies.items()})
        method.count("skipped_steps", int(not self.taken))
        method.count("stalled_steps", self.stalled_steps)


class ModelAda:
    """Algorithm 1: adapt the trainable parameters of a model to the data by contrastive divergence.

    Each step samples images from the model by Langevin dynamics, then lowers the energy of the test images and raises
    that of the samples. Adam (step size beta in the paper) and the chains persist from batch to batch.

    ``source_share`` moves the weights this share of the way back to the source after each step, against drift in long
    streams. ``image_gradient`` returns the gradient of the images from the pass of the update. ``by_uncertainty``
    multiplies each step by ``step_scale`` of the logits of the images. ``balance_classes`` weights the images in the
    contrast by ``class_balance`` of their logits.
    """

    def __init__(
        self,
        energy: EnergyModel,
        chains: Chains,
        *,
        lr: float,
        betas: tuple[float, float],
        randomness: Randomness,
        starts: UniformNoise | None = None,
        source_share: float = 0.0,
        image_gradient: bool = False,
        by_uncertainty: bool = False,
        balance_classes: bool = False,
    ) -> None:
        if not 0 <= source_share <= 1:
            raise ValueError(f"source_share must be between 0 and 1, got {source_share}.")
        self.energy = energy
        self.trainable = [parameter for parameter in energy.network.parameters() if parameter.requires_grad]
        self.source_weights = [parameter.detach().clone() for parameter in self.trainable]
        self.source_share, self.image_gradient, self.by_uncertainty = source_share, image_gradient, by_uncertainty
        self.balance_classes = balance_classes
        self.optimizer = torch.optim.Adam(self.trainable, lr=lr, betas=betas)
        self.buffer = chains.starts() if starts is None else starts
        self.randomness, self.steps, self.samples = randomness, chains.steps, chains.samples or None
        self.shared_pass = chains.shared_pass and chains.steps > 0
        self.step_arguments: dict[str, Any] = {
            "step_size": chains.step_size,
            "noise": chains.noise,
            "clip": chains.clip,
        }

    def step(self, images: Tensor) -> ContrastiveStep:
        """Take one of the N steps."""
        generator = self.randomness.on(images.device)
        indices, chains = self.buffer.draw(images[: self.samples], generator)
        early = self.steps - self.shared_pass
        samples, stalled = langevin(self.energy, chains, steps=early, generator=generator, **self.step_arguments)
        if not self.shared_pass:
            stalled = self._store(indices, samples, stalled)
        x = images.detach().requires_grad_(self.image_gradient)
        logits: list[Tensor] = []
        weights = torch.ones(len(x), device=x.device)

        def contrast() -> Iterator[Tensor]:  # eq. 3; a generator, so one graph is in memory at a time
            nonlocal weights
            answers = self.energy.logits(x)
            logits.append(answers.detach())
            if self.balance_classes:
                weights = class_balance(answers.detach())
            yield (weights * free_energy(answers)).mean()
            answers = self.energy.logits(samples.requires_grad_(self.shared_pass))
            logits.append(answers.detach())
            yield -free_energy(answers).mean()

        before = [weight.detach().clone() for weight in self.trainable] if self.by_uncertainty else []
        taken = optimizer_step(contrast(), self.optimizer)
        if taken and self.by_uncertainty:
            average_towards(self.trainable, before, 1 - step_scale(logits[0]))
        if taken and self.source_share:
            average_towards(self.trainable, self.source_weights, self.source_share)
        if self.shared_pass:
            # The backward pass of the contrast computed d(-mean E)/dx = -(dE/dx) / n for each of n samples: times -n
            # it is the gradient of the chains' last step.
            assert samples.grad is not None
            gradient = samples.grad * -len(samples)
            after, skipped = langevin_step(samples, gradient, generator=generator, **self.step_arguments)
            stalled = self._store(indices, after, stalled | skipped)
        of_images, of_samples = (free_energy(each).mean().item() for each in logits)
        # As above: the contrast has the weighted mean over n images, the step of an image has its own energy.
        image_gradient = None if x.grad is None else x.grad * (len(x) / weights).view(-1, *[1] * (x.ndim - 1))
        return ContrastiveStep(of_images, of_samples, taken, int(stalled.sum()), logits[0], image_gradient)

    def _store(self, indices: Tensor, samples: Tensor, stalled: Tensor) -> Tensor:
        """Write the chains back to the buffer; stalled ones restart from noise."""
        if stalled.any():
            noise = self.buffer.noise(samples, self.randomness.on(samples.device))
            samples[stalled] = noise[stalled]
        self.buffer.put(indices, samples)
        return stalled

    def begin_undo(self) -> Changes:
        """Record the changes of the optimiser and of the chains: a copy of all chains may take longer than a step."""
        return ChangesOf(self.optimizer, self.buffer)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the optimiser and the chains, and the source (the weights are the network's)."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "buffer": self.buffer.state_dict(),
            "source_weights": self.source_weights,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load what ``state_dict`` returned."""
        self.optimizer.load_state_dict(state["optimizer"])
        self.buffer.load_state_dict(state["buffer"])
        self.source_weights = list(state["source_weights"])


class AdaptedImages(NamedTuple):
    """The result of Algorithm 2.

    Attributes:
        images: The images after the last step, detached.
        stalled: Boolean (N,): the image skipped a step because the step was not finite.
        shortened: Boolean (N,): a step of the image was shortened.
        logits: f(x) of the images as given, before any step.
    """

    images: Tensor
    stalled: Tensor
    shortened: Tensor
    logits: Tensor


def data_ada(
    energy: EnergyModel,
    images: Tensor,
    *,
    steps: int,
    step_size: float,
    update: ContrastiveStep | None = None,
    gradient_filter: GradientFilter | None = None,
    by_uncertainty: bool = False,
    largest_decrease: float | None = None,
) -> AdaptedImages:
    """Algorithm 2: adapt the data to the model by Td Langevin steps without noise, from the images (eq. 10).

    ``update`` has the logits and the gradient of the first step, if an update has computed them. ``by_uncertainty``
    multiplies the step size by ``step_scale`` of the logits. ``largest_decrease`` shortens the steps of images whose
    energy would fall further than that, to first order.
    """
    adapted, stalled = images.detach(), torch.zeros(len(images), dtype=torch.bool, device=images.device)
    shortened = torch.zeros_like(stalled)
    logits: Tensor | None = None
    for _ in range(steps):
        if logits is None and update is not None and update.image_gradient is not None:
            answers, gradient = update.logits, update.image_gradient
        else:
            x = adapted.detach().requires_grad_()
            answers = energy.logits(x)
            (gradient,) = torch.autograd.grad(free_energy(answers).sum(), x)
        if logits is None:
            logits = answers.detach()
            step_size *= step_scale(logits) if by_uncertainty else 1
        step = gradient if gradient_filter is None else gradient_filter(gradient)
        if largest_decrease is not None:
            exact = torch.promote_types(step.dtype, torch.float32)
            decrease = step_size / 2 * (gradient.to(exact) * step).flatten(1).sum(dim=1)  # dE/dx times the step
            share = (largest_decrease / decrease.clamp_min(largest_decrease)).to(step)
            step, shortened = step * share.view(-1, 1, 1, 1), shortened | (share < 1)
        adapted, skipped = langevin_step(adapted, step, step_size=step_size, noise=0)
        stalled |= skipped
    assert logits is not None, "steps is at least 1"
    return AdaptedImages(adapted, stalled, shortened, logits)


def class_balance(logits: Tensor) -> Tensor:
    """Return weights of images, with mean 1, that give every predicted class nearly the same weight in a batch.

    The weight of an image is proportional to the sum over classes of p(y) / (m_y + 1 / N), where m_y is the mean of
    p(y) over the N images. The 1 / N keeps the weights finite, and near 1 if there are more classes than images.

    Example:
        >>> import torch
        >>> from midway.adaptation.energy import class_balance
        >>> logits = 100 * torch.eye(2)[[0, 0, 0, 1]]  # three certain images of one class, one of another
        >>> class_balance(logits)
        tensor([0.8000, 0.8000, 0.8000, 1.6000])
    """
    p = logits.softmax(dim=1)
    weights = p @ (1 / (p.mean(dim=0) + 1 / len(p)))
    return weights / weights.mean()


FULL_STEP_FROM = 0.2
"""The mean uncertainty of a batch from which the model and the images take full steps."""


def step_scale(logits: Tensor) -> float:
    """Return the share of a full step that model and images take, by the squared mean uncertainty of the batch.

    More than ten classes shorten the steps by the square of ln 10 / ln C: with many classes the uncertainty is always
    large, and the energy, a sum over classes, is steeper.

    The uncertainty of an image is 1 - p(y) of its top class y. Predictions for clean and weakly corrupted images are
    certain, and steps that help against strong noise harm them.

    Example:
        >>> import torch
        >>> from midway.adaptation.energy import step_scale
        >>> round(step_scale(torch.tensor([[0.9, 0.1], [1.0, 0.0]]).log()), 2)  # a mean uncertainty of 0.05
        0.06
    """
    uncertainty = 1 - logits.softmax(dim=1).amax(dim=1).mean().item()
    share = min(1.0, (uncertainty / FULL_STEP_FROM) ** 2) if math.isfinite(uncertainty) else 1.0
    return share * (math.log(10) / math.log(max(10, logits.shape[1]))) ** 2
