"""Folders of images: one folder per class, optionally in folders of corruptions (ImageNet, ImageNet-C)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np

from midway.data.corrupted import check_severity
from midway.data.corruptions.registry import Category
from midway.data.datasets import dataset
from midway.data.image_set import ImageSet
from midway.data.lazy_images import LazyImages, image_files
from midway.data.manifest import Manifest
from midway.suggest import unknown

ARCHIVE_FOLDERS = ("Tiny-ImageNet-C", "ImageNet-C")
"""Folders that the published archives contain."""

IGNORED = ("__MACOSX", "@eaDir", "lost+found", "$RECYCLE.BIN", "System Volume Information")
"""Folders that operating systems create."""

SPLIT_FOLDERS = {"test": ("val", "validation", "test"), "train": ("train",)}

FOLDER = "give the folder that contains the class folders."
IMAGENET = "get the ILSVRC 2012 validation images from image-net.org and sort them into one folder per class."
IMAGENET_C = "get ImageNet-C from Zenodo record 2235448, or make it with `midway data make imagenet-c`."
TINY_IMAGENET_C = (
    "get Tiny-ImageNet-C from Zenodo record 2536630, or make it with `midway data make tiny-imagenet-c --from FOLDER`."
)


@dataset("folder", remedy=FOLDER, needs_root=True)
def load_any(root: Path, *, split: str, size: int | None, classes: Sequence[str] | None) -> ImageSet:
    """Load any folder of images."""
    return _load_split(root, "folder", split, size, classes, FOLDER)


@dataset("imagenet", remedy=IMAGENET)
def load_imagenet(root: Path, *, split: str, size: int | None, classes: Sequence[str] | None) -> ImageSet:
    """Load ImageNet."""
    return _load_split(root, "imagenet", split, size, classes, IMAGENET)


@dataset("imagenet-c", remedy=IMAGENET_C)
def load_imagenet_c(
    root: Path, *, corruption: str | None, severity: int, size: int | None, classes: Sequence[str] | None
) -> ImageSet:
    """Load one corruption of ImageNet-C."""
    return _load_corruption(root, "imagenet-c", corruption, severity, size, classes, IMAGENET_C)


@dataset("tiny-imagenet-c", remedy=TINY_IMAGENET_C)
def load_tiny_imagenet_c(
    root: Path, *, corruption: str | None, severity: int, size: int | None, classes: Sequence[str] | None
) -> ImageSet:
    """Load one corruption of Tiny-ImageNet-C."""
    return _load_corruption(root, "tiny-imagenet-c", corruption, severity, size, classes, TINY_IMAGENET_C)


def subfolders(folder: Path) -> list[str]:
    """Return the sorted names of the folders in a folder, except hidden and ignored ones."""
    if not folder.is_dir():
        return []
    inside = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    return [name for name in inside if not name.startswith(".") and name not in IGNORED]


def load_classes(
    root: Path,
    *,
    name: str,
    remedy: str,
    size: int | None = None,
    classes: Sequence[str] | None = None,
    plain: bool = False,
) -> ImageSet:
    """Load ``root/class/*.jpg``; labels are the indices of the sorted class folders.

    Args:
        root: The folder of class folders.
        name: Name of the set.
        remedy: How to get the data, the end of error messages.
        size: Side in pixels; see ``LazyImages``.
        classes: The class names in label order, for a folder with only some of them.
        plain: Accept a folder of images without folders, as a single class.

    Raises:
        FileNotFoundError: The folder does not exist or has no image.
        ValueError: A folder is not among ``classes``, or the images are not in class folders.
    """
    if not root.is_dir():
        raise FileNotFoundError(f"{root} is missing, expected a folder with one folder of images per class: {remedy}")
    files = {folder: image_files(root / folder) for folder in subfolders(root)}
    if not any(files.values()):  # a plain folder of images
        files = {root.resolve().name: image_files(root)}
        if any(files.values()) and not plain:
            raise ValueError(f"{root} has images but no class folders, so their classes are unknown: {remedy}")
    if not any(files.values()):
        raise FileNotFoundError(f"{root} has no images, expected CLASS/*.jpg or *.png: {remedy}")
    names = tuple(classes) if classes is not None else tuple(files)
    if unlisted := [folder for folder in files if folder not in names]:
        raise ValueError(f"{root}: {unknown('class folder', unlisted[0], names[:20])} {remedy}")
    number = {folder: label for label, folder in enumerate(names)}
    labels = [np.full(len(paths), number[folder], np.int64) for folder, paths in files.items()]
    images = LazyImages([path for paths in files.values() for path in paths], size)
    return ImageSet(images, np.concatenate(labels), names, name)


def _load_split(
    root: Path, name: str, split: str, size: int | None, classes: Sequence[str] | None, remedy: str
) -> ImageSet:
    """Load a split of a folder of images.

    The test split is ``root/val``, ``root/validation`` or ``root/test``, the training split ``root/train``; a root
    without such a folder is the split itself. Tiny-ImageNet's ``val_annotations.txt`` is read.
    """
    if split not in SPLIT_FOLDERS:
        raise ValueError(f"split is '{split}', expected 'test' or 'train'.")
    inside = set(subfolders(root))
    folder = next((root / each for each in SPLIT_FOLDERS[split] if each in inside), root)
    if folder is root and inside and inside <= {each for names in SPLIT_FOLDERS.values() for each in names}:
        expected = " or ".join(SPLIT_FOLDERS[split])
        raise FileNotFoundError(f"{root} has {', '.join(sorted(inside))} but no {expected} folder: {remedy}")
    if (annotations := folder / "val_annotations.txt").is_file():
        return _load_annotated(annotations, name=name, size=size, classes=classes)
    return load_classes(folder, name=name, size=size, classes=classes, remedy=remedy, plain=name == "folder")


def _load_annotated(path: Path, *, name: str, size: int | None, classes: Sequence[str] | None) -> ImageSet:
    """Load Tiny-ImageNet's validation images, ``images/*.JPEG``, whose classes are in a list beside them."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not rows or any(len(row) < 2 for row in rows):
        raise ValueError(f"{path} is not a list of 'file, class' with tabs between: get the data set again.")
    names = tuple(classes) if classes is not None else tuple(sorted({row[1] for row in rows}))
    if unlisted := [row[1] for row in rows if row[1] not in names]:
        raise ValueError(f"{path}: {unknown('class', unlisted[0], names[:20])}")
    number = {class_name: label for label, class_name in enumerate(names)}
    images = LazyImages([path.parent / "images" / row[0] for row in rows], size)
    return ImageSet(images, np.array([number[row[1]] for row in rows], np.int64), names, name)


def _load_corruption(
    root: Path,
    name: str,
    corruption: str | None,
    severity: int,
    size: int | None,
    classes: Sequence[str] | None,
    remedy: str,
) -> ImageSet:
    """Load ``root/corruption/severity/class/*.JPEG``, the layout of ImageNet-C and Tiny-ImageNet-C.

    Also reads ``root/noise/gaussian_noise/...``, the archives each unpacked into its own folder, and a folder with the
    name of the archive in the root. The labels of a set that ``make_corrupted`` wrote are those of its source.

    Raises:
        FileNotFoundError: The folder, the severity or every image is missing.
        ValueError: The corruption is not in the folder, or the severity is not 1 to 5.
    """
    check_severity(severity)
    if not root.is_dir():
        raise FileNotFoundError(f"{root} is missing, expected CORRUPTION/SEVERITY/CLASS/*.JPEG in it: {remedy}")
    root = next((root / inner for inner in ARCHIVE_FOLDERS if (root / inner).is_dir()), root)
    if classes is None and (manifest := Manifest.read(root)) is not None:
        classes = manifest.settings.get("class_names")
    categories = get_args(Category)
    folders = {each: root / each for each in subfolders(root) if each not in categories}
    for category in categories:
        folders |= {each: root / category / each for each in subfolders(root / category)}
    if not folders:
        raise FileNotFoundError(f"{root} is empty, expected CORRUPTION/SEVERITY/CLASS/*.JPEG in it: {remedy}")
    if corruption is None:
        raise ValueError(f"{name} needs corruption=, one of {', '.join(sorted(folders))}.")
    if corruption not in folders:
        raise ValueError(f"{root}: {unknown('corruption', corruption, folders)} For others, {remedy}")
    folder = folders[corruption] / str(severity)
    if not folder.is_dir():
        has = ", ".join(subfolders(folders[corruption])) or "none"
        raise FileNotFoundError(f"{folder} is missing, the folder has severities {has}: {remedy}")
    return load_classes(folder, name=name, size=size, classes=classes, remedy=remedy)
