"""Copy, put back and compare whatever a method remembers from batch to batch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


def capture(value: Any) -> Any:
    """Return an independent copy of a piece of state, made of tensors and plain values alone.

    Tensors are cloned, a generator gives its state, an optimiser or anything else with ``state_dict`` gives that;
    containers are captured item by item. What comes out survives ``torch.save`` and ``weights_only`` loading.

    Example:
        >>> import torch
        >>> from midway.adaptation.state import capture
        >>> counts = torch.ones(2)
        >>> kept = capture({"counts": counts, "seen": 3})
        >>> _ = counts.zero_()
        >>> kept
        {'counts': tensor([1., 1.]), 'seen': 3}
    """
    if isinstance(value, Tensor):
        return value.detach().clone(memory_format=torch.preserve_format)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, torch.Generator):
        return value.get_state()
    if hasattr(value, "state_dict"):
        return copy.deepcopy(value.state_dict())
    if isinstance(value, Mapping):
        return {key: capture(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(capture(item) for item in value)
    raise TypeError(
        f"{type(value).__name__} cannot be part of a method's state: use tensors, plain values, generators, "
        "optimisers, or give the class state_dict and load_state_dict."
    )


def put_back(owner: object, name: str, captured: Any) -> None:
    """Set an attribute to what ``capture`` made of it earlier; the capture stays usable."""
    current = getattr(owner, name)
    if isinstance(current, torch.Generator):
        current.set_state(captured.cpu())
    elif hasattr(current, "load_state_dict"):
        current.load_state_dict(copy.deepcopy(captured))
    elif isinstance(current, Tensor) and isinstance(captured, Tensor):
        setattr(owner, name, capture(captured).to(current))
    else:
        setattr(owner, name, capture(captured))


def to_each_tensor(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Change every tensor within a piece of state, for example its device."""
    if isinstance(value, Tensor):
        return change(value)
    if hasattr(value, "load_state_dict"):
        value.load_state_dict(to_each_tensor(value.state_dict(), change))
        return value
    if isinstance(value, Mapping):  # the step counts of torch's optimisers stay on the CPU
        return {key: item if key == "step" else to_each_tensor(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(to_each_tensor(item, change) for item in value)
    return value


def same_structure(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Tell whether two state dicts have the same keys and tensors of the same shapes."""
    if mine.keys() != theirs.keys():
        return False
    return all(
        value.shape == theirs[key].shape
        for key, value in mine.items()
        if isinstance(value, Tensor) and isinstance(theirs[key], Tensor)
    )
