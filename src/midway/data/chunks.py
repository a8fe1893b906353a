"""Chunks of work on corrupted data sets: some images under one corruption, written by worker processes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from midway.data.corrupted import CorruptedImages
from midway.data.image_set import ImageArray
from midway.data.lazy_images import LazyImages
from midway.workers import Died, Task, Tell, WorkerPool, run_here

JPEG_QUALITY = 85  # as published


@dataclass(frozen=True)
class Chunk(Task):
    """A unit of work: some images under one corruption at one severity, and the file or folder they are written to."""

    source: Path  # of the clean images, see _store
    corruption: str
    severity: int
    seed: int
    indices: range
    target: Path
    first_row: int = 0  # of the .npy file
    names: tuple[str, ...] = ()  # of the image files

    def run(self, memory: dict[str, Any], tell: Tell) -> int:
        """Write the images of the chunk and return their number; a process opens the clean images once."""
        if (key := str(self.source)) not in memory:
            memory[key] = _opened(self.source)
        corrupted = CorruptedImages(memory[key], self.corruption, self.severity, self.seed)
        pixels: NDArray[np.uint8] = corrupted[self.indices.start : self.indices.stop]
        if not self.names:
            rows = np.lib.format.open_memmap(self.target, mode="r+")
            rows[self.first_row : self.first_row + len(pixels)] = pixels
            rows.flush()
        for name, image in zip(self.names, pixels, strict=bool(self.names)):
            picture = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
            picture.save(self.target / name, quality=JPEG_QUALITY)
        return len(pixels)


RunChunks = Callable[[Iterable[Chunk]], Iterator[int]]


@contextmanager
def chunk_workers(images: ImageArray, source: Path, jobs: int) -> Iterator[RunChunks]:
    """Yield a function that works through chunks and yields the number of images of each finished one."""
    if jobs == 1:
        memory = {str(source): images}
        yield lambda chunks: (count for _, count in run_here(list(chunks), memory=memory))
        return

    with WorkerPool(jobs) as pool:

        def run(chunks: Iterable[Chunk]) -> Iterator[int]:
            for chunk, count in pool.run(list(chunks)):
                if isinstance(count, Died):
                    raise OSError(f"{chunk.corruption} was not finished, {count.reason}: run the same command again.")
                yield count

        _store(images, source)
        try:
            yield run
        finally:
            source.unlink()


def _store(images: ImageArray, source: Path) -> None:
    """Write the clean images to a file that worker processes open: arrays as pixels, lazy readers as their paths."""
    with source.open("wb") as file:
        if isinstance(images, np.ndarray):
            np.save(file, images)
        else:
            pickle.dump(images, file)


def _opened(source: Path) -> ImageArray:
    """Open the file of clean images in a worker process; arrays stay on the disk."""
    with source.open("rb") as file:
        if file.read(6) == b"\x93NUMPY":
            array: ImageArray = np.load(source, mmap_mode="r")
            return array
        file.seek(0)
        images: ImageArray = pickle.load(file)  # noqa: S301 written by _store
    if isinstance(images, LazyImages):
        images.workers = 1  # the processes already use all processors
    return images
