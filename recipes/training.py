"""What the recipes that train networks share: checkpoints from which they resume, a log, and arguments."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch


def resume(out: Path, settings: Mapping[str, Any], parts: Mapping[str, Any]) -> dict[str, Any]:
    """Load networks and optimizers from ``out/last.pt`` and return the checkpoint; {} if there is none yet."""
    out.mkdir(parents=True, exist_ok=True)
    checkpoint = out / "last.pt"
    if not checkpoint.exists():
        return {}
    state: dict[str, Any] = torch.load(checkpoint, weights_only=True)
    if state["recipe"] != json.dumps(settings):
        raise SystemExit(f"{checkpoint} was made with other settings; choose another --out or remove it.")
    for name, part in parts.items():
        part.load_state_dict(state[name])
    return state


def save(
    out: Path, settings: Mapping[str, Any], parts: Mapping[str, Any], record: Mapping[str, Any], **progress: float
) -> None:
    """Write a checkpoint, of which a kill leaves the old one or the new one, and a record to the log."""
    state = {name: part.state_dict() for name, part in parts.items()} | progress | {"recipe": json.dumps(settings)}
    partial = out / "last.partial"
    torch.save(state, partial)
    partial.replace(out / "last.pt")
    with (out / "log.jsonl").open("a") as log:
        log.write(json.dumps(record) + "\n")


def create_parser(description: str | None, name: str) -> argparse.ArgumentParser:
    """Return a parser with the arguments of every recipe; ``name`` is that of the network."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with CIFAR-10, if not where `midway data fetch` puts it")
    parser.add_argument("--out", type=Path, default=Path(f"runs/train/{name}"), help="checkpoints and log")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--export", type=Path, metavar="FOLDER", help="pack the trained network with its card there")
    return parser
