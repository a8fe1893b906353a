"""CIFAR-10-C and CIFAR-100-C: one memory-mapped .npy file per corruption (Hendrycks and Dietterich, 2019)."""

from __future__ import annotations

from pathlib import Path

from midway.data.corrupted import check_severity
from midway.data.datasets import dataset
from midway.data.image_set import ImageSet
from midway.data.loaders.array_files import open_pair
from midway.data.loaders.cifar import CIFAR10, CIFAR100, CifarFacts
from midway.data.manifest import Manifest
from midway.suggest import unknown

SEVERITIES = (1, 2, 3, 4, 5)
CIFAR10_C = "make it with `midway data make cifar10-c` or get CIFAR-10-C from Zenodo record 2535967."
CIFAR100_C = "make it with `midway data make cifar100-c` or get CIFAR-100-C from Zenodo record 3555552."


@dataset("cifar10-c", remedy=CIFAR10_C)
def load_cifar10_c(root: Path, *, corruption: str | None, severity: int) -> ImageSet:
    """Load one corruption of CIFAR-10-C."""
    return _load(root, "CIFAR-10-C", CIFAR10, corruption, severity, CIFAR10_C)


@dataset("cifar100-c", remedy=CIFAR100_C)
def load_cifar100_c(root: Path, *, corruption: str | None, severity: int) -> ImageSet:
    """Load one corruption of CIFAR-100-C."""
    return _load(root, "CIFAR-100-C", CIFAR100, corruption, severity, CIFAR100_C)


def _load(
    root: Path, archive_folder: str, facts: CifarFacts, corruption: str | None, severity: int, remedy: str
) -> ImageSet:
    """Load one corruption at one severity; only the rows that are indexed are read from the file.

    A published file has 50,000 rows, severity 1 first. A set that ``midway data make`` wrote at fewer severities
    lists them in its ``manifest.json``.

    Raises:
        FileNotFoundError: The folder or ``labels.npy`` is missing.
        ValueError: The corruption or severity is not in the folder, or the files do not fit together.
    """
    check_severity(severity)
    if not (root / "labels.npy").is_file() and (root / archive_folder).is_dir():
        root = root / archive_folder
    if not root.is_dir():
        raise FileNotFoundError(f"{root} is missing, expected a folder with labels.npy and CORRUPTION.npy: {remedy}")
    stored = sorted(path.stem for path in root.glob("*.npy") if path.stem != "labels" and not path.name.startswith("."))
    if not stored:
        raise FileNotFoundError(f"{root} has no CORRUPTION.npy files: {remedy}")
    if corruption is None:
        raise ValueError(f"{facts.name}-c needs corruption=, one of {', '.join(stored)}.")
    if corruption not in stored:
        raise ValueError(f"{root}: {unknown('corruption', corruption, stored)} For others, {remedy}")

    manifest = Manifest.read(root)
    severities = SEVERITIES if manifest is None else tuple(manifest.settings.get("severities", SEVERITIES))
    if severity not in severities:
        raise ValueError(f"{root} has severities {', '.join(map(str, severities))}, not {severity}: {remedy}")
    path = root / f"{corruption}.npy"
    images, labels = open_pair(path, root / "labels.npy", side=32, remedy=remedy)
    if len(images) % len(severities):
        raise ValueError(
            f"{path} has {len(images):,} images, expected equally many for {len(severities)} severities: {remedy}"
        )
    count = len(images) // len(severities)
    rows = slice(severities.index(severity) * count, (severities.index(severity) + 1) * count)
    return ImageSet(images[rows], labels[rows], facts.class_names, f"{facts.name}-c")
