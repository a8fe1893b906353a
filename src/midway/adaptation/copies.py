"""Copies of a network that share nothing with it."""

from __future__ import annotations

import copy
from operator import attrgetter

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd


def supports_channels_last(model: nn.Module) -> bool:
    """Return whether a model may run in the faster layout: not if it has GroupNorm, or a custom layer that may be one.

    The backward pass of a channels-last group_norm whose input needs no gradient crashes the process on the CPU
    (observed with torch 2.13), and the frozen layers at the start of a network lead to that case. A custom layer with
    vectors among its weights may call group_norm.
    """
    images = all(weight.ndim < 5 for weight in model.parameters())  # not volumes
    return images and not any(map(_may_call_group_norm, model.modules()))


def _may_call_group_norm(module: nn.Module) -> bool:
    if isinstance(module, nn.GroupNorm):
        return True
    known = isinstance(module, nn.Linear | nn.LayerNorm | _ConvNd | _NormBase)
    if known or type(module).__module__.startswith("torch."):
        return False
    return any(weight.ndim == 1 and weight.is_floating_point() for weight in module.parameters(recurse=False))


def without_parallel(model: nn.Module) -> nn.Module:
    """Remove wrappers that distribute a model over devices: their replicas would lose what they adapt."""
    while isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        refuse_hooks(model)
        model = model.module
    return model


def without_compilation(model: nn.Module) -> nn.Module:
    """Return the network that ``torch.compile`` was given, without wrappers that distribute it either."""
    model = without_parallel(model)
    while isinstance(inner := getattr(model, "_orig_mod", None), nn.Module):
        refuse_hooks(model)
        model = without_parallel(inner)
    return model


def refuse_hooks(shell: nn.Module) -> None:
    """Raise if a compiled or distributed network has hooks of its own, which its copy would not have."""
    if shell._forward_hooks or shell._forward_pre_hooks:
        raise ValueError(
            f"the hooks of the {type(shell).__name__} would be lost: register them on the network inside, before it is "
            "compiled or distributed."
        )


def clone_inputs(_: nn.Module, inputs: tuple[object, ...]) -> tuple[object, ...]:
    """Give a network copies of its inputs, as a forward pre-hook: it changes them in place."""
    return tuple(each.clone() if isinstance(each, torch.Tensor) else each for each in inputs)


def in_evaluation_mode(model: nn.Module) -> nn.Module:
    """Put every layer in evaluation mode, including those that override ``eval``."""
    model.eval()
    for module in model.modules():
        module.training = False
    return model


def independent_copy(model: nn.Module, memory_format: torch.memory_format) -> nn.Module:
    """Copy a model in a memory layout; weights created under inference mode become ordinary ones."""
    for module in model.modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise TypeError("a TorchScript model cannot be adapted: give the nn.Module it was compiled from.")
        if hasattr(module, "_orig_mod"):
            refuse_hooks(module)
    tensors = [*model.parameters(), *model.buffers()]
    if any(map(nn.parameter.is_lazy, tensors)):
        raise TypeError("the model has lazy layers without weights: call it once on an image, then adapt it.")
    if any(map(attrgetter("is_meta"), tensors)):
        raise TypeError("the model has weights on the meta device, without values: load its weights, then adapt it.")
    try:
        clone = copy.deepcopy(model, memo=graph_tensors(model))
    except Exception as error:
        raise TypeError(f"the model must support copy.deepcopy, which failed: {error}") from error
    for module in clone.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None and parameter.is_inference():
                module._parameters[name] = nn.Parameter(parameter.detach().clone())
        for name, buffer in list(module._buffers.items()):
            if buffer is not None and buffer.is_inference():
                module._buffers[name] = buffer.clone()
    return clone.to(memory_format=memory_format)  # type: ignore[call-overload, no-any-return]


def graph_tensors(model: nn.Module) -> dict[int, torch.Tensor]:
    """Return copies of the tensors that layers store with their graphs, by identity: a memo for ``copy.deepcopy``."""
    copies: dict[int, torch.Tensor] = {}
    for module in model.modules():
        for value in vars(module).values():
            if isinstance(value, torch.Tensor) and value.grad_fn is not None:
                copies[id(value)] = value.detach().clone()
    return copies
