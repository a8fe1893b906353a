"""Test sets for networks of the 1,000 ImageNet classes: ImageNet-R, -A, -V2, -Sketch and -D109."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from midway.data.datasets import ASSETS, REMEDY, dataset
from midway.data.image_set import ImageSet
from midway.data.lazy_images import LazyImages, image_files
from midway.data.loaders.folders import chosen, load_classes, subfolders

CLASSES = 1000
ARCHIVE_FOLDERS = {
    "imagenet-r": ("imagenet-r",),
    "imagenet-a": ("imagenet-a",),
    "imagenet-sketch": ("sketch", "ImageNet-Sketch"),
    "imagenet-v2": ("imagenetv2-matched-frequency-format-val", "imagenetv2-matched-frequency"),
}
"""Folders that the published archives contain."""


@cache
def _subsets() -> dict[str, list[int] | dict[str, int]]:
    content: dict[str, list[int] | dict[str, int]] = json.loads((ASSETS / "imagenet_subsets.json").read_text("utf-8"))
    return content


def imagenet_indices(name: str) -> tuple[int, ...] | None:
    """Return the index among the 1,000 ImageNet classes of each class of a data set; None if it has all, or others.

    They are the ``logits`` of the set: a network of 1,000 classes is evaluated on it with these logits alone, chosen
    before the softmax (``midway.adaptation.class_subset.select_classes``).

    Example:
        >>> from midway import data
        >>> len(data.imagenet_indices("imagenet-r")), data.imagenet_indices("imagenet-a")[:3]
        (200, (6, 11, 13))
        >>> data.imagenet_indices("imagenet-v2") is None
        True
    """
    subset = _subsets().get(name)
    return None if subset is None else tuple(subset.values() if isinstance(subset, dict) else subset)


def is_imagenet_subset(logits: Sequence[int]) -> bool:
    """Return whether logits are those of a set with some of the ImageNet classes.

    Networks of 1,000 classes are limited to them; networks that were trained on just these classes are not.

    Example:
        >>> is_imagenet_subset(imagenet_indices("imagenet-r")), is_imagenet_subset((0, 1))
        (True, False)
    """
    return any(tuple(logits) == imagenet_indices(name) for name in _subsets())


@dataset("imagenet-r", remedy="get imagenet-r.tar from github.com/hendrycks/imagenet-r; it has 200 class folders.")
@dataset("imagenet-a", remedy="get imagenet-a.tar from github.com/hendrycks/natural-adv-examples; it has 200 folders.")
@dataset("imagenet-sketch", remedy="get it from github.com/HaohanWang/ImageNet-Sketch; it has 1,000 class folders.")
def load_wordnet_folders(root: Path, *, name: str, size: int | None, classes: Sequence[str] | None) -> ImageSet:
    """Load ``root/n01443537/*.jpg``: the sorted folders are the classes, in the order of their ImageNet indices.

    The order is that of all folders together, so all of them must be there; for a part give ``classes``.
    """
    root = _unpacked(root, name)
    indices = imagenet_indices(name)
    expected = CLASSES if indices is None else len(indices)
    folders = subfolders(root)
    if classes is None and folders and len(folders) != expected:
        raise ValueError(
            f"{root} has {len(folders)} class folders, expected {expected}, whose order gives the labels: give the "
            f"names of all in classes=, or {REMEDY}"
        )
    data = load_classes(root, name=name, size=size, classes=classes)
    return data if classes is not None or indices is None else replace(data, logits=indices)


@dataset(
    "imagenet-v2",
    remedy="get the matched-frequency set from github.com/modestyachts/ImageNetV2; its folders are named 0 to 999.",
)
def load_v2(root: Path, *, size: int | None) -> ImageSet:
    """Load ``root/0/*.jpeg`` to ``root/999/*.jpeg``; a folder's number is the label.

    A loader that sorts folders as text gives folder 10 the label 2.
    """
    root = _unpacked(root, "imagenet-v2")
    folders = subfolders(root)
    if wrong := [folder for folder in folders if not folder.isdecimal() or int(folder) >= CLASSES]:
        raise ValueError(f"{root} has a folder '{wrong[0]}', expected numbers from 0 to {CLASSES - 1}: {REMEDY}")
    names = tuple(map(str, range(CLASSES)))
    return load_classes(root, name="imagenet-v2", size=size, classes=names)


@dataset(
    "imagenet-d109",
    remedy="get DomainNet from ai.bu.edu/M3SDA and put or link its domains there (clipart, infograph, painting, real "
    "and sketch); of its classes the 109 that are one ImageNet class each are read.",
)
def load_d109(root: Path, *, domain: str | None, size: int | None) -> ImageSet:
    """Load all images of a domain of DomainNet whose class corresponds to exactly one class of ImageNet.

    Some of the published pairs are wrong in sense (duck is platypus, dragon is Komodo dragon, ocean is ocean liner,
    knee is knee pad); published numbers include them, so they stay.
    """
    subset = _subsets()["imagenet-d109"]
    names = tuple(subset) if isinstance(subset, dict) else ()
    domains = [folder for folder in subfolders(root) if set(subfolders(root / folder)) & set(names)]
    if not domains:
        raise FileNotFoundError(f"{root} has no domains, expected DOMAIN/CLASS/*.jpg in it: {REMEDY}")
    domain = chosen("imagenet-d109", root, "domain", domain, domains)
    files = [image_files(root / domain / name) if (root / domain / name).is_dir() else [] for name in names]
    if not any(files):
        raise FileNotFoundError(f"{root / domain} has no images, expected CLASS/*.jpg: {REMEDY}")
    labels = np.repeat(np.arange(len(names)), [len(paths) for paths in files])
    images = LazyImages([path for paths in files for path in paths], size)
    indices = imagenet_indices("imagenet-d109")
    return ImageSet(images, labels, names, "imagenet-d109", logits=indices, complete=False)


def _unpacked(root: Path, name: str) -> Path:
    return next((root / inner for inner in ARCHIVE_FOLDERS[name] if (root / inner).is_dir()), root)
