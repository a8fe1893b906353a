"""Selecting the trainable parameters of any architecture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from midway._suggest import unknown

NORM_LAYERS: tuple[type[nn.Module], ...] = (_BatchNorm, _InstanceNorm, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)

FEWEST_STAGES = 4  # as in ResNet-50; the three stages of CIFAR networks are all trainable


def norm_layers(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the normalisation layers of a model with their names.

    A layer counts if its class is one of torch's, or if the name of its class contains "norm" and it has a weight
    vector: many networks define their own LayerNorm2d or RMSNorm.
    """
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        custom = "norm" in type(module).__name__.lower() and isinstance(weight, nn.Parameter) and weight.ndim == 1
        if isinstance(module, NORM_LAYERS) or custom:
            yield name, module


def norm_affine(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the scales and shifts of the normalisation layers, by name.

    Example:
        >>> import midway
        >>> from midway.methods import norm_affine
        >>> list(norm_affine(midway.models.create("resnet20")))[:2]
        ['bn1.weight', 'bn1.bias']
    """
    parameters: dict[int, tuple[str, nn.Parameter]] = {}  # by identity: layers may share parameters
    for layer, module in norm_layers(model):
        for name, parameter in module.named_parameters(recurse=False):
            parameters.setdefault(id(parameter), (f"{layer}.{name}".lstrip("."), parameter))
    if not parameters:
        raise ValueError(
            "the model has no normalisation layer with a scale and a shift to adapt: use a network with affine "
            "normalisation layers, or a method that adapts something else, such as lame or t3a. (A layer of your own "
            "counts if the name of its class contains 'norm' and its weight is a vector.)"
        )
    return dict(parameters.values())


def outside(parameters: dict[str, nn.Parameter], exclude: tuple[str, ...]) -> dict[str, nn.Parameter]:
    """Return the parameters outside the named modules."""
    left = {
        name: parameter
        for name, parameter in parameters.items()
        if not any(is_inside(name, module) for module in exclude)
    }
    if not left:
        raise ValueError(f"exclude={exclude!r} leaves no normalisation layer to adapt: name fewer modules.")
    return left


def first_weight(model: nn.Module, otherwise: Tensor) -> Tensor:
    """Return the first floating-point parameter, whose type and device images must have, or another tensor.

    Matrices and filters come first: a temperature or a scale may have another type than the layers.
    """
    floating = [parameter for parameter in model.parameters() if parameter.is_floating_point()]
    return next((parameter for parameter in floating if parameter.ndim > 1), floating[0] if floating else otherwise)


def freeze_all_but(model: nn.Module, trainable: dict[str, nn.Parameter]) -> list[nn.Parameter]:
    """Make these parameters trainable, freeze all others, and return the trainable ones for the optimiser.

    Example:
        >>> import midway
        >>> from midway.methods import freeze_all_but, norm_affine
        >>> model = midway.models.create("resnet20")
        >>> len(freeze_all_but(model, norm_affine(model))), model.conv1.weight.requires_grad
        (42, False)
    """
    trainable = {name: parameter for name, parameter in trainable.items() if parameter.is_floating_point()}
    refuse_half_precision(trainable)
    model.requires_grad_(False)
    for parameter in trainable.values():
        parameter.requires_grad_(True)
    return list(trainable.values())


def refuse_half_precision(trainable: Mapping[str, nn.Parameter]) -> None:
    """Refuse 16-bit weights: small updates are rounded away, and Adam's moments overflow."""
    for name, parameter in trainable.items():
        if parameter.dtype in (torch.float16, torch.bfloat16):
            raise TypeError(
                f"{name} is {parameter.dtype}, too coarse for the small updates of adaptation: "
                "give the model as float32, model.float(), and call the adapted one under torch.autocast."
            )


def last_stage(model: nn.Module) -> tuple[str, ...]:
    """Return the names of the modules in the last quarter of a deep network's stages, and of the norm layers after it.

    Stages are sibling modules with two or more normalisation layers each. SAR freezes the last of a ResNet's four
    stages, and the last three of a transformer's twelve blocks with the final norm (Niu et al., ICLR 2023). For a
    network with fewer than four stages the result is empty.
    """
    layers = [name for name, _ in norm_layers(model)]

    def children(name: str) -> dict[str, int]:
        """Return the children of a module and the number of normalisation layers in each."""
        names = [f"{name}.{child}".lstrip(".") for child, _ in model.get_submodule(name).named_children()]
        return {child: sum(is_inside(layer, child) for layer in layers) for child in names}

    trunk = ""
    while True:
        counts = children(trunk)
        stages = [name for name, count in counts.items() if count >= 2]
        if len(stages) >= FEWEST_STAGES:
            break
        trunk = max(counts, key=counts.__getitem__, default="")  # the stages may be deeper in the largest child
        if not trunk or 2 * counts[trunk] <= len(layers):
            return ()
    last = stages[-(len(stages) // FEWEST_STAGES) :]
    after = layers[max(index for index, name in enumerate(layers) if is_inside(name, last[-1])) + 1 :]
    return (*last, *after)


def is_transformer(model: nn.Module) -> bool:
    """Return whether a network normalises by LayerNorm alone."""
    layers = [layer for _, layer in norm_layers(model)]
    return bool(layers) and all(isinstance(layer, nn.LayerNorm) for layer in layers)


def is_inside(name: str, module: str) -> bool:
    """Return whether a name is that of a module or of a part of it."""
    return name == module or name.startswith(f"{module}.")


def check_excluded(model: nn.Module, exclude: tuple[str, ...] | None) -> None:
    """Refuse names of modules that the model does not have."""
    if exclude is not None and not isinstance(exclude, tuple | list):
        raise TypeError(f"exclude must be a tuple of names, got {exclude!r}: write ({str(exclude)!r},).")
    modules = [name for name, _ in model.named_modules() if name]
    for name in exclude or ():
        if name not in modules:
            raise ValueError(unknown("module of the model", name, modules))
