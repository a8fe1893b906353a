"""Memory while streaming a folder of images: flat, however long the stream.

Writes a small tree of JPEG files, streams N and then 10 N images through the lazy reader with prefetching, each in a
process of its own, and prints the peak resident memory above that of the process before it starts to read.

    python benchmarks/data_memory.py --images 500
    python benchmarks/data_memory.py --images 500 --folder path/to/imagenet/val
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from PIL import Image

from midway import data
from midway.data.lazy_images import image_files

BATCH = 50
PROC = Path("/proc/self/status")


def resident_megabytes() -> float:
    """Return the present resident memory of this process."""
    line = next(line for line in PROC.read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def write_tree(folder: Path, files: int = 100) -> None:
    """Write JPEG files of 320 x 240 pixels in ten classes."""
    rng = np.random.default_rng(0)
    for number in range(files):
        path = folder / f"n{number % 10:08d}" / f"{number}.JPEG"
        path.parent.mkdir(parents=True, exist_ok=True)
        small = Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8))
        small.resize((320, 240), Image.Resampling.BICUBIC).save(path, quality=90)


def stream(folder: Path, images: int) -> None:
    """Read this many images, the folder over and over, and print the memory and the speed."""
    files = image_files(folder)
    lazy = data.LazyImages(files * -(-images // len(files)))
    before, peak, done = resident_megabytes(), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            peak[0] = max(peak[0], resident_megabytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    total = 0.0
    for batch in data.prefetched(lazy, np.arange(images).reshape(-1, BATCH)):
        total += float(batch[:, ::16, ::16].mean())
    seconds = time.perf_counter() - start
    done.set()
    watcher.join()
    one_batch = BATCH * int(np.prod(lazy.shape[1:])) / 2**20
    print(
        f"{images:>7,} images of {lazy.shape[1]} px: peak {peak[0] - before:6.1f} MB above the start "
        f"({before:.0f} MB), {images / seconds:,.0f} images a second; "
        f"one batch is {one_batch:.1f} MB, all images would be {one_batch * images / BATCH:,.0f} MB"
    )


def main() -> None:
    """Measure N and 10 N images, each in a fresh process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=500, help="N, a multiple of 50")
    parser.add_argument("--folder", type=Path, help="class folders to stream; a small tree is written if left out")
    parser.add_argument("--only", action="store_true", help="measure N in this process and nothing else")
    arguments = parser.parse_args()
    if arguments.only:
        stream(arguments.folder, arguments.images)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.folder or Path(scratch)
        if arguments.folder is None:
            write_tree(folder)
        for images in (arguments.images, 10 * arguments.images):
            command = [sys.executable, __file__, "--only", "--images", str(images), "--folder", str(folder)]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
