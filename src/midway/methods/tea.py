"""TEA: test-time energy adaptation (Yuan et al., CVPR 2024), and with it the model's half of MITA."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from midway.adaptation.base import About, Method
from midway.adaptation.descent import descend
from midway.adaptation.normalization import use_batch_statistics
from midway.adaptation.parameters import freeze_all_but, norm_affine
from midway.adaptation.precision import Precision, use_bf16
from midway.adaptation.space import Integers, LogUniform, search_over
from midway.functional import free_energy
from midway.sampling import Randomness, ReplayBuffer, langevin, move


class EnergyModel:
    """A classifier read as an energy-based model, E(x) = -logsumexp f(x) (MITA, eq. 7).

    The network may run in bf16; logits and energies are float32.
    """

    def __init__(self, network: nn.Module, precision: Precision) -> None:
        self.network = network
        self.precision = precision

    def logits(self, images: Tensor) -> Tensor:
        """Return f(x) in float32."""
        bf16 = use_bf16(self.precision, images.device)
        with torch.autocast(images.device.type, torch.bfloat16) if bf16 else nullcontext():
            logits: Tensor = self.network(images)
        return logits.float()

    def __call__(self, images: Tensor) -> Tensor:
        """Return E(x), one value an image."""
        return free_energy(self.logits(images))


class Contrast(NamedTuple):
    """What one step of Algorithm 1 saw and did."""

    energy_images: float
    energy_samples: float
    taken: bool
    stalled_moves: int

    def note(self, method: Method, of: str = "") -> None:
        """Write it into a method's diagnostics, under names that say of which model."""
        method.diagnostics |= {
            f"{of}energy_images": self.energy_images,
            f"{of}energy_samples": self.energy_samples,
            f"{of}energy_gap": self.energy_images - self.energy_samples,
        }
        method.count("skipped_steps", int(not self.taken))
        method.count("stalled_moves", self.stalled_moves)


