"""CIFAR-10-C and CIFAR-100-C: one memory-mapped .npy file per corruption (Hendrycks and Dietterich, 2019)."""

from __future__ import annotations

from pathlib import Path

from midway.data.datasets import REMEDY, dataset
from midway.data.image_set import ImageSet
from midway.data.loaders.array_files import open_pair
from midway.data.loaders.cifar import FACTS
from midway.data.loaders.folders import chosen
from midway.data.manifest import Manifest

SEVERITIES = (1, 2, 3, 4, 5)


@dataset("cifar10-c", remedy="make it with `midway data make cifar10-c` or get CIFAR-10-C from Zenodo record 2535967.")
@dataset(
    "cifar100-c", remedy="make it with `midway data make cifar100-c` or get CIFAR-100-C from Zenodo record 3555552."
)
def load_cifar_c(root: Path, *, name: str, corruption: str | None, severity: int) -> ImageSet:
    """Load one corruption at one severity; only the rows that are indexed are read from the file.

    A published file has 50,000 rows, severity 1 first. A set that ``midway data make`` wrote at fewer severities
    lists them in its ``manifest.json``.
    """
    archive_folder = name.replace("cifar", "CIFAR-").replace("-c", "-C")
    if not (root / "labels.npy").is_file() and (root / archive_folder).is_dir():
        root = root / archive_folder
    if not root.is_dir():
        raise FileNotFoundError(f"{root} is missing, expected a folder with labels.npy and CORRUPTION.npy: {REMEDY}")
    stored = sorted(path.stem for path in root.glob("*.npy") if path.stem != "labels" and not path.name.startswith("."))
    if not stored:
        raise FileNotFoundError(f"{root} has no CORRUPTION.npy files: {REMEDY}")
    corruption = chosen(name, root, "corruption", corruption, stored)
    manifest = Manifest.read(root)
    severities = SEVERITIES if manifest is None else tuple(manifest.settings.get("severities", SEVERITIES))
    if severity not in severities:
        raise ValueError(f"{root} has severities {', '.join(map(str, severities))}, not {severity}: {REMEDY}")
    path = root / f"{corruption}.npy"
    images, labels = open_pair(path, root / "labels.npy")
    if len(images) % len(severities):
        raise ValueError(
            f"{path} has {len(images):,} images, expected equally many for {len(severities)} severities: {REMEDY}"
        )
    count = len(images) // len(severities)
    rows = slice(severities.index(severity) * count, (severities.index(severity) + 1) * count)
    return ImageSet(images[rows], labels[rows], FACTS[name.removesuffix("-c")].class_names, name)
