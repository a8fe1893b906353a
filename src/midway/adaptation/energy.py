"""Adapting a classifier as an energy-based model: Algorithm 1 of the MITA paper, which is TEA."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from midway.adaptation.base import Method
from midway.adaptation.optimization import optimizer_step
from midway.adaptation.precision import Precision, use_bf16
from midway.functional import free_energy
from midway.sampling import Randomness, ReplayBuffer, langevin, langevin_step


class EnergyModel:
    """A classifier as an energy-based model, E(x) = -logsumexp f(x) (MITA, eq. 7), in float32 even if run in bf16."""

    def __init__(self, network: nn.Module, precision: Precision) -> None:
        use_bf16(precision, torch.device("cpu"))  # refuses an unknown precision before the first batch
        self.network = network
        self.precision = precision

    def logits(self, images: Tensor) -> Tensor:
        """Return f(x) in float32."""
        bf16 = use_bf16(self.precision, images.device)
        with torch.autocast(images.device.type, torch.bfloat16) if bf16 else nullcontext():
            logits: Tensor = self.network(images)
        return logits.float()

    def __call__(self, images: Tensor) -> Tensor:
        """Return E(x), one value for each image."""
        return free_energy(self.logits(images))


@dataclass(frozen=True)
class Chains:
    """The hyper-parameters of the Langevin chains that TEA and MITA share, and their checks.

    With ``shared_pass`` the last step of the chains uses the pass of the update, which sees them before that step:
    T + 1 passes instead of T + 2.
    """

    steps: int
    step_size: float
    noise: float | None
    clip: float | None
    shared_pass: bool

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise ValueError(f"langevin_steps must be 0 or more, got {self.steps}.")
        if self.step_size < 0 or (self.noise is not None and self.noise < 0):
            values = f"{self.step_size} and {self.noise}"
            raise ValueError(f"langevin_step_size and langevin_noise must be 0 or more, got {values}.")
        if self.clip is not None and self.clip <= 0:
            raise ValueError(f"langevin_clip must be above 0, or None, got {self.clip}.")


class ContrastiveStep(NamedTuple):
    """The result of one step of Algorithm 1."""

    energy_images: float
    energy_samples: float
    taken: bool
    stalled_steps: int

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
    """

    def __init__(
        self,
        energy: EnergyModel,
        chains: Chains,
        buffer: ReplayBuffer,
        *,
        lr: float,
        betas: tuple[float, float],
        randomness: Randomness,
    ) -> None:
        self.energy = energy
        trainable = [parameter for parameter in energy.network.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.Adam(trainable, lr=lr, betas=betas)
        self.buffer, self.randomness, self.steps = buffer, randomness, chains.steps
        self.shared_pass = chains.shared_pass and chains.steps > 0
        self.step_arguments: dict[str, Any] = {
            "step_size": chains.step_size,
            "noise": chains.noise,
            "clip": chains.clip,
        }

    def step(self, images: Tensor) -> ContrastiveStep:
        """Take one of the N steps."""
        generator = self.randomness.on(images.device)
        indices, chains = self.buffer.draw(images, generator)
        early = self.steps - self.shared_pass
        samples, stalled = langevin(self.energy, chains, steps=early, generator=generator, **self.step_arguments)
        if not self.shared_pass:
            stalled = self._store(indices, samples, stalled)
        energies: list[float] = []

        def contrast() -> Iterator[Tensor]:  # eq. 3; a generator, so one graph is in memory at a time
            for sign, x in ((1, images), (-1, samples.requires_grad_(self.shared_pass))):
                mean = self.energy(x).mean()
                energies.append(mean.item())
                yield sign * mean

        taken = optimizer_step(contrast(), self.optimizer)
        if self.shared_pass:
            # The backward pass of the contrast computed d(-mean E)/dx = -(dE/dx) / n for each of n samples: times -n
            # it is the gradient of the chains' last step.
            assert samples.grad is not None
            gradient = samples.grad * -len(samples)
            after, skipped = langevin_step(samples, gradient, generator=generator, **self.step_arguments)
            stalled = self._store(indices, after, stalled | skipped)
        return ContrastiveStep(energies[0], energies[1], taken, int(stalled.sum()))

    def _store(self, indices: Tensor, samples: Tensor, stalled: Tensor) -> Tensor:
        """Write the chains back to the buffer; stalled ones restart from noise."""
        if stalled.any():
            noise = self.buffer.noise(samples, self.randomness.on(samples.device))
            samples[stalled] = noise[stalled]
        self.buffer.put(indices, samples)
        return stalled

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the optimiser and the chains (the weights are the network's)."""
        return {"optimizer": self.optimizer.state_dict(), "buffer": self.buffer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load what ``state_dict`` returned."""
        self.optimizer.load_state_dict(state["optimizer"])
        self.buffer.load_state_dict(state["buffer"])
