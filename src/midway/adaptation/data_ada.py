"""Algorithm 2 of the MITA paper: adapt images to a classifier as an energy-based model."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from midway.adaptation.batch_norm.cluster_state import shares_of_images
from midway.adaptation.energy import ContrastiveStep, EnergyModel, step_scale
from midway.functional import free_energy
from midway.sampling import SpectralFilter, langevin_step


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


class DataAda:
    """Algorithm 2: adapt the data to the model by Td Langevin steps without noise, from the images (eq. 10).

    ``gradient_filter="spectral"`` filters the gradient by the spectrum of the batch (``SpectralFilter``).
    ``by_uncertainty`` multiplies the step size by ``step_scale`` of the logits of the images. ``largest_decrease``
    shortens the steps of images whose energy would fall further than that, to first order.
    """

    def __init__(
        self,
        energy: EnergyModel,
        *,
        steps: int,
        step_size: float,
        gradient_filter: Literal["spectral"] | None = None,
        by_uncertainty: bool = False,
        largest_decrease: float | None = None,
    ) -> None:
        if gradient_filter not in ("spectral", None):
            raise ValueError(f"gradient_filter must be 'spectral' or None, got {gradient_filter!r}.")
        if step_size < 0:
            raise ValueError(f"data_step_size must be 0 or more, got {step_size}.")
        if largest_decrease is not None and not largest_decrease > 0:
            raise ValueError(f"largest_decrease must be above 0, or None for no limit, got {largest_decrease}.")
        self.energy, self.steps, self.step_size = energy, steps, step_size
        self.gradient_filter, self.by_uncertainty = gradient_filter, by_uncertainty
        self.largest_decrease = largest_decrease

    def adapt(self, images: Tensor, update: ContrastiveStep | None = None) -> AdaptedImages:
        """Take Td steps: x' = DataAda(theta, x).

        If an update of the model has computed the gradient of the images, it is that of the first step.
        """
        adapted, stalled = images.detach(), torch.zeros(len(images), dtype=torch.bool, device=images.device)
        shortened = torch.zeros_like(stalled)
        if update is not None and update.image_gradient is not None:
            logits, gradient = update.logits, update.image_gradient
        else:
            logits, gradient = self._gradient(adapted)
        step_size = self.step_size * (step_scale(logits) if self.by_uncertainty else 1)
        spectral = None
        if self.gradient_filter == "spectral":  # with clustered statistics, each cluster of images has its own filter
            spectral = SpectralFilter(images, shares_of_images(self.energy.network))
        for step_number in range(self.steps):
            if step_number > 0:
                _, gradient = self._gradient(adapted)
            step = gradient if spectral is None else spectral(gradient)
            if self.largest_decrease is not None:
                exact = torch.promote_types(step.dtype, torch.float32)
                decrease = step_size / 2 * (gradient.to(exact) * step).flatten(1).sum(dim=1)  # dE/dx times the step
                share = (self.largest_decrease / decrease.clamp_min(self.largest_decrease)).to(step)
                step, shortened = step * share.view(-1, 1, 1, 1), shortened | (share < 1)
            adapted, skipped = langevin_step(adapted, step, step_size=step_size, noise=0)
            stalled |= skipped
        return AdaptedImages(adapted, stalled, shortened, logits)

    def _gradient(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return f(x), detached, and dE/dx."""
        x = images.detach().requires_grad_()
        logits = self.energy.logits(x)
        (gradient,) = torch.autograd.grad(free_energy(logits).sum(), x)
        return logits.detach(), gradient
