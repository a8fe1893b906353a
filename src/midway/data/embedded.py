"""The embedded default: the first 2,000 CIFAR-10 test images, in canonical order, lossless."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
from PIL import Image

from midway.data.image_set import ImageSet

ASSETS = Path(__file__).parent / "assets"
SIDE = 32
COLUMNS = 50  # images in a row of the sheet


def load_embedded() -> ImageSet:
    """Load ``cifar10-mini`` from the package; nothing is downloaded.

    Raises:
        ValueError: The files do not have the checksum they were packed with.

    Example:
        >>> from midway.data.embedded import load_embedded
        >>> data = load_embedded()
        >>> data.images.shape, [data.class_names[label] for label in data.labels[:3]]
        ((2000, 32, 32, 3), ['cat', 'ship', 'ship'])
    """
    facts = json.loads((ASSETS / "cifar10_mini.json").read_text())
    with Image.open(ASSETS / "cifar10_mini.png") as sheet:
        pixels = np.asarray(sheet.convert("RGB"), dtype=np.uint8)
    rows = pixels.shape[0] // SIDE
    tiles = pixels.reshape(rows, SIDE, COLUMNS, SIDE, 3).transpose(0, 2, 1, 3, 4)
    images = np.ascontiguousarray(tiles.reshape(-1, SIDE, SIDE, 3))
    if hashlib.sha256(images.tobytes()).hexdigest() != facts["sha256"]:
        raise ValueError(f"{ASSETS / 'cifar10_mini.png'} is damaged: install midway again.")
    return ImageSet(images, np.array(facts["labels"]), tuple(facts["class_names"]), "cifar10-mini")