class ModelAda:
    """Algorithm 1: pull the model to the data by contrastive divergence.

    Each step draws images from the model by Langevin dynamics, then lowers the energy of the test images and raises
    that of the drawn ones. Holds the optimiser and the chains, which live from batch to batch.

    Args:
        energy: The model as an energy.
        parameters: What moves.
        lr: Step size of Adam, beta in the paper.
        betas: Averaging of Adam's moments.
        langevin_steps: T.
        langevin_step_size: Alpha.
        langevin_noise: Standard deviation of the noise; None is the paper's sqrt(alpha).
        langevin_clip: Largest entry of the image gradient; None does not clip.
        shared_pass: The chains' last step uses the pass of the contrast, which sees them before that step: T + 1
            passes instead of T + 2.
        buffer: The chains.
        randomness: Where chains and noise get their random numbers.
    """

    def __init__(
        self,
        energy: EnergyModel,
        parameters: list[nn.Parameter],
        *,
        lr: float,
        betas: tuple[float, float],
        langevin_steps: int,
        langevin_step_size: float,
        langevin_noise: float | None,
        langevin_clip: float | None,
        shared_pass: bool,
        buffer: ReplayBuffer,
        randomness: Randomness,
    ) -> None:
        if langevin_steps < 0:
            raise ValueError(f"langevin_steps must be 0 or more, got {langevin_steps}.")
        if langevin_step_size < 0 or (langevin_noise is not None and langevin_noise < 0):
            raise ValueError(
                "langevin_step_size and langevin_noise must be 0 or more, "
                f"got {langevin_step_size} and {langevin_noise}."
            )
        if langevin_clip is not None and langevin_clip <= 0:
            raise ValueError(f"langevin_clip must be above 0, or None, got {langevin_clip}.")
        self.energy = energy
        self.optimizer = torch.optim.Adam(parameters, lr=lr, betas=betas)
        self.buffer = buffer
        self.randomness = randomness
        self.steps = langevin_steps
        self.shared_pass = shared_pass and langevin_steps > 0
        self.walk: dict[str, Any] = {
            "step_size": langevin_step_size,
            "noise": langevin_noise,
            "clip": langevin_clip,
        }

    def step(self, images: Tensor) -> Contrast:
        """Take one of the N steps and say what happened."""
        generator = self.randomness.on(images.device)
        places, chains = self.buffer.draw(images, generator)
        early = self.steps - self.shared_pass
        sampled, stalled = langevin(self.energy, chains, steps=early, generator=generator, **self.walk)
        if not self.shared_pass:
            stalled = self._keep(places, sampled, stalled)
        energies: list[float] = []

        def contrast() -> Iterator[Tensor]:  # eq. 3, one graph in memory at a time
            for sign, x in ((1, images), (-1, sampled.requires_grad_(self.shared_pass))):
                mean = self.energy(x).mean()
                energies.append(mean.item())
                yield sign * mean

        taken = descend(contrast(), self.optimizer)
        if self.shared_pass:  # the chains' last step, by the gradient that the contrast had to compute anyway
            assert sampled.grad is not None
            moved, missed = move(sampled, sampled.grad * -len(sampled), generator=generator, **self.walk)
            stalled = self._keep(places, moved, stalled | missed)
        return Contrast(energies[0], energies[1], taken, int(stalled.sum()))

    def _keep(self, places: Tensor, sampled: Tensor, stalled: Tensor) -> Tensor:
        """Write the chains back; one that cannot move starts from noise again."""
        if stalled.any():
            noise = self.buffer.noise(sampled, self.randomness.on(sampled.device))
            sampled[stalled] = noise[stalled]
        self.buffer.put(places, sampled)
        return stalled

    def state_dict(self) -> dict[str, Any]:
        """Return the optimiser's state and the chains (the weights are the network's)."""
        return {"optimizer": self.optimizer.state_dict(), "buffer": self.buffer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave."""
        self.optimizer.load_state_dict(state["optimizer"])
        self.buffer.load_state_dict(state["buffer"])


class TEA(Method):
    """Scales and shifts of the normalisation layers make the test images likely under the model (Algorithm 1).

    The answer comes from after the update, with batch statistics.

    Paper: Yuan et al., CVPR 2024.

    Args:
        model: The classifier to adapt.
        steps: Updates a batch, N (published: 1).
        langevin_steps: T (published: 20).
        langevin_step_size: Alpha; a move is alpha / 2 times the gradient (the published code moves by 0.1 times it).
        langevin_noise: Standard deviation of the noise (published: 0.01); None is the paper's sqrt(alpha).
        langevin_clip: Largest entry of the image gradient; None does not clip, as published.
        shared_pass: Let the chains' last step use the pass that the update needs anyway, one forward and backward
            pass an update less; the update then sees the chains before that step (published: False).
        lr: Step size of Adam (published: 1e-3).
        betas: Averaging of Adam's moments (published: 0.9, 0.999).
        buffer_size: Number of chains (published: 10,000).
        reinit_probability: Share of chains that start afresh (published: 0.05).
        precision: ``"float32"``, ``"bf16"``, or ``"auto"``: bf16 where the machine is fast at it.
        seed: Seed of chains and noise.

    Example:
        >>> import midway, torch
        >>> adapted = midway.TEA(midway.models.create("resnet20"), langevin_steps=2)
        >>> adapted(torch.rand(8, 3, 32, 32)).shape
        torch.Size([8, 10])
        >>> sorted(adapted.diagnostics)
        ['energy_gap', 'energy_images', 'energy_samples']
    """

    about = About(
        name="tea",
        title="TEA",
        colour="#882255",
        marker="h",
        paper="Yuan et al., CVPR 2024",
        paradigm="batch",
        moves="norm scales and shifts",
        answers="after",
        passes="N (T + 2) + 1 F, N (T + 2) B",
        needs=("norm layers", "batch statistics"),
    )
    evolving = ("model_ada", "randomness")
    search_space = search_over(
        steps=Integers(1, 4),
        langevin_steps=Integers(1, 20, log=True),
        langevin_step_size=LogUniform(0.02, 2.0),
        langevin_noise=LogUniform(1e-3, 0.1),
        lr=LogUniform(1e-4, 1e-2),
        reinit_probability=LogUniform(0.01, 0.5),
    )

    def __init__(
        self,
        model: nn.Module,
        *,
        steps: int = 1,
        langevin_steps: int = 20,
        langevin_step_size: float = 0.2,
        langevin_noise: float | None = 0.01,
        langevin_clip: float | None = None,
        shared_pass: bool = False,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        buffer_size: int = 10_000,
        reinit_probability: float = 0.05,
        precision: Precision = "float32",
        seed: int = 0,
    ) -> None:
        super().__init__(model)
        if steps < 1:
            raise ValueError(f"steps must be at least 1, got {steps}.")
        self.steps = steps
        use_batch_statistics(self.model)
        use_bf16(precision, torch.device("cpu"))  # an unknown precision is refused here, not at the first batch
        self.randomness = Randomness(seed)
        self.model_ada = ModelAda(
            EnergyModel(self.model, precision),
            freeze_all_but(self.model, norm_affine(self.model)),
            lr=lr,
            betas=betas,
            langevin_steps=langevin_steps,
            langevin_step_size=langevin_step_size,
            langevin_noise=langevin_noise,
            langevin_clip=langevin_clip,
            shared_pass=shared_pass,
            buffer=ReplayBuffer(capacity=buffer_size, reinit_probability=reinit_probability),
            randomness=self.randomness,
        )

    def step(self, images: Tensor) -> Tensor:
        """Take N steps of Algorithm 1 and answer f(x)."""
        for _ in range(self.steps):
            self.model_ada.step(images).note(self)
        with torch.no_grad():
            return self.model_ada.energy.logits(images)
