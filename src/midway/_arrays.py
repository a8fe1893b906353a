"""Arrays from files that may be damaged or hostile: every length is checked against the size of the file."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from midway._errors import shorten_error

LARGEST_RATIO = 1032  # of deflate: a byte of a compressed file is at most so many bytes of its content


class ArrayFileError(ValueError):
    """A file is not one of arrays, or is damaged; the message is the reason without the name of the file."""


def read_header(file: BinaryIO) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Read the header of a .npy file: shape, type, and the size that the whole file must have."""
    try:
        version = np.lib.format.read_magic(file)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = header(file)
    except Exception as error:  # a damaged header can raise anything
        raise ArrayFileError(shorten_error(error)) from None
    if not all(type(side) is int and side >= 0 for side in shape):
        raise ArrayFileError(f"its shape is {shape}")
    return shape, dtype, file.tell() + math.prod(shape) * dtype.itemsize


def read_npz(path: Path, keys: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """Read arrays of numbers from a .npz file, by default all, with their checksums verified."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            chosen = {name: info for name, info in members.items() if keys is None or name in keys}
            if missing := [key for key in keys or () if key not in members]:
                raise ArrayFileError(f"it has no array '{missing[0]}', it has {', '.join(members) or 'nothing'}")
            return {name: _member(archive, name, info) for name, info in chosen.items()}
    except ArrayFileError:
        raise
    except Exception as error:  # a damaged archive can raise anything
        raise ArrayFileError(shorten_error(error)) from None


def _member(archive: zipfile.ZipFile, name: str, info: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(info) as file:
        shape, dtype, size = read_header(file)  # type: ignore[arg-type]
    if dtype.hasobject:
        raise ArrayFileError(f"the array '{name}' contains pickled Python objects, which are not read")
    if size != info.file_size or size > LARGEST_RATIO * (info.compress_size + 1):
        raise ArrayFileError(f"the array '{name}' of shape {shape} does not fit its {info.compress_size:,} bytes")
    array: NDArray[Any] = np.load(io.BytesIO(archive.read(info)), allow_pickle=False)  # read checks the checksum
    return array
