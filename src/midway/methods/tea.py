"""TEA: test-time energy adaptation (Yuan et al., CVPR 2024)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from midway.adaptation.about import About
from midway.adaptation.base import Method
from midway.adaptation.batch_norm.statistics import use_batch_statistics
from midway.adaptation.energy import Chains, EnergyModel, ModelAda
from midway.adaptation.parameters import freeze_all_but, norm_affine
from midway.adaptation.precision import Precision
from midway.adaptation.registry import register
from midway.adaptation.space import Integers, LogUniform, search_over
from midway.sampling import Randomness


@register
class TEA(Method):
    """Adapts scales and shifts of the normalisation layers to make the test images likely under the model.

    The steps are Algorithm 1 of the MITA paper (``midway.adaptation.energy.ModelAda``). The method uses batch
    statistics and returns the logits from after the update.

    Paper: Yuan et al., CVPR 2024.

    Args:
        model: The classifier to adapt.
        steps: Updates per batch, N (published: 1).
        langevin_steps: T (published: 20).
        langevin_step_size: Alpha; a step is alpha / 2 times the gradient (the published code uses 0.1 times it).
        langevin_noise: Standard deviation of the noise (published: 0.01); None is the paper's sqrt(alpha).
        langevin_clip: Largest entry of the image gradient; None does not clip, as published.
        shared_pass: Take the last step of the chains in the pass of the update, which then sees the chains before that
            step; it saves one forward and backward pass per update (published: False).
        lr: Step size of Adam (published: 1e-3).
        betas: Averaging of Adam's moments (published: 0.9, 0.999).
        buffer_size: Number of chains (published: 10,000); with 0 every chain starts from noise in every update.
        reinit_probability: Share of chains that restart from noise (published: 0.05).
        precision: ``"float32"``, ``"bf16"``, or ``"auto"``: bf16 if the hardware supports it.
        seed: Seed of chains and noise.

    Example:
        >>> import midway, torch
        >>> adapted = midway.TEA(midway.models.create("resnet20"), langevin_steps=2)
        >>> adapted(torch.rand(8, 3, 32, 32)).shape, sorted(adapted.diagnostics)
        (torch.Size([8, 10]), ['energy_gap', 'energy_images', 'energy_samples'])
    """

    about = About(
        name="tea",
        title="TEA",
        colour="#882255",
        marker="h",
        paper="Yuan et al., CVPR 2024",
        paradigm="batch",
        adapts="norm scales and shifts",
        predicts="after",
        passes="N (T + 2) + 1 F, N (T + 2) B",
        uses_energy=True,
        needs=("norm layers", "batch statistics"),
    )
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
        chains = Chains(
            steps=langevin_steps,
            step_size=langevin_step_size,
            noise=langevin_noise,
            clip=langevin_clip,
            shared_pass=shared_pass,
            buffer_size=buffer_size,
            reinit_probability=reinit_probability,
        )
        self.steps = steps
        use_batch_statistics(self.model)
        freeze_all_but(self.model, norm_affine(self.model))
        self.energy = EnergyModel(self.model, precision)
        self.randomness = self.add_state("randomness", Randomness(seed))
        model_ada = ModelAda(self.energy, chains=chains, lr=lr, betas=betas, randomness=self.randomness)
        self.model_ada = self.add_state("model_ada", model_ada)

    def step(self, images: Tensor) -> Tensor:
        """Take N steps of Algorithm 1 and return f(x)."""
        for update in self.model_ada.adapt(images, self.steps):
            update.record(self)
        with torch.no_grad():
            return self.energy.logits(images)
