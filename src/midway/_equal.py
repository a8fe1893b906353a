"""Comparison of the state of methods, for the contract."""

from __future__ import annotations

import copy
from collections.abc import Container
from typing import Any

import torch
from torch import Tensor


def equal(first: Any, second: Any) -> bool:
    """Return whether two pieces of state have the same bits."""
    if isinstance(first, Tensor):
        return isinstance(second, Tensor) and first.dtype == second.dtype and torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(equal(value, second[key]) for key, value in first.items())
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(equal, first, second))
    return bool(first == second)


def plain_attributes(method: object, exclude: Container[str]) -> dict[str, Any]:
    """Return copies of the numbers, texts and tensors among an object's attributes, and of containers of these."""
    return {
        name: copy.deepcopy(value) for name, value in vars(method).items() if name not in exclude and is_plain(value)
    }


def is_plain(value: Any) -> bool:
    """Return whether a value is a number, text or tensor, or a container of these."""
    if isinstance(value, dict):
        return all(map(is_plain, value.values()))
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    return value is None or isinstance(value, bool | int | float | str) or type(value) is Tensor
