"""One interface to every network that predicts the noise in images: those of ``diffusers`` and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from midway._suggest import unknown
from midway.models.denoiser import cosine_schedule, linear_schedule

SCHEDULES: dict[str, Callable[[], Tensor]] = {"cosine": cosine_schedule, "linear": linear_schedule}
PREDICTIONS = ("epsilon", "v_prediction", "sample")


class NoisePredictor(nn.Module):
    """Calls a noise-predicting network and returns the noise and, if it predicts them, the variances of the steps.

    Args:
        denoiser: A network or function ``noise = denoiser(noisy, t)`` on images in [-1, 1] and noise levels (N,); its
            output may have the noise in ``.sample`` or as the first item, and twice the channels of the images: the
            second half then are variances between the smallest and the largest, as in guided diffusion. Or a pipeline
            with ``.unet`` and ``.scheduler``, such as those of ``diffusers``. It is used as given, not copied.
        schedule: The share of the image's variance that is left at each noise level: a decreasing tensor,
            ``"linear"``, ``"cosine"``, or None for that of the denoiser: ``alphas_cumprod`` of the network or of the
            scheduler.

    Attributes:
        alphas_cumprod: The schedule, in float64, on the CPU.
        predicts: What the network returns: ``"epsilon"``, the noise; or what it is computed from, ``"v_prediction"``
            or ``"sample"``, as the scheduler's ``config.prediction_type`` says.

    Example:
        >>> import torch
        >>> predictor = NoisePredictor(lambda noisy, t: 0.5 * noisy, "linear")
        >>> noise, variances = predictor(torch.ones(1, 3, 8, 8), torch.tensor([10]))
        >>> noise.mean().item(), variances
        (0.5, None)
    """

    def __init__(self, denoiser: Any, schedule: Tensor | str | None = None) -> None:
        super().__init__()
        scheduler = getattr(denoiser, "scheduler", None)
        network = getattr(denoiser, "unet", denoiser)
        if not callable(network):
            raise TypeError(
                f"denoiser must be a network noise = denoiser(noisy, t), or a pipeline with .unet and .scheduler, "
                f"got {type(denoiser).__name__}."
            )
        self.network = network
        # No buffer: the ratios of neighbouring levels are close to 1, and half precision would lose them.
        self.alphas_cumprod = _schedule_of(denoiser, scheduler, schedule)
        self.predicts = str(getattr(getattr(scheduler, "config", None), "prediction_type", "epsilon"))
        if self.predicts not in PREDICTIONS:
            raise ValueError(unknown("prediction_type of the scheduler", self.predicts, PREDICTIONS))

    def forward(self, noisy: Tensor, t: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the noise, and where each variance lies between the smallest (0) and the largest (1), or None."""
        weight = next((each for each in self.parameters() if each.is_floating_point()), noisy)
        output = self.network(noisy.to(weight.dtype), t)  # half precision in the network alone
        output = getattr(output, "sample", output)
        output = output[0] if isinstance(output, tuple | list) else output
        channels = noisy.shape[1]
        if not isinstance(output, Tensor) or output.shape not in (noisy.shape, _doubled(noisy.shape)):
            shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
            raise ValueError(
                f"the denoiser must return noise of the shape of the images, {tuple(noisy.shape)}, got {shape}: "
                "give a denoiser for such images."
            )
        output = output.to(noisy.dtype)
        between = (output[:, channels:] + 1) / 2 if output.shape[1] > channels else None
        output = output[:, :channels]
        if self.predicts == "epsilon":
            return output, between
        share = self.alphas_cumprod[t.cpu()].to(noisy)[:, None, None, None]
        if self.predicts == "v_prediction":
            return share.sqrt() * output + (1 - share).sqrt() * noisy, between
        return (noisy - share.sqrt() * output) / (1 - share).sqrt(), between


def _doubled(shape: torch.Size) -> torch.Size:
    return torch.Size((shape[0], 2 * shape[1], *shape[2:]))


def _schedule_of(denoiser: Any, scheduler: Any, schedule: Tensor | str | None) -> Tensor:
    """Return a schedule in float64: the given one, a named one, or that of the denoiser."""
    if isinstance(schedule, str):
        if schedule not in SCHEDULES:
            raise ValueError(unknown("schedule", schedule, SCHEDULES))
        return SCHEDULES[schedule]()
    if schedule is None:
        schedule = getattr(denoiser if scheduler is None else scheduler, "alphas_cumprod", None)
    if schedule is None:
        raise ValueError(
            "the denoiser has no alphas_cumprod, the schedule that it was trained with: "
            'give schedule="linear", "cosine" or a tensor.'
        )
    shares = torch.as_tensor(schedule).detach().cpu().double().clone()
    if shares.ndim != 1 or not bool((shares > 0).all() and (shares < 1).all() and (shares.diff() < 0).all()):
        raise ValueError("the schedule must be a vector of decreasing numbers between 0 and 1.")
    return shares
