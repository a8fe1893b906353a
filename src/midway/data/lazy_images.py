"""Images that are read when they are indexed, and batches that are read ahead."""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image, UnidentifiedImageError

from midway._workers import count_processors
from midway.data.image_set import ImageArray

DEFAULT_SIZE = 224
SHORT_SIDE_PER_CROP = 256 / 224  # the ImageNet protocol: short side to 256 pixels, centre crop of 224
SIZE_SAMPLE = 64  # files whose headers decide whether a folder already has one size
SHARED_BY = 0.9  # share of these that has to agree: the others are then resized to this size
IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm", ".pgm", ".tif", ".tiff", ".gif"})

A = TypeVar("A")


class ImagesOnDemand(ABC):
    """An array of images that are read one by one when they are indexed."""

    shape: tuple[int, int, int, int]  # number of images, height, width, channels
    workers = 1  # threads that read a batch

    @abstractmethod
    def _read(self, index: int) -> NDArray[np.uint8]:
        """Return one image, (H, W, C)."""

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any, /) -> NDArray[np.uint8]:
        """Read the images at an integer, a slice, or an array of integers or Booleans."""
        indices = np.arange(len(self))[index]
        if indices.ndim == 0:
            return self._read(int(indices))
        images = np.empty((len(indices), *self.shape[1:]), np.uint8)

        def fill(row: int) -> None:
            images[row] = self._read(int(indices[row]))

        if len(indices) < 2 or self.workers == 1:
            list(map(fill, range(len(indices))))
        else:
            with ThreadPoolExecutor(min(self.workers, len(indices))) as pool:
                list(pool.map(fill, range(len(indices))))  # raises the error of a damaged file
        return images


class LazyImages(ImagesOnDemand):
    """Files as an array of images: ``images[indices]`` decodes those files, in threads; nothing is cached.

    Every image is RGB of one size: a file of another size is resized (bilinear, short side ``size * 256 / 224``) and
    cropped at the centre, the ImageNet protocol.

    Args:
        paths: The files, in the order of the images.
        size: Side in pixels, or height and width. Default: the size of the files, if nine tenths of an evenly
            spread sample have the same, else 224.
        workers: Threads that decode a batch. Default: the number of processors, at most 8.

    Example:
        >>> from midway.data import LazyImages
        >>> LazyImages(["cat.jpg", "dog.jpg"], size=64).shape
        (2, 64, 64, 3)
    """

    def __init__(
        self, paths: Iterable[str | Path], size: int | tuple[int, int] | None = None, *, workers: int | None = None
    ) -> None:
        self.paths = tuple(Path(path) for path in paths)
        if not self.paths:
            raise ValueError("there are no image files to read: the list of paths is empty.")
        if size is None:
            size = _shared_size(self.paths) or DEFAULT_SIZE
        height, width = (size, size) if isinstance(size, int) else size
        if height < 1 or width < 1:
            raise ValueError(f"size is {size}, expected at least one pixel.")
        self.shape = (len(self.paths), height, width, 3)
        self.workers = workers or min(8, count_processors())

    def __repr__(self) -> str:
        return f"LazyImages({len(self):,} files, {self.shape[1]}x{self.shape[2]})"

    def _read(self, index: int) -> NDArray[np.uint8]:
        return fit(_decode(self.paths[index]), self.shape[1:3])


def _decode(path: Path) -> Image.Image:
    """Read one file as RGB."""
    try:
        with _opened(path) as file:
            file.load()
            return as_rgb(file)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing: it was listed as an image of the data set.") from None
    except PermissionError:
        raise PermissionError(f"{path} cannot be read by this user: change its permissions.") from None
    except UnidentifiedImageError:
        raise ValueError(f"{path} is not an image that can be read ({_bytes(path)}); get the file again.") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:  # PIL raises all of these
        raise ValueError(f"{path} is damaged or truncated ({_bytes(path)}; {error}); get the file again.") from None


