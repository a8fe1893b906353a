"""CIFAR-10-C and CIFAR-100-C as published: one memory-mapped .npy file a corruption (Hendrycks & Dietterich, 2019)."""

from __future__ import annotations

from pathlib import Path

from midway.data.array_files import check_images, check_labels, open_npy
from midway.data.cifar import CifarFacts
from midway.data.corrupted import check_severity
from midway.data.image_set import ImageSet
from midway.data.manifest import Manifest
from midway.suggest import unknown

SEVERITIES = (1, 2, 3, 4, 5)
PUBLISHED = {"cifar10": ("CIFAR-10-C", "2535967"), "cifar100": ("CIFAR-100-C", "3555552")}
"""Clean set -> published folder, Zenodo record."""


def load_cifar_c(root: Path, facts: CifarFacts, corruption: str | None, *, severity: int = 5) -> ImageSet:
    """Load one corruption at one severity; only the rows that are asked for are read from the file.

    A published file has 50,000 rows, severity 1 first. A set that ``midway data make`` wrote at fewer severities
    says in its ``manifest.json`` which ones its rows are.

    Args:
        root: The folder with ``labels.npy``, or the one it was unpacked in.
        facts: ``CIFAR10`` or ``CIFAR100``.
        corruption: Name of the file, without ``.npy``.
        severity: 1 to 5.

    Raises:
        FileNotFoundError: The folder or ``labels.npy`` is missing.
        ValueError: The corruption or severity is not in the folder, or a file does not fit the others.
    """
    check_severity(severity)
    folder_name, record = PUBLISHED[facts.name]
    remedy = f"make it with `midway data make {facts.name}-c` or get {folder_name} from Zenodo record {record}."
    if not (root / "labels.npy").is_file() and (root / folder_name).is_dir():
        root = root / folder_name
    if not root.is_dir():
        raise FileNotFoundError(f"{root} is missing, expected a folder with labels.npy and CORRUPTION.npy: {remedy}")
    there = sorted(path.stem for path in root.glob("*.npy") if path.stem != "labels" and not path.name.startswith("."))
    if not there:
        raise FileNotFoundError(f"{root} holds no CORRUPTION.npy files: {remedy}")
    if corruption is None:
        raise ValueError(f"{facts.name}-c needs corruption=, one of {', '.join(there)}.")
    if corruption not in there:
        raise ValueError(f"{root}: {unknown('corruption', corruption, there)} For others, {remedy}")

    manifest = Manifest.find(root)
    severities = SEVERITIES if manifest is None else tuple(manifest.settings.get("severities", SEVERITIES))
    if severity not in severities:
        raise ValueError(f"{root} was made at severities {', '.join(map(str, severities))}, not {severity}: {remedy}")
    path = root / f"{corruption}.npy"
    images = open_npy(path, remedy=remedy)
    check_images(images, path, side=32, remedy=remedy)
    if len(images) % len(severities):
        raise ValueError(
            f"{path} has {len(images):,} images, expected as many for each of {len(severities)} severities: {remedy}"
        )
    label_path = root / "labels.npy"
    labels = check_labels(open_npy(label_path, remedy=remedy), label_path, count=len(images), remedy=remedy)
    count = len(images) // len(severities)
    rows = slice(severities.index(severity) * count, (severities.index(severity) + 1) * count)
    return ImageSet(images[rows], labels[rows], facts.class_names, f"{facts.name}-c")
