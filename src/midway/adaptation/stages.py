"""The last stage of a deep network, for methods that leave it alone."""

from __future__ import annotations

from torch import nn

from midway.adaptation.parameters import norm_layers

FEWEST_STAGES = 4  # as in ResNet-50; the three stages of CIFAR networks all move


def last_stage(model: nn.Module) -> tuple[str, ...]:
    """Name the modules that make up the last quarter of a deep network's stages, and the norm layers after them.

    Stages are neighbouring modules with two or more normalisation layers each. The last one of a ResNet's four and the
    last three blocks of a transformer's twelve, with its final norm, are what SAR leaves alone (Niu et al., ICLR 2023).
    A network with fewer than four stages is not deep: nothing is named.

    Example:
        >>> from torch import nn
        >>> from midway.adaptation.stages import last_stage
        >>> block = lambda: nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4), nn.LayerNorm(4))
        >>> vit = nn.ModuleDict({"blocks": nn.Sequential(*[block() for _ in range(12)]), "norm": nn.LayerNorm(4)})
        >>> last_stage(vit)
        ('blocks.9', 'blocks.10', 'blocks.11', 'norm')
        >>> last_stage(nn.Sequential(block(), block(), block()))
        ()
    """
    layers = [name for name, _ in norm_layers(model)]
    trunk, stages = "", _stages(model, "")
    while len(stages) < FEWEST_STAGES:
        within = {name: _count(layers, name) for name in _children(model, trunk)}
        widest = max(within, key=within.__getitem__, default="")
        if not widest or 2 * within[widest] <= len(layers):
            return ()
        trunk, stages = widest, _stages(model, widest)
    last = stages[-(len(stages) // FEWEST_STAGES) :]
    beyond = layers[max(index for index, name in enumerate(layers) if _inside(name, last[-1])) + 1 :]
    return (*last, *beyond)


def _inside(name: str, module: str) -> bool:
    return name == module or name.startswith(f"{module}.")


def _count(layers: list[str], module: str) -> int:
    return sum(_inside(name, module) for name in layers)


def _children(model: nn.Module, name: str) -> list[str]:
    return [f"{name}.{child}".lstrip(".") for child, _ in model.get_submodule(name).named_children()]


def _stages(model: nn.Module, name: str) -> list[str]:
    layers = [layer for layer, _ in norm_layers(model)]
    return [child for child in _children(model, name) if _count(layers, child) >= 2]
