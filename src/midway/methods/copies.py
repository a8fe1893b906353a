"""Copies of a network that share nothing with it."""

from __future__ import annotations

import copy

import torch
from torch import nn


def fastest_safe_layout(model: nn.Module) -> torch.memory_format:
    """Choose channels-last, unless the model has GroupNorm.

    The backward pass of a channels-last group_norm whose input needs no gradient kills the process on the CPU
    (seen with torch 2.13), and that is just what the first frozen layers lead to.

    Example:
        >>> import torch
        >>> from midway.methods.copies import fastest_safe_layout
        >>> fastest_safe_layout(torch.nn.Conv2d(3, 4, 1)), fastest_safe_layout(torch.nn.GroupNorm(1, 4))
        (torch.channels_last, torch.contiguous_format)
    """
    has_group_norm = any(isinstance(module, nn.GroupNorm) for module in model.modules())
    return torch.contiguous_format if has_group_norm else torch.channels_last


def independent_copy(model: nn.Module, memory_format: torch.memory_format) -> nn.Module:
    """Copy a model in a memory layout; weights made under inference mode become ordinary ones.

    Example:
        >>> import torch
        >>> from midway.methods.copies import independent_copy
        >>> layer = torch.nn.Linear(2, 2)
        >>> independent_copy(layer, torch.contiguous_format).weight is layer.weight
        False
    """
    clone = copy.deepcopy(model)
    for module in clone.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None and parameter.is_inference():
                module._parameters[name] = nn.Parameter(parameter.detach().clone())
        for name, buffer in list(module._buffers.items()):
            if buffer is not None and buffer.is_inference():
                module._buffers[name] = buffer.clone()
    return clone.to(memory_format=memory_format)  # type: ignore[call-overload, no-any-return]
