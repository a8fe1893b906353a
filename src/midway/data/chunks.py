"""Chunks of work on corrupted data sets: some images under one corruption, written by worker processes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from midway.data.corrupted import CorruptedImages
from midway.data.image_set import ImageArray
from midway.data.lazy_images import LazyImages
from midway.workers import Died, Task, Tell, WorkerPool, run_here

JPEG_QUALITY = 85  # as published


@dataclass(frozen=True)
class Chunk(Task):
    """A unit of work: some images under one corruption at one severity, and the file or folder they are written to."""

    source: Path  # of the clean images, see chunk_workers
    corruption: str
    severity: int
    seed: int
    rows: slice  # of the clean images
    target: Path
    offset: int  # from a clean image to its row in the .npy file
    names: tuple[str, ...]  # of the image files; none for a .npy file

    def run(self, memory: dict[str, Any], tell: Tell) -> int:
        """Write the images of the chunk and return their number; a process opens the clean images once."""
        if (key := str(self.source)) not in memory:
            memory[key] = _opened(self.source)
        corrupted = CorruptedImages(memory[key], self.corruption, self.severity, self.seed)
        pixels = corrupted[self.rows]
        if not self.names:
            stored = np.lib.format.open_memmap(self.target, mode="r+")
            first = self.offset + self.rows.start
            stored[first : first + len(pixels)] = pixels
            stored.flush()
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

        with source.open("wb") as file:
            if isinstance(images, np.ndarray):
                np.save(file, images)
            else:
                pickle.dump(images, file)  # a lazy reader is a list of paths
        try:
            yield run
        finally:
            source.unlink()


def _opened(source: Path) -> ImageArray:
    """Open the file of clean images in a worker process; arrays stay on the disk."""
    try:
        images: ImageArray = np.load(source, mmap_mode="r", allow_pickle=False)
    except ValueError:
        images = pickle.loads(source.read_bytes())  # noqa: S301 written by chunk_workers
    if isinstance(images, LazyImages):
        images.workers = 1  # the processes already use all processors
    return images