def fit(image: Image.Image, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Return an RGB image with a height and width: resized by the short side and cropped at the centre if needed."""
    height, width = size
    if image.size != (width, height):
        scale = max(height / image.height, width / image.width) * SHORT_SIDE_PER_CROP
        resized = (max(width, round(image.width * scale)), max(height, round(image.height * scale)))
        left, top = round((resized[0] - width) / 2), round((resized[1] - height) / 2)
        image = image.resize(resized, Image.Resampling.BILINEAR).crop((left, top, left + width, top + height))
    return np.asarray(image, dtype=np.uint8)


def as_rgb(image: Image.Image) -> Image.Image:
    """Convert any PIL image to RGB: grey is repeated, 16 bits become 8, transparency is dropped.

    A rotation in the EXIF data is not applied, as in torchvision. Floating-point grey must be in [0, 1]: the value of
    white would be unknown.
    """
    if image.mode == "F":
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 1:
            raise ValueError(f"floating-point values from {values.min():.3g} to {values.max():.3g}, not 0 to 1")
        return Image.fromarray((values * 255).round().astype(np.uint8)).convert("RGB")
    if image.mode.startswith("I"):  # 16-bit grey, which convert() would clip at 255; or 8 bits in a wider type
        values = np.asarray(image)
        scale = 257 if image.mode != "I" or values.max() > 255 else 1
        return Image.fromarray((values / scale).clip(0, 255).astype(np.uint8)).convert("RGB")
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")


def image_files(folder: Path) -> list[Path]:
    """List the image files in a folder and its subfolders by name; a folder that is linked twice counts once."""
    files = []
    visited = set()
    for directory, folders, names in os.walk(folder, followlinks=True, onerror=_raise_unless_missing):
        visited.add(os.path.realpath(directory))
        folders[:] = [name for name in folders if os.path.realpath(Path(directory, name)) not in visited]
        files += [
            Path(directory, name)
            for name in names
            if not name.startswith(".") and Path(name).suffix.lower() in IMAGE_SUFFIXES
        ]
    return sorted(files)


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _shared_size(paths: Sequence[Path]) -> tuple[int, int] | None:
    """Return (height, width) if nearly all files of a sample have it."""
    sizes: Counter[tuple[int, int]] = Counter()
    for index in {int(index) for index in np.linspace(0, len(paths) - 1, SIZE_SAMPLE)}:
        # Reading a damaged file raises its error.
        with suppress(OSError, SyntaxError, ValueError, Image.DecompressionBombError), _opened(paths[index]) as file:
            sizes[file.height, file.width] += 1
    shape, count = sizes.most_common(1)[0] if sizes else (None, 0)
    return shape if count >= SHARED_BY * sizes.total() else None


def _opened(path: Path) -> Image.Image:
    """Open an image; what is not a file, such as a pipe, would be waited for without end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("it is not a file")
    return Image.open(path)


def _bytes(path: Path) -> str:
    return f"{path.stat().st_size if path.is_file() else 0:,} bytes"


def prefetched(images: ImageArray, batches: Iterable[ArrayLike], depth: int = 2) -> Iterator[NDArray[np.uint8]]:
    """Yield ``images[indices]`` for every batch of indices, in order, read ahead by worker threads.

    At most ``depth`` batches besides the current one are in memory; 0 reads each batch when it is needed. Leaving the
    loop early stops the reading.

    Example:
        >>> import numpy as np
        >>> from midway.data import prefetched
        >>> images = np.arange(6, dtype=np.uint8).reshape(6, 1, 1, 1)
        >>> [batch.ravel().tolist() for batch in prefetched(images, [[0, 1], [5, 2]])]
        [[0, 1], [5, 2]]
    """
    if depth < 0:
        raise ValueError(f"depth is {depth}, expected 0 or more batches.")
    return read_ahead(lambda indices: np.asarray(images[np.asarray(indices, dtype=np.int64)]), batches, depth)


def read_ahead(read: Callable[[A], NDArray[np.uint8]], batches: Iterable[A], depth: int) -> Iterator[NDArray[np.uint8]]:
    """Yield ``read(indices)`` for every batch, computed up to ``depth`` batches ahead by threads."""
    if depth == 0:
        yield from map(read, batches)
        return
    waiting: deque[Future[NDArray[np.uint8]]] = deque()
    pool = ThreadPoolExecutor(depth, thread_name_prefix="midway-prefetch")
    try:
        for indices in batches:
            waiting.append(pool.submit(read, indices))
            if len(waiting) > depth:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
