"""Read published checkpoints: without running code from them, in all common layouts."""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from midway._errors import describe_error
from midway._files import file_digest, write_atomically

WRAPPERS = ("state_dict", "model_state_dict", "model", "net", "network", "ema_state_dict")
PREFIXES = ("module.", "_orig_mod.", "model.", "net.", "network.", "backbone.", "encoder.")
HEADS = ("linear", "classifier", "head", "output", "logits")
"""Names of the last layer in public checkpoints; in the networks of this package it is ``fc``."""

SYNONYMS = (
    (re.compile(rf"^({'|'.join(HEADS)})\.(?=(weight|bias)$)"), "fc."),
    (re.compile(r"^(block\d+)\.(?=\d+\.)"), r"\1.layer."),  # WideResNets without a level between stage and block
    (re.compile(r"\.shortcut\.(?=\d+\.)"), ".downsample."),
    (re.compile(r"\.shortcut\.(0\.)?(?=weight$)"), ".convShortcut."),
)
"""Patterns in the keys of public checkpoints, and what the networks of this package have in their place."""

MEANS, STDS = ("mean", "mu"), ("std", "sigma")  # last parts of the keys of normalisation constants
_UNUSED = re.compile(r"(^|\.)((normalize|sub_block1)(\.|$)|(mean|std|mu|sigma)$)")  # keys that no forward pass uses


class CheckpointError(ValueError):
    """A checkpoint is unsafe, damaged or does not fit the network."""


def digest_file(path: Path) -> Path:
    """Return where the checksum of a checkpoint is: beside it, in the format of the program ``sha256sum``."""
    return path.with_name(f"{path.name}.sha256")


def write_digest(path: Path) -> str:
    """Write the checksum of a checkpoint beside it, and return it; ``midway.models.load`` then compares it."""
    digest = file_digest(path)
    write_atomically(digest_file(path), f"{digest}  {path.name}\n")
    return digest


def check_digest(path: Path, sha256: str | None = None) -> None:
    """Refuse a checkpoint with another checksum than this one, or than the one beside it."""
    where = "sha256"
    if sha256 is None and digest_file(path).is_file():
        where = digest_file(path).name
        sha256 = digest_file(path).read_text(errors="replace").partition(" ")[0]
    if sha256 is None:
        return
    if not re.fullmatch("[0-9a-f]{8,64}", sha256.strip().lower()):
        raise CheckpointError(f"{where} of {path} is not a SHA-256: give at least 8 hexadecimal digits.")
    if not (digest := file_digest(path)).startswith(sha256.strip().lower()):
        raise CheckpointError(
            f"{path} has SHA-256 {digest[:12]}..., {where} says {sha256[:12]}...: the file has changed since; get it "
            "again, or run `midway models add` if the change is yours."
        )


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a checkpoint file.

    Only safetensors and ``torch.load(weights_only=True)`` are used: a pickle that would run code is refused.
    Wrappers such as ``{"state_dict": ...}`` are opened; keys are those of the file.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint at {path}: give a file with weights, .safetensors or .pth.")
    try:
        if path.suffix == ".safetensors":
            return dict(load_file(path))
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{path} was refused: it contains more than tensors (a pickle that could run code, or a damaged file). "
            'Save the weights alone, torch.save(model.state_dict(), "weights.pth"), or use safetensors.'
        ) from error
    except Exception as error:  # a damaged file can raise anything
        raise CheckpointError(f"{path} cannot be read as a checkpoint: {describe_error(error)}") from error
    return _tensors(content, path)


