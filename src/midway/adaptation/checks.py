"""Checks that run before anything changes: hyper-parameters, images, logits."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Mapping
from numbers import Integral, Real
from operator import ge, gt, le, lt
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import torch
from torch import Tensor, nn

from midway._errors import shorten_error
from midway._suggest import unknown
from midway.adaptation.parameters import first_weight
from midway.functional import free_energy
from midway.models.outputs import logits_of

LOWEST, HIGHEST = -0.5, 1.5  # images are in [0, 1]: a small overshoot is accepted, normalised images are not


def check_hyperparameters(method: type, given: Mapping[str, Any]) -> None:
    """Refuse hyper-parameters that a method does not have, and values that do not match its annotations.

    A constructor with ``**settings`` accepts any name; the annotations are then also those of the inherited ones.
    """
    known: dict[str, Any] = {}
    has_settings = []
    for owner in (each for each in method.__mro__ if "__init__" in vars(each)):
        annotations, is_open = _annotations(owner)
        known = annotations | known
        has_settings.append(is_open)
        if not is_open:
            break
    for name, value in given.items():
        if name in known:
            annotation = known[name]
            types = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
            if not (value is None and NoneType in types):
                _check_type(name, value, types[0], or_none=NoneType in types)
        elif has_settings[0]:
            continue
        elif name == "statistics":
            raise TypeError(
                f'statistics is an argument of midway.adapt(model, "...", statistics="clustered"); '
                f"write {method.__name__}(midway.clustered(model)) instead."
            )
        elif name in ("preset", "on_nonfinite", "views"):
            raise TypeError(f'{name} is an argument of midway.adapt(model, "...", {name}={value!r}).')
        else:
            raise TypeError(unknown(f"hyper-parameter of {method.__name__}", name, list(known)))


def _annotations(owner: type) -> tuple[dict[str, Any], bool]:
    """Return the annotated hyper-parameters of a class's own constructor, and whether it accepts others."""
    constructor = owner.__init__  # type: ignore[misc]
    parameters = list(inspect.signature(constructor).parameters.values())[2:]  # without self and the model
    try:
        hints = get_type_hints(constructor)
    except NameError:  # of a class that is imported for type checkers alone
        hints = {}
    is_open = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    named = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
    return {name: hints.get(name) for name in named}, is_open


def _check_type(name: str, value: Any, wanted: Any, *, or_none: bool = False) -> None:
    """Refuse a value that does not match an annotation; annotations other than these few are not checked."""
    if wanted is bool and not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}.")
    if get_origin(wanted) is Literal and value not in get_args(wanted):
        *others, last = [*map(repr, get_args(wanted)), *["None"] * or_none]
        raise ValueError(f"{name} must be {', '.join(others)} or {last}, got {value!r}.")
    if wanted == tuple[float, float]:
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise TypeError(f"{name} must be two numbers, such as (0.9, 0.999), got {value!r}.")
        for number in value:
            _check_type(name, number, float)
    if wanted not in (int, float):
        return
    if isinstance(value, bool | str) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    if wanted is int and not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}.")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}.")


def check_range(
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    or_none: bool = False,
    **values: float | None,
) -> None:
    """Refuse hyper-parameters outside a range; those that are None are accepted.

    With ``or_none``, the error says that None is allowed.

    Example:
        >>> from midway.adaptation.checks import check_range
        >>> check_range(at_least=0, below=1, averaging=0.9, threshold=1.0)
        Traceback (most recent call last):
        ValueError: threshold must be at least 0 and below 1, got 1.0.
    """
    bounds = [("at least", at_least, ge), ("above", above, gt), ("at most", at_most, le), ("below", below, lt)]
    given = [(words, bound, holds) for words, bound, holds in bounds if bound is not None]
    for name, value in values.items():
        if value is not None and not all(holds(value, bound) for _, bound, holds in given):
            allowed = " and ".join(f"{words} {bound}" for words, bound, _ in given)
            raise ValueError(f"{name} must be {allowed}{', or None' * or_none}, got {value}.")


def refuse_meta_default() -> None:
    """Refuse to create tensors without values, which happens if meta is the default device of torch."""
    if torch.get_default_device().type == "meta":
        raise ValueError("the default device of torch is meta, without values: use torch.set_default_device('cpu').")


