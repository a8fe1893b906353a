"""Folders of images: one folder a class, with or without corruptions around it (ImageNet, ImageNet-C, any other)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from midway.data.corrupted import check_severity
from midway.data.image_set import ImageSet
from midway.data.lazy_images import LazyImages, image_files
from midway.data.manifest import Manifest
from midway.suggest import unknown

CATEGORIES = ("noise", "blur", "weather", "digital", "extra")
"""The archives ImageNet-C is published in; some people unpack each into a folder of its name."""

ARCHIVE_FOLDERS = ("Tiny-ImageNet-C", "ImageNet-C")
"""What archives unpack to."""


STRAY = ("__MACOSX", "@eaDir", "lost+found", "$RECYCLE.BIN", "System Volume Information")
"""Folders that systems leave behind and no data set has."""


def subfolders(folder: Path) -> list[str]:
    """Names of the folders in a folder, sorted, hidden and stray ones left out; none if there is no such folder."""
    if not folder.is_dir():
        return []
    there = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    return [name for name in there if not name.startswith(".") and name not in STRAY]


def load_classes(
    root: Path,
    *,
    name: str,
    remedy: str,
    size: int | None = None,
    classes: Sequence[str] | None = None,
    plain: bool = False,
) -> ImageSet:
    """Load ``root/class/*.jpg``; labels count the class folders by name.

    Args:
        root: The folder of class folders.
        name: What a table calls the set.
        remedy: Where to get the data, the end of every error message.
        size: Side in pixels; see ``LazyImages``.
        classes: The class names in label order, for a folder that holds only some of a model's classes.
        plain: A folder with images and no folders is a single class of its name.

    Raises:
        FileNotFoundError: There is no such folder, or no image in it.
        ValueError: A folder is not among ``classes``, or the images are not in class folders.
    """
    if not root.is_dir():
        raise FileNotFoundError(f"{root} is missing, expected a folder with one folder of images a class: {remedy}")
    files = {folder: image_files(root / folder) for folder in subfolders(root)}
    if not any(files.values()):  # a plain folder of images
        files = {root.resolve().name: image_files(root)}
        if any(files.values()) and not plain:
            raise ValueError(f"{root} has images but no class folders, so their classes are not known: {remedy}")
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
    split; a root without such a folder is the split itself. Tiny-ImageNet's ``val_annotations.txt`` is read.
    """
    places = {"test": ("val", "validation", "test"), "train": ("train",)}
    if split not in places:
        raise ValueError(f"split is '{split}', expected 'test' or 'train'.")
    inside = set(subfolders(root))
    folder = next((root / place for place in places[split] if place in inside), root)
    if folder is root and inside and inside <= {place for names in places.values() for place in names}:
        expected = " or ".join(places[split])
        raise FileNotFoundError(f"{root} has {', '.join(sorted(inside))} but no {expected} folder: {remedy}")
    if (annotations := folder / "val_annotations.txt").is_file():
        return _load_annotated(annotations, name=name, size=size, classes=classes)
    return load_classes(folder, name=name, size=size, classes=classes, remedy=remedy, plain=name == "folder")


def _load_annotated(path: Path, *, name: str, size: int | None, classes: Sequence[str] | None) -> ImageSet:
    """Load Tiny-ImageNet's validation images, ``images/*.JPEG``, whose classes stand in a list beside them."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not rows or any(len(row) < 2 for row in rows):
        raise ValueError(f"{path} is not a list of 'file, class' with tabs between: get the data set again.")
    names = tuple(classes) if classes is not None else tuple(sorted({row[1] for row in rows}))
    if strange := [row[1] for row in rows if row[1] not in names]:
        raise ValueError(f"{path}: {unknown('class', strange[0], names[:20])}")
    number = {class_name: label for label, class_name in enumerate(names)}
    images = LazyImages([path.parent / "images" / row[0] for row in rows], size)
    return ImageSet(images, np.array([number[row[1]] for row in rows], np.int64), names, name)


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

    ``root/noise/gaussian_noise/...``, the archives unpacked each into its own folder, is read too, and so is a folder
    of the archive's name in the root. The labels of a set that ``make_corrupted`` made are those of its source.

    Raises:
        FileNotFoundError: The folder, the severity or every image is missing.
        ValueError: The corruption is not in the folder, or the severity is not 1 to 5.
    """
    check_severity(severity)
    if not root.is_dir():
        raise FileNotFoundError(f"{root} is missing, expected CORRUPTION/SEVERITY/CLASS/*.JPEG in it: {remedy}")
    root = next((root / inner for inner in ARCHIVE_FOLDERS if (root / inner).is_dir()), root)
    if classes is None and (manifest := Manifest.find(root)) is not None:
        classes = manifest.settings.get("class_names")
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
