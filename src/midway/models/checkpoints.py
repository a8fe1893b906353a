"""Read checkpoints as they are published, without running code from them and without renaming keys by hand."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

WRAPPERS = ("state_dict", "model_state_dict", "model", "net", "network", "ema_state_dict")
PREFIXES = ("module.", "_orig_mod.", "model.", "net.", "network.", "backbone.", "encoder.")


class CheckpointError(ValueError):
    """A checkpoint that is unsafe, damaged or does not fit the network it is meant for."""


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a checkpoint file.

    Only safetensors and ``torch.load(weights_only=True)`` are used: a pickle that would run code is refused.
    Wrappers such as ``{"state_dict": ...}`` are opened; keys stay as they are in the file.

    Args:
        path: A ``.safetensors`` file, or a ``.pth``, ``.pt`` or ``.ckpt`` file written by ``torch.save``.

    Raises:
        FileNotFoundError: There is no such file.
        CheckpointError: The file is damaged, holds code, or holds no state dict.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint at {path}.")
    try:
        if path.suffix == ".safetensors":
            return dict(load_file(path))
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{path} was refused: it holds more than tensors (a pickle that could run code, or a damaged file). "
            'Save the weights alone, torch.save(model.state_dict(), "weights.pth"), or use safetensors.'
        ) from error
    except Exception as error:  # a damaged file raises whatever its first bad byte leads to
        raise CheckpointError(
            f"{path} cannot be read as a checkpoint (it is damaged, or none): {_first_line(error)}"
        ) from error
    return _tensors(content, path)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _tensors(content: Any, path: Path) -> dict[str, Tensor]:
    if isinstance(content, Mapping):
        for wrapper in WRAPPERS:
            if isinstance(content.get(wrapper), Mapping):
                return _tensors(content[wrapper], path)
        tensors = {str(key): value for key, value in content.items() if isinstance(value, Tensor)}
        if tensors:
            return tensors
    raise CheckpointError(f"{path} holds a {type(content).__name__} without tensors, expected a state dict.")


def fit_keys(state: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """Rename the keys of a state dict to those of a model, where the layout is a known public one.

    Strips the prefixes that wrappers leave (``module.`` of DataParallel, ``_orig_mod.`` of torch.compile, ``model.``,
    ...), drops constants of normalisation layers and the unused ``sub_block1`` of some adversarially trained
    WideResNets, and fills in the BatchNorm counters that old files lack.

    Example:
        >>> import torch
        >>> from midway.models.checkpoints import fit_keys
        >>> layer = torch.nn.Linear(2, 1)
        >>> sorted(fit_keys({"module." + key: value for key, value in layer.state_dict().items()}, layer))
        ['bias', 'weight']
    """
    expected = model.state_dict()
    state = dict(state)
    while prefix := _shared_prefix(state, expected):
        state = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
    extras = [key for key in state if key not in expected and _is_ignorable(key)]
    for key in extras:
        del state[key]
    for key, value in expected.items():
        if key.endswith("num_batches_tracked") and key not in state:
            state[key] = torch.zeros_like(value)
    return state


def stored_constants(state: Mapping[str, Tensor]) -> dict[str, tuple[float, ...]]:
    """Return the normalisation a checkpoint stores, as ``mean`` and ``std``; nothing if it stores none.

    Example:
        >>> import torch
        >>> from midway.models.checkpoints import stored_constants
        >>> stored_constants({"normalize.mean": torch.full((1, 3, 1, 1), 0.5), "normalize.std": torch.ones(1, 3, 1, 1)})
        {'mean': (0.5, 0.5, 0.5), 'std': (1.0, 1.0, 1.0)}
    """
    found = {
        kind: tuple(value.flatten().expand(3).tolist())  # one value stands for all channels
        for kind, names in (("mean", ("mean", "mu")), ("std", ("std", "sigma")))
        for key, value in state.items()
        if key.split(".")[-1] in names and value.numel() in (1, 3)
    }
    return found if len(found) == 2 else {}


def _shared_prefix(state: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> str | None:
    """Return a known prefix under which (almost) all keys lie, unless the model itself has it."""
    for prefix in PREFIXES:
        if any(key.startswith(prefix) for key in expected):
            continue
        inside = [key for key in state if key.startswith(prefix)]
        outside = [key for key in state if not key.startswith(prefix) and not _is_ignorable(key)]
        if inside and not outside:
            return prefix
    return None


def _is_ignorable(key: str) -> bool:
    """Tell whether a key is a constant or a leftover that no forward pass uses."""
    parts = key.split(".")
    return parts[-1] in ("mean", "std", "mu", "sigma") or "sub_block1" in parts or "normalize" in parts


def load_weights(model: nn.Module, state: Mapping[str, Tensor], source: str) -> None:
    """Load a state dict into a model, all or nothing.

    Args:
        model: The network; left as it was when the state does not fit.
        state: The tensors, under the network's own keys or a known public layout's.
        source: What an error calls the state, for example its file.

    Raises:
        CheckpointError: A key is missing, unexpected, or of another shape.
    """
    state = fit_keys(state, model)
    expected = model.state_dict()
    missing = [key for key in expected if key not in state]
    unexpected = [key for key in state if key not in expected]
    reshaped = [
        f"{key} {tuple(state[key].shape)} instead of {tuple(value.shape)}"
        for key, value in expected.items()
        if key in state and state[key].shape != value.shape
    ]
    complaints = [
        f"{len(found)} {kind} ({', '.join(found[:3])}{', ...' if len(found) > 3 else ''})"
        for kind, found in (
            ("missing keys", missing),
            ("unexpected keys", unexpected),
            ("tensors of another shape", reshaped),
        )
        if found
    ]
    if complaints:
        raise CheckpointError(f"{source} does not fit {type(model).__name__}: {'; '.join(complaints)}.")
    broken = [key for key, value in state.items() if value.is_floating_point() and not value.isfinite().all()]
    if broken:
        raise CheckpointError(f"{source} holds NaN or Inf in {broken[0]}.")
    model.load_state_dict(state)
