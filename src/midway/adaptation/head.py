"""The classifier head of a network and the features before it, found on any usual architecture."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from midway.suggest import unknown

USUAL = (32, 224, 28, 64, 96, 128, 256, 299, 384)
SIDES = (*USUAL, *sorted({*range(8, 64), 112, 144, 160, 192, 240, 260, 300, 320, 380, 448, 480, 512} - {*USUAL}))
"""Image sizes that networks are made for, the usual ones first."""


def head_of(model: nn.Module, name: str | None = None) -> tuple[str, nn.Linear]:
    """Return the name and the layer of a network's head: the last linear layer, which makes the logits.

    The network runs once on tiny blank images, to see which linear layer's output is its answer. Where that cannot be
    seen (it takes no such images, or changes the logits after the head), the only linear layer after all convolutions
    with as many outputs as there are logits is the head, or the last linear layer.

    Args:
        model: Any classifier; it is as before afterwards.
        name: The head's name, where it cannot be found.

    Raises:
        ValueError: There is no head, or none can be told from the others; the message lists what to give.

    Example:
        >>> import midway
        >>> from midway.adaptation.head import head_of
        >>> head_of(midway.models.create("resnet20"))
        ('fc', Linear(in_features=64, out_features=10, bias=True))
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
            f"the model has no linear layer to be its head{_convolution_advice(layers)}: "
            "put a torch.nn.Linear at its end, or use a method that needs no head, such as tent."
        )
    ran, logits = _trial(model, linear)
    if logits is None:
        return list(linear.items())[-1]
    makers = [key for key, output in ran if output is not None and torch.equal(output, logits)]
    if makers:
        return makers[-1], linear[makers[-1]]
    last_convolution = max((place for place, (_, output) in enumerate(ran) if output is None), default=-1)
    fitting = {
        key for key, output in ran[last_convolution + 1 :] if output is not None and output.shape == logits.shape
    }
    if len(fitting) == 1:
        return (key := fitting.pop()), linear[key]
    advice = _convolution_advice(layers) if not fitting else ""
    raise ValueError(
        f"no linear layer makes the logits of the model as they come out{advice}: "
        f"give head='...', one of {', '.join(sorted(fitting) or linear)}."
    )


@torch.no_grad()
def features_and_logits(model: nn.Module, head: str, images: Tensor) -> tuple[Tensor, Tensor]:
    """Run a network once and return the features that enter its head along with the logits.

    Args:
        model: The classifier.
        head: The name of its head, from `head_of`.
        images: (N, C, H, W).

    Returns:
        Features (N, width) and logits (N, classes), without gradients.

    Raises:
        ValueError: The head does not see one vector an image.

    Example:
        >>> import midway, torch
        >>> from midway.adaptation.head import features_and_logits
        >>> features, logits = features_and_logits(midway.models.create("resnet20"), "fc", torch.rand(2, 3, 32, 32))
        >>> features.shape, logits.shape
        (torch.Size([2, 64]), torch.Size([2, 10]))
    """
    seen: list[Tensor] = []
    layer = model.get_submodule(head)
    handle = layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        logits: Tensor = getattr(model, "_orig_mod", model)(images)  # a compiled network does not see new hooks
    finally:
        handle.remove()
    if not seen or seen[-1].shape[:-1] != (len(images),):
        shown = f"a tensor of shape {tuple(seen[-1].shape)}" if seen else "nothing"
        raise ValueError(
            f"the layer '{head}' sees {shown} for {len(images)} images, not one vector an image: "
            "give head='...', the linear layer after the pooling."
        )
    if layer.out_features != logits.shape[1]:
        raise ValueError(
            f"the layer '{head}' has {layer.out_features} outputs, the model {logits.shape[1]} logits: "
            "give head='...', the linear layer that makes the logits."
        )
    return seen[-1], logits


Layers = list[tuple[str, Tensor | None]]
"""The layers that ran, in order: a linear one with its output, a convolution with None."""


def _trial(model: nn.Module, linear: dict[str, nn.Linear]) -> tuple[Layers, Tensor | None]:
    """Run two blank images of the first size that the network takes; return what its layers and it gave."""
    first = next((m for m in model.modules() if isinstance(m, nn.Conv2d)), None)
    if first is None:
        return [], None
    ran: Layers = []

    def note(key: str) -> Any:
        return lambda layer, inputs, output: ran.append((key, output if key in linear else None))

    convolutions = {key: layer for key, layer in model.named_modules() if isinstance(layer, nn.Conv2d)}
    handles = [layer.register_forward_hook(note(key)) for key, layer in (linear | convolutions).items()]
    plain_only = not first.weight.is_contiguous()  # in the faster layout not every network runs
    try:
        with torch.no_grad(), _evaluation_mode(model), _plain_layout(model) if plain_only else nullcontext():
            for side in SIDES:
                ran.clear()
                try:
                    logits = model(first.weight.new_full((2, first.in_channels, side, side), 0.5))
                except Exception:  # whatever a network of somebody else raises at a size that it does not take
                    continue
                if isinstance(logits, Tensor) and logits.ndim == 2 and len(logits) == 2:
                    return ran, logits
    finally:
        for handle in handles:
            handle.remove()
    return [], None


@contextmanager
def _plain_layout(model: nn.Module) -> Iterator[None]:
    model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    try:
        yield
    finally:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


@contextmanager
def _evaluation_mode(model: nn.Module) -> Iterator[None]:
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def _convolution_advice(layers: dict[str, nn.Module]) -> str:
    last = [(key, layer) for key, layer in layers.items() if isinstance(layer, nn.Conv2d)][-1:]
    if not last or last[0][1].kernel_size != (1, 1):
        return ""
    return (
        f" (if the 1x1 convolution '{last[0][0]}' makes them, exchange it for a torch.nn.Linear after the pooling, "
        "with the weights flattened: the answers stay the same)"
    )
