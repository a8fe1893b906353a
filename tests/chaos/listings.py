"""Lists and archives that belong to data and weights: classes, splits, annotations, checksums."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def listing_readers(folder: Path) -> dict[str, tuple[Path, Callable[[], Any]]]:
    """Write a file of each kind into a folder; return them, and how the package reads them."""
    import torch
    from PIL import Image

    from midway import data, models
    from midway.data.download import unpack

    names = ("cat", "dog")
    image = Image.fromarray(np.random.default_rng(2).integers(0, 256, (32, 32, 3), np.uint8))
    for inner in ("classes", "domains/real", "tiny/val/images"):
        for name in names if inner != "tiny/val/images" else ("",):
            (folder / inner / name).mkdir(parents=True, exist_ok=True)
            for number in range(2):
                image.save(folder / inner / name / f"{number}.png")
    files = {
        "classes.txt": "cat 1\ndog 3\n",
        "classes.json": '{"0": "cat", "1": "dog"}',
        "domains/real_test.txt": "".join(f"real/{name}/{n}.png {i}\n" for i, name in enumerate(names) for n in (0, 1)),
        "tiny/val/val_annotations.txt": "0.png\tcat\t0\t0\t9\t9\n1.png\tdog\t0\t0\t9\t9\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    torch.save(models.create("resnet20").state_dict(), folder / "listed.pth")
    models.checkpoints.write_digest(folder / "listed.pth")
    with tarfile.open(folder / "archive.tar.gz", "w:gz") as archive:
        archive.add(folder / "classes", "classes")

    def labels(name: str, root: str, **which: Any) -> Any:
        loaded = data.load(name, folder / root, **which)
        return loaded.labels.tolist(), loaded.class_names, len(loaded.images[np.arange(len(loaded))])

    def unpacked() -> Any:
        unpack(folder / "archive.tar.gz", folder / "unpacked")
        return sorted(path.name for path in (folder / "unpacked").rglob("*"))

    return {
        "list of classes (.txt)": (
            folder / "classes.txt",
            lambda: labels("folder", "classes", classes=folder / "classes.txt"),
        ),
        "list of classes (.json)": (
            folder / "classes.json",
            lambda: labels("folder", "classes", classes=folder / "classes.json"),
        ),
        "split list of DomainNet": (
            folder / "domains" / "real_test.txt",
            lambda: labels("domainnet", "domains", domain="real", size=32),
        ),
        "annotations of Tiny-ImageNet": (
            folder / "tiny" / "val" / "val_annotations.txt",
            lambda: labels("folder", "tiny", size=32),
        ),
        "checksum of weights": (
            folder / "listed.pth.sha256",
            lambda: len(models.load(folder / "listed.pth").state_dict()),
        ),
        "archive (.tar.gz)": (folder / "archive.tar.gz", unpacked),
    }
