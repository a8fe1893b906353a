"""DDA: diffusion-driven adaptation (Gao et al., CVPR 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from midway.adaptation.about import About
from midway.adaptation.base import Method
from midway.adaptation.checks import check_range
from midway.adaptation.copies import in_evaluation_mode, independent_copy
from midway.adaptation.parameters import first_weight
from midway.adaptation.problem import Problem
from midway.adaptation.registry import register
from midway.adaptation.space import Choice, Integers, LogUniform, preset_values, search_over
from midway.functional import at_least_float32, log_mean_softmax
from midway.models import NoisePredictor, denoiser_cards, load_denoiser
from midway.sampling import Randomness
from midway.sampling.diffusion import Respaced, purify

Ensemble = Literal["probabilities", "logits", "none"]
VALUES_PER_PASS = 400_000
"""Largest number of values in the images that one pass through the denoiser processes."""


def ensemble_of(logits: list[Tensor], kind: Ensemble) -> Tensor:
    """Combine the logits of an image as given and as adapted: their mean, or the logarithm of mean probabilities."""
    return torch.stack(logits).mean(dim=0) if len(logits) == 1 or kind == "logits" else log_mean_softmax(logits)


@register
class DDA(Method):
    """Adapts the images, not the network: a diffusion model moves each image to the source data.

    Each image is mixed with noise, and a noise-predicting network that was trained on the source data removes the noise
    step by step. A gradient keeps the coarse structures of the image. The prediction is the mean of the probabilities
    of the image as given and as adapted, so the more confident of the two decides. The network runs in evaluation mode,
    with the source's statistics. Images are independent, so predictions do not depend on how a stream is split into
    batches. For the guidance, the published code takes the norm over four images, Midway the norm of each image.

    Paper: Gao et al., CVPR 2023.

    Args:
        model: The classifier; it does not change.
        denoiser: ``"cifar10"``, the network in the package (for natural images of about 32x32 pixels, in colour or
            grey); any network ``noise = denoiser(noisy, t)`` on images in [-1, 1]; or a pipeline with ``.unet`` and
            ``.scheduler``, such as ``diffusers.DDPMPipeline``. See ``midway.models.NoisePredictor``.
        schedule: The noise schedule of the denoiser, if it has none of its own: ``"linear"``, ``"cosine"``, or a tensor
            with the share of the image's variance that is left at each noise level.
        respacing: Number of noise levels that the schedule is reduced to, at equal distances (published: 100); None
            chooses by image size.
        steps: Number of reverse steps, from this level down (published: 50); None chooses by image size.
        noise_level: Mix the image with the noise of the ``"first"`` reverse step or the ``"next"`` level (published).
        scale: Strength of the guidance (published: 6, for 256x256 pixels); None chooses by image size.
        factor: Factor of the low-pass filter whose result the guidance keeps (published: 4).
        ensemble: ``"probabilities"``, the mean over the image as given and as adapted (published); ``"logits"``, the
            mean of these; or ``"none"``, the adapted image alone.
        images_at_once: Images per pass through the denoiser; None limits memory. It does not affect the predictions.
        seed: Seed of the noise.

    Attributes:
        adapted_images: The last batch, adapted, in [0, 1]; None before the first.

    Example:
        >>> import midway, torch
        >>> adapted = midway.DDA(midway.models.load("wrn16_2.cifar10"), respacing=20, steps=2)
        >>> adapted(torch.rand(2, 3, 32, 32)).exp().sum(dim=1).round(decimals=3)
        tensor([1., 1.])
        >>> adapted.adapted_images.shape
        torch.Size([2, 3, 32, 32])
    """

    about = About(
        name="dda",
        title="DDA",
        colour="#4f7a1f",
        marker="8",
        paper="Gao et al., CVPR 2023",
        paradigm="purification",
        adapts="the images",
        predicts="after",
        passes="2 F, S (F + B) of the denoiser (S steps)",
        needs=("a denoiser",),
        uses_other_images=False,
        aligns_each_image=True,
    )
    search_space = search_over(
        respacing=Choice(50, 100),
        steps=Integers(2, 50, log=True),
        scale=LogUniform(0.03, 6.0),
        factor=Choice(2, 4, 8),
        ensemble=Choice("probabilities", "logits"),
    )
    published = preset_values(respacing=100, steps=50, noise_level="next", scale=6.0)

    def __init__(
        self,
        model: nn.Module,
        *,
        denoiser: Any = "cifar10",
        schedule: Tensor | str | None = None,
        respacing: int | None = None,
        steps: int | None = None,
        noise_level: Literal["first", "next"] = "first",
        scale: float | None = None,
        factor: int = 4,
        ensemble: Ensemble = "probabilities",
        images_at_once: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model)
        if denoiser is None:
            raise ValueError(
                'denoiser must be a noise-predicting network for the images of the source, or "cifar10" for the one in '
                "the package, got None."
            )
        check_range(at_least=1, factor=factor)
        check_range(at_least=1, or_none=True, steps=steps, images_at_once=images_at_once)
        check_range(at_least=0, or_none=True, scale=scale)
        self.factor, self.ensemble, self.images_at_once = factor, ensemble, images_at_once
        given = load_denoiser(f"unet.{denoiser}") if isinstance(denoiser, str) else denoiser
        copied = independent_copy(NoisePredictor(given, schedule), torch.contiguous_format)
        assert isinstance(copied, NoisePredictor)
        device = first_weight(self.model, torch.empty(0, dtype=torch.float32)).device
        self.denoiser = copied.to(device).requires_grad_(False)
        in_evaluation_mode(self.denoiser)
        self.embedded = isinstance(denoiser, str)
        if respacing is not None:
            self._schedule(respacing, steps or 1, "first")
        self.adapted_images: Tensor | None = self.add_state("adapted_images", None)
        self.randomness = self.add_state("randomness", Randomness(seed))

    @classmethod
    def further_weights(cls, settings: Mapping[str, Any]) -> str | None:
        """Return the digest of a denoiser in the package; the settings of plans cannot contain others."""
        denoiser = settings.get("denoiser", "cifar10")
        known = {card.name: card.sha256[:16] for card in denoiser_cards()}
        return known.get(f"unet.{denoiser}")

    @classmethod
    def defaults_for(cls, problem: Problem) -> dict[str, Any]:
        """Return the published values for ImageNet, and those chosen on the tuning corruptions for CIFAR."""
        if problem.is_imagenet_size:
            return {name: cls.published[name] for name in ("respacing", "steps", "scale")}
        return {"respacing": 50, "steps": 5, "scale": 0.5}

    def step(self, images: Tensor) -> Tensor:
        """Return the logarithm of the mean probabilities of the images as given and as adapted."""
        logits = [] if self.ensemble == "none" else [self.network_logits(images)]
        self.resolve(images)
        schedule, start = self._schedule(
            *(self.hyperparameters[name] for name in ("respacing", "steps", "noise_level"))
        )
        size = self.images_at_once or max(1, VALUES_PER_PASS // images[0].numel())
        adapted = torch.cat([self._purify(few, schedule, start) for few in images.split(size)])
        self.adapted_images = adapted.to(images.dtype).contiguous(memory_format=self.memory_format)
        self.record(displacement=(self.adapted_images - images).flatten(1).norm(dim=1).mean().item())
        return ensemble_of([*logits, self.network_logits(self.adapted_images)], self.ensemble)

    def mirrored_logits(self, images: Tensor) -> Tensor:
        """Return the logits for the mirror images of the images as given and as adapted."""
        adapted = images if self.adapted_images is None else self.adapted_images
        seen = [adapted] if self.ensemble == "none" else [images, adapted]
        return ensemble_of([self.network_logits(each.flip(-1)) for each in seen], self.ensemble)

    def _schedule(self, respacing: int, steps: int, noise_level: str) -> tuple[Respaced, float]:
        """Return the noise levels of the reverse steps, and how much of the image is left at the start."""
        schedule = Respaced.of(self.denoiser.alphas_cumprod, respacing)
        if steps > respacing:
            raise ValueError(f"steps must be at most respacing, {respacing}, got {steps}.")
        start = schedule.shares[steps - 1 if noise_level == "first" else min(steps, respacing - 1)]
        return Respaced(schedule.levels[:steps], schedule.shares[:steps]), start

    def _purify(self, images: Tensor, schedule: Respaced, start: float) -> Tensor:
        """Return images in [0, 1] without what the denoiser takes for noise."""
        if self.embedded and images.shape[1] not in (1, 3):
            raise ValueError(
                f"the denoiser in the package is for images in colour or grey, got {images.shape[1]} channels: "
                "give a denoiser for such images."
            )
        scaled = 2 * at_least_float32(images) - 1
        grey = self.embedded and images.shape[1] == 1
        scaled = scaled.expand(-1, 3, -1, -1) if grey else scaled
        # Drawn image by image on the CPU: the numbers depend neither on the batch nor on device and precision.
        generator = self.randomness.on(torch.device("cpu"))
        shape = (len(schedule.levels), *scaled.shape[1:])
        drawn = [torch.randn(shape, generator=generator, dtype=torch.float32, device="cpu") for _ in images]
        noise = torch.stack(drawn).to(scaled)
        scale = self.hyperparameters["scale"]
        adapted = purify(scaled, self.denoiser, schedule, noise, scale=scale, factor=self.factor, start=start)
        return (adapted.mean(dim=1, keepdim=True) if grey else adapted) / 2 + 0.5
