"""Sample images from a classifier that is interpreted as an energy-based model."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from midway.adaptation.classifier import AdaptiveClassifier
from midway.functional import free_energy
from midway.models.outputs import logits_of
from midway.sampling import langevin


def sample_images(
    model: nn.Module,
    count: int,
    *,
    shape: Sequence[int] = (3, 32, 32),
    steps: int = 100,
    step_size: float = 0.2,
    noise: float | None = 0.01,
    clip: float | None = None,
    seed: int = 0,
) -> Tensor:
    """Sample images by Langevin dynamics from uniform noise, as in the paper's figures.

    Args:
        model: A classifier in evaluation mode, or a method, whose network is used in its current state (for MITA,
            ``adapted.data_model`` is the more generative one). It is not changed.
        count: Number of images. Networks with batch statistics process them as one batch.
        shape: Channels, height and width.
        steps: Length of the chains.
        step_size: Alpha; a step is alpha / 2 times the gradient.
        noise: Standard deviation of the noise; None is sqrt(step_size).
        clip: Largest entry of the gradient; None does not clip.
        seed: Seed of the start and of the noise.

    Example:
        >>> import midway
        >>> midway.sample_images(midway.models.create("resnet20").eval(), 2, steps=1).shape  # clamped to [0, 1]
        torch.Size([2, 3, 32, 32])
    """
    network = model.model if isinstance(model, AdaptiveClassifier) else model
    if any(module.training for module in network.modules()):
        raise ValueError(
            "the model is in training mode, in which sampling would change its statistics: call model.eval()."
        )
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    with torch.inference_mode(False), torch.enable_grad():
        generator = torch.Generator(device).manual_seed(seed)
        start = torch.empty((count, *shape), device=device).uniform_(-1, 1, generator=generator)
        result = langevin(
            lambda images: free_energy(logits_of(network(images)).float()),
            start,
            steps=steps,
            step_size=step_size,
            noise=noise,
            clip=clip,
            generator=generator,
        )
    return result.images.clamp(0, 1)
