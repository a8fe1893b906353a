"""Read .npy and .npz files and check their content."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midway.data.image_set import ImageArray


def open_npy(path: Path, *, remedy: str) -> NDArray[np.generic]:
    """Memory-map a .npy file; only indexed rows are read.

    Args:
        path: The file.
        remedy: How to get it, the end of error messages.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is not a .npy file, contains Python objects, or is truncated.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: {remedy}")
    try:
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = header(file)
            expected = file.tell() + math.prod(shape) * dtype.itemsize
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is not a .npy file ({error}): {remedy}") from None
    if dtype.hasobject:
        raise ValueError(f"{path} contains pickled Python objects, which are not read, expected numbers: {remedy}")
    if (size := path.stat().st_size) < expected:
        raise ValueError(
            f"{path} is truncated: {size:,} bytes, expected {expected:,} for {dtype} of shape {shape}: {remedy}"
        )
    if math.prod(shape) == 0:
        return np.empty(shape, dtype)  # an empty file cannot be mapped
    mapped: NDArray[np.generic] = np.load(path, mmap_mode="r", allow_pickle=False)
    return mapped


def open_pair(path: Path, label_path: Path, *, side: int, remedy: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Memory-map a .npy file of images and read the one of their labels.

    Raises:
        FileNotFoundError: A file does not exist.
        ValueError: A file is damaged, or the two do not fit together.
    """
    images: NDArray[Any] = open_npy(path, remedy=remedy)
    check_images(images, path, side=side, remedy=remedy)
    return images, check_labels(open_npy(label_path, remedy=remedy), label_path, count=len(images), remedy=remedy)


def read_npz(path: Path, keys: tuple[str, ...], *, remedy: str) -> tuple[NDArray[np.generic], ...]:
    """Read arrays from a .npz file.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is damaged, contains Python objects, or lacks one of the keys.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: {remedy}")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
            if missing := [key for key in keys if key not in content.files]:
                has = ", ".join(content.files) or "nothing"
                raise ValueError(f"{path} has no array '{missing[0]}', it has {has}: {remedy}")
            return tuple(content[key] for key in keys)
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise ValueError(
            f"{path} is not a complete .npz file ({path.stat().st_size:,} bytes; {error}): {remedy}"
        ) from None
    except ValueError as error:
        if str(path) in str(error):
            raise
        raise ValueError(f"{path} cannot be read ({error}): {remedy}") from None


def check_images(images: NDArray[np.generic] | ImageArray, path: Path, *, side: int | None, remedy: str) -> None:
    """Raise ValueError unless an array from a file is uint8 images (N, side, side, 3)."""
    shape, dtype = tuple(images.shape), getattr(images, "dtype", None)
    expected = "(N, H, W, 3)" if side is None else f"(N, {side}, {side}, 3)"
    matches = len(shape) == 4 and shape[3] == 3 and (side is None or shape[1:3] == (side, side))
    if not matches or dtype != np.uint8:
        raise ValueError(f"{path} has {dtype} of shape {shape}, expected uint8 of shape {expected}: {remedy}")


def check_labels(labels: NDArray[np.generic], path: Path, *, count: int, remedy: str) -> NDArray[np.int64]:
    """Return labels as int64, or raise ValueError unless there is one integer per image."""
    if labels.dtype.kind not in "iu":
        raise ValueError(f"{path} has {labels.dtype}, expected integers as labels: {remedy}")
    if labels.shape != (count,):
        raise ValueError(f"{path} has labels of shape {labels.shape}, expected ({count},), one per image: {remedy}")
    return labels.astype(np.int64)
