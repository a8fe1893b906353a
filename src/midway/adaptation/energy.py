"""Algorithm 1 of the MITA paper: adapt a classifier as an energy-based model to images, which is TEA."""

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
from midway.sampling import Randomness, ReplayBuffer, UniformNoise, langevin, langevin_step
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


class Contrast:
    """The loss of Algorithm 1 (eq. 3): the mean energy of the images minus the mean energy of the samples.

    Attributes:
        logits: f(x) of the images, once ``terms`` has computed it.
        sample_logits: f(x) of the samples, likewise.
        weights: The weight of each image in the mean, 1 in the paper.
    """

    def __init__(self, energy: EnergyModel, images: Tensor, samples: Tensor, *, balance_classes: bool) -> None:
        self.energy, self.images, self.samples, self.balance_classes = energy, images, samples, balance_classes
        self.weights = torch.ones(len(images), device=images.device)
        self.logits = self.sample_logits = torch.empty(0)

    def terms(self) -> Iterator[Tensor]:
        """Yield the two terms, the second after the backward pass of the first: one graph is in memory at a time."""
        logits = self.energy.logits(self.images)
        self.logits = logits.detach()
        if self.balance_classes:
            self.weights = class_balance(self.logits)
        yield (self.weights * free_energy(logits)).mean()
        logits = self.energy.logits(self.samples)
        self.sample_logits = logits.detach()
        yield -free_energy(logits).mean()

    def image_gradient(self) -> Tensor | None:
        """Return dE/dx of each image, from the backward pass of the loss, in which it has its weight in the mean."""
        if self.images.grad is None:
            return None
        return self.images.grad * (len(self.images) / self.weights).view(-1, *[1] * (self.images.ndim - 1))

    def sample_gradient(self) -> Tensor:
        """Return dE/dx of each of n samples, from the backward pass of the loss, which has -E / n."""
        assert self.samples.grad is not None
        return self.samples.grad * -len(self.samples)


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
        *,
        chains: Chains,
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

    def adapt(self, images: Tensor, steps: int) -> list[ContrastiveStep]:
        """Take N steps: theta' = ModelAda(theta, x)."""
        return [self.step(images) for _ in range(steps)]

    def step(self, images: Tensor) -> ContrastiveStep:
        """Take one of the N steps."""
        generator = self.randomness.on(images.device)
        indices, chains = self.buffer.draw(images[: self.samples], generator)
        early = self.steps - self.shared_pass
        samples, stalled = langevin(self.energy, chains, steps=early, generator=generator, **self.step_arguments)
        if not self.shared_pass:
            stalled = self._store(indices, samples, stalled)
        contrast = Contrast(
            self.energy,
            images.detach().requires_grad_(self.image_gradient),
            samples.requires_grad_(self.shared_pass),
            balance_classes=self.balance_classes,
        )
        before = [weight.detach().clone() for weight in self.trainable] if self.by_uncertainty else []
        taken = optimizer_step(contrast.terms(), self.optimizer)
        if taken and self.by_uncertainty:
            average_towards(self.trainable, before, 1 - step_scale(contrast.logits))
        if taken and self.source_share:
            average_towards(self.trainable, self.source_weights, self.source_share)
        if self.shared_pass:
            gradient = contrast.sample_gradient()
            after, skipped = langevin_step(samples, gradient, generator=generator, **self.step_arguments)
            stalled = self._store(indices, after, stalled | skipped)
        return ContrastiveStep(
            energy_images=free_energy(contrast.logits).mean().item(),
            energy_samples=free_energy(contrast.sample_logits).mean().item(),
            taken=taken,
            stalled_steps=int(stalled.sum()),
            logits=contrast.logits,
            image_gradient=contrast.image_gradient() if self.image_gradient else None,
        )

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
