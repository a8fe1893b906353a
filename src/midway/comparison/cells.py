"""The cells of a comparison: what identifies a network and images that were given as objects."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from midway.adaptation.parameters import first_weight
from midway.adaptation.registry import find
from midway.bench import Cell
from midway.bench.batches import Batches
from midway.bench.code import MEASURING, code_digest, modules_of_method
from midway.bench.entries import Entry
from midway.bench.resources import weights_digest
from midway.streams import Batch, Scenario


def describe_comparison(network: nn.Module, data: Any, name: str, batch_size: int) -> Cell:
    """Return a cell with what all cells of a comparison share, without a method; ``name`` is that of the stream."""
    weight = first_weight(network, torch.empty(0))
    folder = isinstance(data, str | Path) and Path(data).is_dir()
    try:
        scenario = Scenario.parse(name)
    except ValueError:
        scenario = Scenario.parse(f"pure:{Batches.groups[0]}")
    return Cell(
        method="",
        label="",
        settings={},
        network=type(network).__name__,
        weights=weights_digest(network),
        data="folder" if folder else data if isinstance(data, str) else _name_of(data),
        root=str(Path(data).resolve()) if folder else None,
        images=None,
        size=None,
        scenario=scenario,
        seed=0,
        batch_size=batch_size,
        precision=str(weight.dtype).removeprefix("torch."),
        device=str(weight.device),
        threads=torch.get_num_threads(),
        module="",
    )


def _name_of(data: Any) -> str:
    name = getattr(data, "name", None)  # a tensor has the attribute, with the value None
    return name if isinstance(name, str) else type(data).__name__


def create_cell(entry: Entry, shared: Cell, digest: str) -> Cell:
    """Return the cell of a method: its key identifies the network, its code the method and the images."""
    return replace(
        shared,
        method=entry.name,
        label=entry.label,
        settings=entry.complete_settings(shared.seed),
        further_weights=find(entry.name).further_weights(entry.settings),
        module=find(entry.name).__module__,
        code=code_digest(modules_of_method(entry.name, entry.settings) | {*MEASURING}) + digest,
    )


def digest_batches(batches: Iterable[Batch], *, mirrored: bool) -> str:
    """Return what identifies images and labels in the code of a cell: all batches, their sizes and their order."""
    digest = hashlib.sha256(f"{mirrored}".encode())
    for batch in batches:
        digest.update(f"{tuple(batch.images.shape)}".encode())
        digest.update(batch.images.detach().cpu().float().contiguous().numpy().tobytes())
        digest.update(batch.labels.numpy().tobytes())
    return digest.hexdigest()[:16]
