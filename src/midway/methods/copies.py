"""Copies of a network that share nothing with it."""

from __future__ import annotations

import copy

import torch
from torch import nn


def takes_channels_last(model: nn.Module) -> bool:
    """Tell whether a model may run in the faster layout: not if it has GroupNorm.

    The backward pass of a channels-last group_norm whose input needs no gradient kills the process on the CPU
    (seen with torch 2.13), and that is just what the first frozen layers lead to.

    Example:
        >>> import torch
        >>> from midway.methods.copies import takes_channels_last
        >>> takes_channels_last(torch.nn.Conv2d(3, 4, 1)), takes_channels_last(torch.nn.GroupNorm(1, 4))
        (True, False)
    """
    return not any(isinstance(module, nn.GroupNorm) for module in model.modules())


def without_parallel(model: nn.Module) -> nn.Module:
    """Take off what only spreads a model over devices: its copies would forget what they adapted.

    Example:
        >>> import torch
        >>> from midway.methods.copies import without_parallel
        >>> without_parallel(torch.nn.DataParallel(torch.nn.Flatten()))
        Flatten(start_dim=1, end_dim=-1)
    """
    while isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        model = model.module
    return model


def independent_copy(model: nn.Module, memory_format: torch.memory_format) -> nn.Module:
    """Copy a model in a memory layout; weights made under inference mode become ordinary ones.

    Raises:
        TypeError: The model is TorchScript, whose weights cannot be told to move.

    Example:
        >>> import torch
        >>> from midway.methods.copies import independent_copy
        >>> layer = torch.nn.Linear(2, 2)
        >>> independent_copy(layer, torch.contiguous_format).weight is layer.weight
        False
    """
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        raise TypeError("a TorchScript model cannot be adapted: give the nn.Module it was made from.")
    clone = copy.deepcopy(model)
    for module in clone.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None and parameter.is_inference():
                module._parameters[name] = nn.Parameter(parameter.detach().clone())
        for name, buffer in list(module._buffers.items()):
            if buffer is not None and buffer.is_inference():
                module._buffers[name] = buffer.clone()
    return clone.to(memory_format=memory_format)  # type: ignore[call-overload, no-any-return]
