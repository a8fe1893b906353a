"""Read .npy and .npz files and check their content."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midway.data.datasets import REMEDY


def open_npy(path: Path) -> NDArray[np.generic]:
    """Memory-map a .npy file; only indexed rows are read."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: {REMEDY}")
    try:
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = header(file)
            expected = file.tell() + math.prod(shape) * dtype.itemsize
    except (ValueError, EOFError) as error:
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


def open_pair(path: Path, label_path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Memory-map a .npy file of images and read the one of their labels."""
    images: NDArray[Any] = open_npy(path)
    check_images(images, path)
    return images, check_labels(open_npy(label_path), label_path, count=len(images))


def read_npz(path: Path, keys: tuple[str, ...]) -> tuple[NDArray[np.generic], ...]:
    """Read arrays from a .npz file."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: {REMEDY}")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
            if missing := [key for key in keys if key not in content.files]:
                has = ", ".join(content.files) or "nothing"
                raise ValueError(f"{path} has no array '{missing[0]}', it has {has}: {REMEDY}")
            return tuple(content[key] for key in keys)
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise ValueError(
            f"{path} is not a complete .npz file ({path.stat().st_size:,} bytes; {error}): {REMEDY}"
        ) from None
    except ValueError as error:
        if str(path) in str(error):
            raise
        raise ValueError(f"{path} cannot be read ({error}): {REMEDY}") from None


def check_images(images: NDArray[np.generic], path: Path) -> None:
    """Raise ValueError unless an array from a file is uint8 images (N, 32, 32, 3)."""
    shape, dtype = tuple(images.shape), images.dtype
    if shape[1:] != (32, 32, 3) or dtype != np.uint8:
        raise ValueError(f"{path} has {dtype} of shape {shape}, expected uint8 of shape (N, 32, 32, 3): {REMEDY}")


def check_labels(labels: NDArray[np.generic], path: Path, *, count: int) -> NDArray[np.int64]:
    """Return labels as int64, or raise ValueError unless there is one integer per image."""
    if labels.dtype.kind not in "iu":
        raise ValueError(f"{path} has {labels.dtype}, expected integers as labels: {REMEDY}")
    if labels.shape != (count,):
        raise ValueError(f"{path} has labels of shape {labels.shape}, expected ({count},), one per image: {REMEDY}")
    return labels.astype(np.int64)
