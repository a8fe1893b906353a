"""Which parameters move, for any architecture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

NORM_LAYERS: tuple[type[nn.Module], ...] = (_BatchNorm, _InstanceNorm, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)


def norm_layers(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the normalisation layers of a model with their names.

    A layer counts if it is one of torch's, or if its class is called something with Norm and it has a weight vector:
    many networks bring their own LayerNorm2d or RMSNorm.

    Example:
        >>> from torch import nn
        >>> from midway.adaptation.parameters import norm_layers
        >>> [name for name, _ in norm_layers(nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.ReLU()))]
        ['1']
    """
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        homemade = "norm" in type(module).__name__.lower() and isinstance(weight, nn.Parameter) and weight.ndim == 1
        if isinstance(module, NORM_LAYERS) or homemade:
            yield name, module


def norm_affine(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the scales and shifts of the normalisation layers, by name.

    Raises:
        ValueError: The model has none, so a method that moves them has nothing to move.

    Example:
        >>> from torch import nn
        >>> from midway.adaptation.parameters import norm_affine
        >>> sorted(norm_affine(nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))))
        ['1.bias', '1.weight']
    """
    found: dict[str, nn.Parameter] = {}
    seen = set()
    for layer, module in norm_layers(model):
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in seen:  # layers may share theirs
                seen.add(id(parameter))
                found[f"{layer}.{name}".lstrip(".")] = parameter
    if not found:
        raise ValueError(
            "the model has no normalisation layer with a scale and a shift to adapt: "
            "use a network with affine normalisation layers, or a method that moves other things, such as lame or t3a."
        )
    return found


def first_weight(model: nn.Module, otherwise: Tensor) -> Tensor:
    """Return the first floating-point parameter, whose type and device images must have; a model may have none.

    Example:
        >>> import torch
        >>> from midway.adaptation.parameters import first_weight
        >>> first_weight(torch.nn.Flatten(), torch.empty(0)).dtype
        torch.float32
    """
    return next((parameter for parameter in model.parameters() if parameter.is_floating_point()), otherwise)


def freeze_all_but(model: nn.Module, moving: dict[str, nn.Parameter]) -> list[nn.Parameter]:
    """Let gradients flow to these parameters alone and return them as a list for the optimiser.

    Raises:
        TypeError: They are of half precision.

    Example:
        >>> from torch import nn
        >>> from midway.adaptation.parameters import freeze_all_but, norm_affine
        >>> model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
        >>> len(freeze_all_but(model, norm_affine(model))), model[0].weight.requires_grad
        (2, False)
    """
    moving = {name: parameter for name, parameter in moving.items() if parameter.is_floating_point()}
    refuse_half_precision(moving)
    model.requires_grad_(False)
    for parameter in moving.values():
        parameter.requires_grad_(True)
    return list(moving.values())


def refuse_half_precision(moving: Mapping[str, nn.Parameter]) -> None:
    """Refuse weights of 16 bits: small steps are lost in them, and Adam's moments are not finite.

    Raises:
        TypeError: One of them is.

    Example:
        >>> from torch import nn
        >>> from midway.adaptation.parameters import refuse_half_precision
        >>> refuse_half_precision(dict(nn.Linear(2, 2).named_parameters()))
    """
    for name, parameter in moving.items():
        if parameter.dtype in (torch.float16, torch.bfloat16):
            raise TypeError(
                f"{name} is {parameter.dtype}, too coarse for the small steps of adaptation: "
                "give the model as float32, model.float(), and call the adapted one under torch.autocast."
            )
