"""What a method makes sure of before anything moves."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor, nn

from midway.adaptation.parameters import first_weight
from midway.suggest import unknown

LOWEST, HIGHEST = -0.5, 1.5  # images are in [0, 1]; a little overshoot is fine, normalised images are not


def check_settings(method: type, settings: Mapping[str, Any]) -> None:
    """Refuse hyper-parameters that a method does not have, and what is no number, pair or truth where it wants one.

    Raises:
        TypeError: Which one, and what would be right.
        ValueError: One is NaN or infinite.

    Example:
        >>> import midway
        >>> from midway.adaptation.checks import check_settings
        >>> check_settings(midway.Tent, {"lr": "1e-3"})
        Traceback (most recent call last):
        TypeError: lr must be a number, got '1e-3'.
    """
    known = inspect.signature(method.__init__).parameters  # type: ignore[misc]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
        return
    for name, value in settings.items():
        if name == "statistics" and name not in known:
            raise TypeError(
                f'statistics is for midway.adapt(model, "...", statistics="kindred"); '
                f"here, give it a model with them: {method.__name__}(midway.kindred(model))."
            )
        if name == "preset" and name not in known:
            raise TypeError(f'preset is for midway.adapt(model, "...", preset={value!r}).')
        if name not in known:
            raise TypeError(unknown(f"hyper-parameter of {method.__name__}", name, list(known)[2:]))
        annotation = known[name].annotation
        kinds = (annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")).split(" | ")
        if not (value is None and "None" in kinds):
            _check_kind(name, value, kinds[0])


def _check_kind(name: str, value: Any, wanted: str) -> None:
    """Refuse what is not of a kind, for the kinds that are told apart here."""
    if wanted == "bool" and not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}.")
    if wanted == "tuple[float, float]":
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise TypeError(f"{name} must be two numbers, such as (0.9, 0.999), got {value!r}.")
        for number in value:
            _check_kind(name, number, "float")
    if wanted not in ("int", "float"):
        return
    if isinstance(value, bool | str) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    if wanted == "int" and not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, got {value!r}.")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}.")


def check_images(images: Tensor, model: nn.Module) -> None:
    """Refuse what is no batch of images for a model: type, shape, device, values.

    Raises:
        TypeError: Not a tensor of the model's floating-point type.
        ValueError: Wrong shape, empty, NaN or Inf, values far outside [0, 1], or another device.

    Example:
        >>> import torch
        >>> from midway.adaptation.checks import check_images
        >>> check_images(torch.rand(3, 32, 32), torch.nn.Flatten())
        Traceback (most recent call last):
        ValueError: images must have shape (N, C, H, W), got (3, 32, 32).
    """
    if not isinstance(images, Tensor):
        raise TypeError(f"images must be a torch.Tensor, got {type(images).__name__}: use torch.as_tensor(images).")
    if not images.is_floating_point():
        raise TypeError(f"images must be floating point in [0, 1], got {images.dtype}: divide by 255 as float.")
    if images.ndim != 4:
        raise ValueError(f"images must have shape (N, C, H, W), got {tuple(images.shape)}.")
    if images.numel() == 0:
        raise ValueError(f"the batch is empty: images have shape {tuple(images.shape)}.")
    parameter = first_weight(model, images)
    if images.device != parameter.device:
        raise ValueError(f"images are on {images.device}, the model is on {parameter.device}: move one of them.")
    if images.dtype != parameter.dtype:
        raise TypeError(f"images are {images.dtype}, the model is {parameter.dtype}: use images.to({parameter.dtype}).")
    lowest, highest = (bound.item() for bound in images.detach().aminmax())
    if not (math.isfinite(lowest) and math.isfinite(highest)):
        bad = (~images.isfinite()).flatten(1).any(dim=1).nonzero().flatten().tolist()
        raise ValueError(f"{len(bad)} of {len(images)} images hold NaN or Inf, the first at place {bad[0]}.")
    if lowest < LOWEST or highest > HIGHEST:
        raise ValueError(
            f"images must be in [0, 1], got values from {lowest:.3g} to {highest:.3g}: "
            "give them unnormalised, divided by 255 if they are bytes; normalisation belongs to the model, "
            "as torch.nn.Sequential(midway.models.Normalize(mean, std), model)."
        )


def check_answers(model: nn.Module, images: Tensor, count: int | None = None) -> None:
    """Refuse a model that does not answer a few images with logits.

    Args:
        model: The model.
        images: A few images.
        count: How many there were, for messages.

    Raises:
        ValueError: It fails on images of this shape, or answers with something else.

    Example:
        >>> import torch
        >>> from midway.adaptation.checks import check_answers
        >>> check_answers(torch.nn.Identity(), torch.rand(2, 3, 8, 8))
        Traceback (most recent call last):
        ValueError: the model must answer with logits (N, classes), got (2, 3, 8, 8) for 2 images.
    """
    try:
        with torch.no_grad():
            logits = model(images)
    except (RuntimeError, ValueError, IndexError) as error:
        lonely = len(images) == 1 and "xpected more than 1" in str(error)  # as torch's norm layers say
        single = " (a single image has no batch statistics there: give larger batches)" if lonely else ""
        shape = (count or len(images), *images.shape[1:])
        swapped = " ((N, C, H, W) is right: use images.movedim(-1, 1))" if images.shape[3] in (1, 3) else ""
        raise ValueError(
            f"the model does not take images of shape {shape}{single or swapped}: {_first_line(error)}"
        ) from error
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != len(images):
        shown = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(f"the model must answer with logits (N, classes), got {shown} for {len(images)} images.")
    if logits.shape[1] < 2:
        raise ValueError("the model has a single logit, so there is nothing to be sure of: give it one for each class.")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
