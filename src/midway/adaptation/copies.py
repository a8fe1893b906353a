"""Copies of a network that share nothing with it."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd


def takes_channels_last(model: nn.Module) -> bool:
    """Tell whether a model may run in the faster layout: not if it has GroupNorm, or what may be a home-made one.

    The backward pass of a channels-last group_norm whose input needs no gradient kills the process on the CPU
    (seen with torch 2.13), and that is just what the first frozen layers lead to. A layer that is none of torch's and
    has vectors among its weights may call it.

    Example:
        >>> import torch
        >>> from midway.adaptation.copies import takes_channels_last
        >>> takes_channels_last(torch.nn.Conv2d(3, 4, 1)), takes_channels_last(torch.nn.GroupNorm(1, 4))
        (True, False)
    """
    return not any(isinstance(module, nn.GroupNorm) or _is_homemade(module) for module in model.modules())


def _is_homemade(module: nn.Module) -> bool:
    known = isinstance(module, nn.Linear | nn.LayerNorm | _ConvNd | _NormBase)
    if known or type(module).__module__.startswith("torch."):
        return False
    return any(weight.ndim == 1 and weight.is_floating_point() for weight in module.parameters(recurse=False))


def without_parallel(model: nn.Module) -> nn.Module:
    """Take off what only spreads a model over devices: its copies would forget what they adapted.

    Example:
        >>> import torch
        >>> from midway.adaptation.copies import without_parallel
        >>> without_parallel(torch.nn.DataParallel(torch.nn.Flatten()))
        Flatten(start_dim=1, end_dim=-1)
    """
    while isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        model = model.module
    return model


def in_evaluation_mode(model: nn.Module) -> nn.Module:
    """Put every layer in evaluation mode, also those that ``eval`` does not reach.

    Example:
        >>> import torch
        >>> from midway.adaptation.copies import in_evaluation_mode
        >>> in_evaluation_mode(torch.nn.Sequential(torch.nn.Dropout()))[0].training
        False
    """
    model.eval()
    for module in model.modules():
        module.training = False
    return model


def independent_copy(model: nn.Module, memory_format: torch.memory_format) -> nn.Module:
    """Copy a model in a memory layout; weights made under inference mode become ordinary ones.

    Raises:
        TypeError: The model is TorchScript, whose weights cannot be told to move, or cannot be copied.

    Example:
        >>> import torch
        >>> from midway.adaptation.copies import independent_copy
        >>> layer = torch.nn.Linear(2, 2)
        >>> independent_copy(layer, torch.contiguous_format).weight is layer.weight
        False
    """
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        raise TypeError("a TorchScript model cannot be adapted: give the nn.Module it was made from.")
    if any(nn.parameter.is_lazy(parameter) for parameter in model.parameters()):
        raise TypeError("the model has lazy layers that have not seen an image: call it once, then adapt it.")
    try:
        clone = copy.deepcopy(model, memo=kept_tensors(model))
    except Exception as error:
        raise TypeError(f"the model cannot be copied by copy.deepcopy, and has to be: {error}") from error
    for module in clone.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None and parameter.is_inference():
                module._parameters[name] = nn.Parameter(parameter.detach().clone())
        for name, buffer in list(module._buffers.items()):
            if buffer is not None and buffer.is_inference():
                module._buffers[name] = buffer.clone()
    return clone.to(memory_format=memory_format)  # type: ignore[call-overload, no-any-return]


def kept_tensors(model: nn.Module) -> dict[int, torch.Tensor]:
    """Return copies of tensors that layers keep with their graphs, by identity: ``deepcopy`` takes them from a memo.

    Example:
        >>> import torch
        >>> from midway.adaptation.copies import kept_tensors
        >>> layer = torch.nn.Linear(1, 1)
        >>> layer.doubled = 2 * layer.weight
        >>> list(kept_tensors(layer)) == [id(layer.doubled)]
        True
    """
    values = (value for module in model.modules() for value in vars(module).values())
    return {id(v): v.detach().clone() for v in values if isinstance(v, torch.Tensor) and v.grad_fn is not None}
