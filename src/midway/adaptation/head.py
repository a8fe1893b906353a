"""The classifier head of a network, and the features that enter it, for any common architecture."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from midway._suggest import unknown
from midway.adaptation.base import Method
from midway.adaptation.copies import in_evaluation_mode, independent_copy
from midway.models.outputs import logits_of

USUAL = (32, 224, 28, 64, 96, 128, 256, 299, 384)
SIDES = (*USUAL, *sorted({*range(8, 64), 112, 144, 160, 192, 240, 260, 300, 320, 380, 448, 480, 512} - {*USUAL}))
"""Image sizes that networks are designed for, the common ones first."""


def head_of(model: nn.Module, name: str | None = None) -> tuple[str, nn.Linear]:
    """Return the name and the layer of a network's head, the linear layer that computes the logits; ``name`` overrides.

    The network runs once on small blank images, and the head is the linear layer whose output equals the logits. If no
    layer does (the network changes the logits after the head), the head is the only linear layer after all convolutions
    with as many outputs as there are logits; if the network cannot run on such images, it is the last linear layer.
    """
    layers = dict(model.named_modules())
    linear = {
        key: layer
        for key, layer in layers.items()
        if isinstance(layer, nn.Linear) and not isinstance(layer, nn.modules.linear.NonDynamicallyQuantizableLinear)
    }
    if name is not None:
        if name not in layers:
            raise ValueError(unknown("layer of the model", name, linear))
        if name not in linear:
            raise ValueError(f"the head must be a torch.nn.Linear, '{name}' is a {type(layers[name]).__name__}.")
        return name, linear[name]
    if not linear:
        raise ValueError(
            f"the model has no linear layer that could be its head{_convolution_advice(layers)}: "
            "put a torch.nn.Linear at its end, or use a method that needs no head, such as tent."
        )
    ran, logits = _trial(model, linear)
    if logits is None:
        return list(linear.items())[-1]
    heads = [key for key, output in ran if output is not None and torch.equal(output, logits)]
    if heads:
        return heads[-1], linear[heads[-1]]
    last_convolution = max((index for index, (_, output) in enumerate(ran) if output is None), default=-1)
    fitting = {
        key for key, output in ran[last_convolution + 1 :] if output is not None and output.shape == logits.shape
    }
    if len(fitting) == 1:
        return (key := fitting.pop()), linear[key]
    advice = _convolution_advice(layers) if not fitting else ""
    raise ValueError(
        f"no linear layer computes the logits of the model{advice}: "
        f"give head='...', one of {', '.join(sorted(fitting) or linear)}."
    )


def resolve_head(method: Method, name: str | None) -> tuple[str, nn.Linear]:
    """Return the name and the layer of the head of a method's network; a name that was detected is recorded.

    Example:
        >>> import midway
        >>> midway.T3A(midway.models.create("resnet20")).hyperparameters["head"]
        'fc'
    """
    detected, layer = head_of(method.model, name)
    if name is None:
        method.resolved["head"] = detected
    return detected, layer


def body_of(model: nn.Module, head: nn.Linear) -> dict[str, nn.Parameter]:
    """Return the parameters of a network but its head's, by name.

    Example:
        >>> from torch import nn
        >>> from midway.adaptation.head import body_of
        >>> network = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
        >>> list(body_of(network, network[1]))
        ['0.weight', '0.bias']
    """
    of_head = {id(parameter) for parameter in head.parameters()}
    body = {name: parameter for name, parameter in model.named_parameters() if id(parameter) not in of_head}
    if not body:
        raise ValueError("the model has no weights besides its head: use a method that needs none, such as t3a.")
    return body


def features_and_logits(
    model: nn.Module, head: str, images: Tensor, *, gradients: bool = False
) -> tuple[Tensor, Tensor]:
    """Run a network once; return the features (N, width) that enter its head, and the logits."""
    seen: list[Tensor] = []
    layer = model.get_submodule(head)
    handle = layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        with torch.set_grad_enabled(gradients):
            logits = logits_of(getattr(model, "_orig_mod", model)(images))  # a compiled network ignores new hooks
    finally:
        handle.remove()
    if not seen or seen[-1].shape[:-1] != (len(images),):
        shown = f"a tensor of shape {tuple(seen[-1].shape)}" if seen else "nothing"
        raise ValueError(
            f"the layer '{head}' receives {shown} for {len(images)} images, not one vector per image: "
            "give head='...', the linear layer after the pooling."
        )
    check_outputs(head, layer, logits)
    return seen[-1], logits


def check_outputs(head: str, layer: nn.Module, logits: Tensor) -> None:
    """Refuse a layer as the head if it does not have as many outputs as there are logits."""
    if layer.out_features != logits.shape[1]:
        raise ValueError(
            f"the layer '{head}' has {layer.out_features} outputs, the model {logits.shape[1]} logits: "
            "give head='...', the linear layer that computes the logits."
        )


Layers = list[tuple[str, Tensor | None]]
"""The layers that ran, in order: linear layers with their output, convolutions with None."""


def _trial(model: nn.Module, linear: Iterable[str]) -> tuple[Layers, Tensor | None]:
    """Run a copy on two blank images of the first size that it accepts; return its layers' outputs and its own."""
    model = in_evaluation_mode(independent_copy(model, torch.contiguous_format))  # not all support channels-last
    convolutions = {key: layer for key, layer in model.named_modules() if isinstance(layer, nn.Conv2d)}
    first = next(iter(convolutions.values()), None)
    if first is None:
        return [], None
    ran: Layers = []

    def hook(key: str) -> Any:
        return lambda layer, inputs, output: ran.append((key, None if key in convolutions else output))

    for key in (*linear, *convolutions):
        model.get_submodule(key).register_forward_hook(hook(key))
    for side in SIDES:
        ran.clear()
        try:
            with torch.no_grad():
                logits = logits_of(model(first.weight.new_full((2, first.in_channels, side, side), 0.5)))
        except Exception:  # a network may raise anything at a size that it does not accept
            continue
        if isinstance(logits, Tensor) and logits.ndim == 2 and len(logits) == 2:
            return ran, logits
    return [], None


def _convolution_advice(layers: dict[str, nn.Module]) -> str:
    last = [(key, layer) for key, layer in layers.items() if isinstance(layer, nn.Conv2d)][-1:]
    if not last or last[0][1].kernel_size != (1, 1):
        return ""
    return (
        f" (if the 1x1 convolution '{last[0][0]}' computes them, replace it by a torch.nn.Linear after the pooling, "
        "with the weights flattened: the predictions stay the same)"
    )
