"""Folders of images: one folder a class, with or without corruptions around it (ImageNet, ImageNet-C, any other)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from midway.data.corrupted import check_severity
from midway.data.image_set import ImageSet
from midway.data.lazy_images import LazyImages, image_files
from midway.suggest import unknown

CATEGORIES = ("noise", "blur", "weather", "digital", "extra")
"""The archives ImageNet-C is published in; some people unpack each into a folder of its name."""


def subfolders(folder: Path) -> list[str]:
    """Names of the folders in a folder, sorted, hidden ones left out; none if there is no such folder."""
    if not folder.is_dir():
        return []
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def load_classes(
    root: Path, *, name: str, remedy: str, size: int | None = None, classes: Sequence[str] | None = None
) -> ImageSet:
    """Load ``root/class/*.jpg``; labels count the class folders by name.

    Args:
        root: The folder of class folders. One with images and no folders becomes a single class of its name.
        name: What a table calls the set.
        remedy: Where to get the data, the end of every error message.
        size: Side in pixels; see ``LazyImages``.
        classes: The class names in label order, for a folder that holds only some of a model's classes.

    Raises:
        FileNotFoundError: There is no such folder, or no image in it.
        ValueError: A folder is not among ``classes``.
    """
    if not root.is_dir():
        raise FileNotFoundError(f"{root} is missing, expected a folder with one folder of images a class: {remedy}")
    files = {folder: image_files(root / folder) for folder in subfolders(root)}
    if not any(files.values()):  # a plain folder of images
        files = {root.resolve().name: image_files(root)}
    if not any(files.values()):
        raise FileNotFoundError(f"{root} holds no images, expected CLASS/*.jpg or *.png: {remedy}")
    names = tuple(classes) if classes is not None else tuple(files)
    if strange := [folder for folder in files if folder not in names]:
        raise ValueError(f"{root}: {unknown('class folder', strange[0], names[:20])} {remedy}")
    number = {folder: label for label, folder in enumerate(names)}
    labels = [np.full(len(paths), number[folder], np.int64) for folder, paths in files.items()]
    images = LazyImages([path for paths in files.values() for path in paths], size)
    return ImageSet(images, np.concatenate(labels), names, name)


def load_folder(
    root: Path,
    *,
    name: str = "folder",
    split: str = "test",
    size: int | None = None,
    classes: Sequence[str] | None = None,
    remedy: str = "give the folder that holds the class folders.",
) -> ImageSet:
    """Load any folder of images, ImageNet among them.

    ``root/val``, ``root/validation`` and ``root/test`` are tried for the test split, ``root/train`` for the training
    split; a root without such a folder is the split itself.
    """
    places = {"test": ("val", "validation", "test"), "train": ("train",)}
    if split not in places:
        raise ValueError(f"split is '{split}', expected 'test' or 'train'.")
    inside = set(subfolders(root))
    folder = next((root / place for place in places[split] if place in inside), root)
    if folder is root and inside and inside <= {place for names in places.values() for place in names}:
        expected = " or ".join(places[split])
        raise FileNotFoundError(f"{root} has {', '.join(sorted(inside))} but no {expected} folder: {remedy}")
    return load_classes(folder, name=name, size=size, classes=classes, remedy=remedy)


def load_corrupted_folder(
    root: Path,
    corruption: str | None,
    *,
    severity: int = 5,
    name: str,
    remedy: str,
    size: int | None = None,
    classes: Sequence[str] | None = None,
) -> ImageSet:
    """Load ``root/corruption/severity/class/*.JPEG``, the layout of ImageNet-C and Tiny-ImageNet-C.

    ``root/noise/gaussian_noise/...``, the archives unpacked each into its own folder, is read too.

    Raises:
        FileNotFoundError: The folder, the severity or every image is missing.
        ValueError: The corruption is not in the folder, or the severity is not 1 to 5.
    """
    check_severity(severity)
    if not root.is_dir():
        raise FileNotFoundError(f"{root} is missing, expected CORRUPTION/SEVERITY/CLASS/*.JPEG in it: {remedy}")
    places = {folder: root / folder for folder in subfolders(root) if folder not in CATEGORIES}
    for category in CATEGORIES:
        places |= {folder: root / category / folder for folder in subfolders(root / category)}
    if not places:
        raise FileNotFoundError(f"{root} is empty, expected CORRUPTION/SEVERITY/CLASS/*.JPEG in it: {remedy}")
    if corruption is None:
        raise ValueError(f"{name} needs corruption=, one of {', '.join(sorted(places))}.")
    if corruption not in places:
        raise ValueError(f"{root}: {unknown('corruption', corruption, places)} For others, {remedy}")
    folder = places[corruption] / str(severity)
    if not folder.is_dir():
        has = ", ".join(subfolders(places[corruption])) or "none"
        raise FileNotFoundError(f"{folder} is missing, there are the severities {has}: {remedy}")
    return load_classes(folder, name=name, size=size, classes=classes, remedy=remedy)