def check_images(images: Tensor, model: nn.Module, *, signals: bool = False) -> None:
    """Refuse images that are not a batch for a model: type, shape, device, values; ``signals`` accepts (N, C, L)."""
    if not isinstance(images, Tensor):
        raise TypeError(_no_tensor(images))
    if images.layout is not torch.strided or images.is_nested:
        kind = "nested" if images.is_nested else str(images.layout).removeprefix("torch.")
        raise TypeError(f"images must be a dense tensor, got a {kind} one: stack them, or use images.to_dense().")
    if not images.is_floating_point():
        raise TypeError(f"images must be floating point in [0, 1], got {images.dtype}: divide by 255 as float.")
    # A network with 2D convolutions accepts a single image (C, H, W), which must not pass for a batch of signals.
    of_signals = images.ndim == 3 and not any(isinstance(module, nn.Conv2d) for module in model.modules())
    if images.ndim != 4 and not (signals and of_signals):
        hint = " (signals (N, C, L) need a method without image operations, such as tent)" if of_signals else ""
        hint = hint or (
            ": give a single image as images[None], grey images as images[:, None]" if images.ndim == 3 else ""
        )
        raise ValueError(f"images must have shape (N, C, H, W), got {tuple(images.shape)}{hint}.")
    if images.numel() == 0:
        raise ValueError(f"the batch is empty: images have shape {tuple(images.shape)}.")
    refuse_meta_default()
    parameter = first_weight(model, images)
    if images.device != parameter.device:
        raise ValueError(f"images are on {images.device}, the model is on {parameter.device}: move one of them.")
    if images.dtype != parameter.dtype:
        raise TypeError(f"images are {images.dtype}, the model is {parameter.dtype}: use images.to({parameter.dtype}).")
    lowest, highest = (bound.item() for bound in images.detach().aminmax())
    if not (math.isfinite(lowest) and math.isfinite(highest)):
        bad = (~images.isfinite()).flatten(1).any(dim=1).nonzero().flatten().tolist()
        raise ValueError(f"{len(bad)} of {len(images)} images contain NaN or Inf, the first has index {bad[0]}.")
    if images.ndim == 4 and (lowest < LOWEST or highest > HIGHEST):
        raise ValueError(
            f"images must be in [0, 1], got values from {lowest:.3g} to {highest:.3g}: "
            "give them unnormalised, divided by 255 if they are bytes, and make normalisation a part of the model, "
            "as torch.nn.Sequential(midway.models.Normalize(mean, std), model)."
        )


def _no_tensor(images: object) -> str:
    remedy = "torch.stack(list(images))" if isinstance(images, list | tuple) else "torch.as_tensor(images)"
    return (
        f"images must be a torch.Tensor (N, C, H, W) in [0, 1], got {type(images).__name__}: use {remedy} on tensors "
        "or arrays; midway.data.load and midway.compare read files."
    )


def is_logits(output: object, images: Tensor) -> bool:
    """Return whether an output has one row for each image."""
    return isinstance(output, Tensor) and output.ndim == 2 and len(output) == len(images)


def check_logits(model: nn.Module, images: Tensor, batch_size: int | None = None) -> Tensor:
    """Return the logits of a few images of a batch, whose size is for the error message; refuse other outputs."""
    try:
        with torch.no_grad():
            logits = logits_of(model(images))
    except torch.OutOfMemoryError:
        raise  # a failure of the moment says nothing about the network
    except Exception as error:  # the code of a network can raise anything
        single_image = len(images) == 1 and "xpected more than 1" in str(error)  # the words of torch's norm layers
        single = " (a single image has no batch statistics in some layer: give larger batches)" if single_image else ""
        shape = (batch_size or len(images), *images.shape[1:])
        is_swapped = images.ndim == 4 and images.shape[3] in (1, 3)
        swapped = " ((N, C, H, W) is right: use images.movedim(-1, 1))" if is_swapped else ""
        is_grey = images.ndim == 4 and images.shape[1] == 1
        swapped = swapped or (" (for grey images use images.expand(-1, 3, -1, -1))" if is_grey else "")
        of_grey = images.ndim == 4 and images.shape[1] == 3 and f"have {1} channels" in str(error)
        swapped = swapped or (" (to a network of grey images give images.mean(dim=1, keepdim=True))" if of_grey else "")
        if "running_mean must be defined" in str(error):  # the words of torch's functional batch_norm
            swapped = " (its BatchNorm layers must be called as modules: methods replace their statistics)"
        reason = shorten_error(error)
        if not isinstance(error, RuntimeError | ValueError | IndexError) and str(error):
            reason = f"{type(error).__name__}: {reason}"
        raise ValueError(f"the model does not accept images of shape {shape}{single or swapped}: {reason}") from error
    if isinstance(logits, Tensor) and logits.shape in (images.shape[:1], (len(images), 1)):
        raise ValueError(_SINGLE_LOGIT)
    if not is_logits(logits, images):
        raise ValueError(
            f"the model must return logits (N, classes), got {_shown(logits, len(images), batch_size)} "
            f"for {batch_size or len(images)} images."
        )
    if not logits.is_floating_point():
        raise ValueError(f"the model returns {logits.dtype} logits, which carry no gradient: return floating point.")
    checked: Tensor = logits
    return checked


