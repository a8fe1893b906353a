"""Folders of images: one folder per class, optionally in folders of corruptions (ImageNet, ImageNet-C)."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import get_args

import numpy as np

from midway._files import read_text
from midway._suggest import unknown
from midway.data.class_lists import Classes, label_folders
from midway.data.corruptions.registry import Category
from midway.data.datasets import REMEDY, dataset
from midway.data.image_set import UNLABELLED, ImageSet
from midway.data.lazy_images import LazyImages, image_files
from midway.data.manifest import Manifest

ARCHIVE_FOLDERS = ("Tiny-ImageNet-C", "ImageNet-C")
"""Folders that the published archives contain."""

IGNORED = ("__MACOSX", "@eaDir", "lost+found", "$RECYCLE.BIN", "System Volume Information")
"""Folders that operating systems create."""

SPLIT_FOLDERS = {"test": ("val", "validation", "test"), "train": ("train",)}


def subfolders(folder: Path) -> list[str]:
    """Return the sorted names of the folders in a folder, except hidden and ignored ones."""
    if not folder.is_dir():
        return []
    inside = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    return [name for name in inside if not name.startswith(".") and name not in IGNORED]


def chosen(name: str, root: Path, argument: str, value: str | None, stored: Collection[str]) -> str:
    """Return the corruption or domain of an argument of ``load``, or raise unless it is in the folder."""
    if value is None:
        raise ValueError(f"{name} needs {argument}=, one of {', '.join(sorted(stored))}.")
    if value not in stored:
        raise ValueError(f"{root}: {unknown(argument, value, stored)} For others, {REMEDY}")
    return value


def load_classes(
    root: Path, *, name: str, size: int | None = None, classes: Classes | None = None, plain: bool = False
) -> ImageSet:
    """Load ``root/class/*.jpg``; labels follow from ``classes``, by default from the order of the class folders.

    Folders are in the order of their names, those named by numbers in the order of the numbers. ``plain`` accepts a
    folder of images without class folders, which are unlabelled.
    """
    if not root.is_dir():
        raise FileNotFoundError(f"{root} is missing, expected a folder with one folder of images per class: {REMEDY}")
    folders = subfolders(root)
    if all(folder.isdecimal() for folder in folders):
        folders.sort(key=int)  # by text, 10 would come before 2
    files = {folder: image_files(root / folder) for folder in folders}
    if not any(files.values()):  # a plain folder of images
        images = image_files(root)
        if images and not plain:
            raise ValueError(f"{root} has images but no class folders, so their classes are unknown: {REMEDY}")
        if images and classes is not None:
            raise ValueError(f"{root} has no class folders, so classes= does not apply: leave it out.")
        if images:
            return ImageSet(LazyImages(images, size), np.full(len(images), UNLABELLED), (), name)
    if not any(files.values()):
        if plain:
            raise FileNotFoundError(
                f"{root} has no images, neither in it nor in class folders: expected *.jpg or *.png."
            )
        raise FileNotFoundError(f"{root} has no images, expected CLASS/*.jpg or *.png: {REMEDY}")
    if plain and (beside := [path for path in image_files(root) if path.parent == root]):
        raise ValueError(
            f"{root} has {len(beside)} images beside its class folders, such as {beside[0].name}: move them into a "
            "class folder, or out of this one."
        )
    numbered = label_folders(files, classes, where=str(root))
    labels = [np.full(len(paths), numbered.labels[folder], np.int64) for folder, paths in files.items()]
    lazy = LazyImages([path for paths in files.values() for path in paths], size)
    return ImageSet(lazy, np.concatenate(labels), numbered.names, name, numbered.logits, numbered.indexed)


@dataset("folder", remedy="give the folder that contains the class folders.", needs_root=True)
@dataset(
    "imagenet",
    remedy="get the ILSVRC 2012 validation images from image-net.org and sort them into one folder per class.",
)
def load_split(root: Path, *, name: str, split: str, size: int | None, classes: Classes | None) -> ImageSet:
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
        raise FileNotFoundError(f"{root} has {', '.join(sorted(inside))} but no {expected} folder: {REMEDY}")
    if (annotations := folder / "val_annotations.txt").is_file():
        return _load_annotated(annotations, name=name, size=size, classes=classes)
    return load_classes(folder, name=name, size=size, classes=classes, plain=name == "folder")


def _load_annotated(path: Path, *, name: str, size: int | None, classes: Classes | None) -> ImageSet:
    """Load Tiny-ImageNet's validation images, ``images/*.JPEG``, whose classes are in a list beside them."""
    rows = [line.split("\t") for line in read_text(path).splitlines() if line.strip()]
    if not rows or any(len(row) < 2 for row in rows):
        raise ValueError(f"{path} is not a list of 'file, class' with tabs between: get the data set again.")
    present = {file.name for file in image_files(path.parent / "images")}
    if missing := [row[0] for row in rows if row[0] not in present]:
        raise FileNotFoundError(
            f"{path} lists {missing[0][:60]!r}, and {path.parent / 'images'} has no such image: get the data set again."
        )
    numbered = label_folders(sorted({row[1] for row in rows}), classes, where=str(path))
    images = LazyImages([path.parent / "images" / row[0] for row in rows], size)
    labels = np.array([numbered.labels[row[1]] for row in rows], np.int64)
    return ImageSet(images, labels, numbered.names, name, numbered.logits, numbered.indexed)


@dataset(
    "imagenet-c", remedy="get ImageNet-C from Zenodo record 2235448, or make it with `midway data make imagenet-c`."
)
@dataset(
    "tiny-imagenet-c",
    remedy="get Tiny-ImageNet-C from Zenodo record 2536630, "
    "or make it with `midway data make tiny-imagenet-c --from FOLDER`.",
)
def load_corruption(
    root: Path, *, name: str, corruption: str | None, severity: int, size: int | None, classes: Classes | None
) -> ImageSet:
    """Load ``root/corruption/severity/class/*.JPEG``, the layout of ImageNet-C and Tiny-ImageNet-C.

    Also reads ``root/noise/gaussian_noise/...``, the archives each unpacked into its own folder, and a folder with the
    name of the archive in the root. The labels of a set that ``make_corrupted`` wrote are those of its source.
    """
    if not root.is_dir():
        raise FileNotFoundError(f"{root} is missing, expected CORRUPTION/SEVERITY/CLASS/*.JPEG in it: {REMEDY}")
    root = next((root / inner for inner in ARCHIVE_FOLDERS if (root / inner).is_dir()), root)
    if classes is None and (manifest := Manifest.read(root)) is not None:
        classes = manifest.settings.get("class_names")
    categories = get_args(Category)
    folders = {each: root / each for each in subfolders(root) if each not in categories}
    for category in categories:
        folders |= {each: root / category / each for each in subfolders(root / category)}
    if not folders:
        raise FileNotFoundError(f"{root} is empty, expected CORRUPTION/SEVERITY/CLASS/*.JPEG in it: {REMEDY}")
    corruption = chosen(name, root, "corruption", corruption, folders)
    folder = folders[corruption] / str(severity)
    if not folder.is_dir():
        has = ", ".join(subfolders(folders[corruption])) or "none"
        raise FileNotFoundError(f"{folder} is missing, the folder has severities {has}: {REMEDY}")
    return load_classes(folder, name=name, size=size, classes=classes)