def _tensors(content: Any, path: Path) -> dict[str, Tensor]:
    if isinstance(content, Mapping):
        for wrapper in WRAPPERS:
            if isinstance(content.get(wrapper), Mapping):
                return _tensors(content[wrapper], path)
        tensors = {str(key): value for key, value in content.items() if isinstance(value, Tensor)}
        for key, value in tensors.items():
            if value.is_nested or value.is_quantized or value.layout is not torch.strided or value.is_meta:
                raise CheckpointError(
                    f"{path} has a sparse, nested, quantised or empty tensor in {key}, expected plain ones: save the "
                    "weights as dense float32."
                )
        if tensors:
            return tensors
    raise CheckpointError(f"{path} is a {type(content).__name__} without tensors, expected a state dict.")


def fit_keys(state: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename the keys of a state dict to those of a model, for known public layouts.

    Removes the prefixes of wrappers (``module.`` of DataParallel, ``_orig_mod.`` of torch.compile, ``model.``, ...),
    the constants of normalisation layers and the unused ``sub_block1`` of some adversarially trained WideResNets, and
    adds the BatchNorm counters that old files lack. Other names of the head, of stages and of shortcuts are replaced if
    the model has a tensor of the new name.
    """
    if state.keys() == expected.keys():
        return dict(state)
    prefixes = [prefix for prefix in PREFIXES if not any(key.startswith(prefix) for key in expected)]
    while True:
        used = [key for key in state if not _UNUSED.search(key)]
        common = os.path.commonprefix(used)  # noqa: RUF071, of characters, not of path components
        prefix = next((each for each in prefixes if common.startswith(each)), None)
        if prefix is None:
            break
        state = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
    state = {key: value for key, value in state.items() if key in expected or not _UNUSED.search(key)}
    state = {_renamed(key, expected): value for key, value in state.items()}
    counters = {key: expected[key] for key in expected if key.endswith("num_batches_tracked") and key not in state}
    return state | {key: torch.zeros_like(value) for key, value in counters.items()}


def _renamed(key: str, expected: Mapping[str, Tensor]) -> str:
    """Return the name that a model has for a tensor of a checkpoint; the key itself if no synonym fits."""
    candidates = [key]
    for pattern, replacement in SYNONYMS:
        candidates += [pattern.sub(replacement, each) for each in candidates]
    return next((each for each in candidates if each in expected), key)


def stored_constants(state: Mapping[str, Tensor]) -> dict[str, tuple[float, ...]]:
    """Return the ``mean`` and ``std`` of the normalisation in a checkpoint; empty if it has none."""
    constants = {
        kind: tuple(value.flatten().expand(3).tolist())  # one value is for all channels
        for kind, names in (("mean", MEANS), ("std", STDS))
        for key, value in state.items()
        if key.split(".")[-1] in names and value.numel() in (1, 3)
    }
    return constants if len(constants) == 2 else {}


def load_weights(model: nn.Module, state: Mapping[str, Tensor], source: str) -> None:
    """Load a state dict with the network's own keys or in a known public layout, completely or not at all."""
    expected = model.state_dict()
    state = fit_keys(state, expected)
    problems = {
        "missing keys": [key for key in expected if key not in state],
        "unexpected keys": [key for key in state if key not in expected],
        "tensors of another shape": [
            f"{key} {tuple(state[key].shape)} instead of {tuple(value.shape)}"
            for key, value in expected.items()
            if key in state and state[key].shape != value.shape
        ],
    }
    texts = [
        f"{len(keys)} {kind} ({', '.join(keys[:3])}{', ...' if len(keys) > 3 else ''})"
        for kind, keys in problems.items()
        if keys
    ]
    if texts:
        raise CheckpointError(f"{source} does not fit {type(model).__name__}: {'; '.join(texts)}.")
    for key, value in state.items():
        if expected[key].is_floating_point() and not value.is_floating_point():
            raise CheckpointError(
                f"{source} has {str(value.dtype).removeprefix('torch.')} in {key}, expected floating point: save the "
                "weights as float32."
            )
        if value.is_floating_point() and not value.to(expected[key].dtype).isfinite().all():
            raise CheckpointError(f"{source} has NaN or Inf in {key}.")
    model.load_state_dict(state)