_SINGLE_LOGIT = (
    "the model has a single logit, and methods need one for each of two or more classes: give "
    "torch.nn.Sequential(model, midway.models.TwoLogits()), whose classes 0 and 1 have the same probabilities."
)


def _shown(output: object, probed: int, batch_size: int | None) -> str:
    """Describe an output for a few images of a batch as it would be for the whole batch."""
    if isinstance(output, Tensor):
        of_images = output.ndim > 0 and len(output) == probed
        shape = (batch_size or probed, *output.shape[1:]) if of_images else tuple(output.shape)
        return str(shape)
    if isinstance(output, Mapping):
        return f"a {type(output).__name__} without 'logits' ({', '.join(map(str, output))})"
    return f"a {type(output).__name__}"


def has_gradient(model: nn.Module, images: Tensor, *, of_images: bool = False) -> bool:
    """Return whether the logits of images depend differentiably on the weights of a network, or on the images.

    The forward pass may change buffers. A network that raises an error counts as differentiable: the step will show it.
    """
    floating = [parameter for parameter in model.parameters() if parameter.is_floating_point()]
    weights = [parameter for parameter in floating if parameter.requires_grad]
    frozen = [] if weights else floating  # MEMO adapts copies of frozen weights
    images = images.detach().clone().requires_grad_(of_images)
    try:
        with warnings.catch_warnings(), torch.enable_grad():
            warnings.simplefilter("ignore")
            for parameter in frozen:
                parameter.requires_grad_()
            logits = logits_of(model(images))
            wanted = [images] if of_images else weights or frozen
            gradients = torch.autograd.grad(logits.sum(), wanted, allow_unused=True) if logits.requires_grad else ()
    except Exception:  # the code of a network can raise anything
        return True
    finally:
        for parameter in frozen:
            parameter.requires_grad_(False)
    return any(gradient is not None for gradient in gradients)


def warn_of_probabilities(logits: Tensor, stacklevel: int) -> bool:
    """Warn if the outputs of a network are probabilities, and return whether they are."""
    sums = logits.detach().float().sum(dim=1)
    tolerance = 1e-3 if logits.dtype in (torch.float32, torch.float64) else 2e-2
    if not (bool((logits >= 0).all()) and bool(((sums - 1).abs() <= tolerance).all())):
        return False
    warnings.warn(
        "the network returns probabilities (rows that are not negative and sum to one), and methods need logits: "
        "every entropy and energy would be wrong. Remove the softmax at its end, for example model[:-1] of a "
        "torch.nn.Sequential. (Without access to the network, probabilities.log() are logits for all methods but TEA, "
        "MITA and AEA.)",
        stacklevel=stacklevel + 1,
    )
    return True


def refuse_log_probabilities(logits: Tensor, title: str) -> None:
    """Refuse a network whose outputs are log-probabilities for a method that adapts by the energy of images."""
    energies = free_energy(logits.detach().float())
    tolerance = 1e-4 if logits.dtype in (torch.float32, torch.float64) else 2e-2
    if bool((energies.abs() <= tolerance).all()):
        raise ValueError(
            f"the network returns log-probabilities, whose energy is 0 for every image, and {title} "
            "adapts by energies: return the logits themselves, without log_softmax."
        )
