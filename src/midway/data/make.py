"""Write corrupted data sets in the published layouts, from any clean images.

Small images are written in CIFAR-10-C's layout, one ``corruption.npy`` per corruption with the severities one after
the other, and ``labels.npy``; images in files are written in ImageNet-C's, ``corruption/severity/class/*.JPEG``. A file
or a folder of a severity appears in one step when it is complete, and its checksum is added to ``manifest.json``: the
same call continues a killed run.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import pickle
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image

from midway._files import FolderLock, check_space, naming, remove, reserve, write_atomically
from midway._workers import Died, Task, Tell, WorkerPool, count_processors, run_here
from midway.data.corrupted import CorruptedImages, check_severity
from midway.data.corruptions import REGISTRY, corruption_names
from midway.data.datasets import load
from midway.data.download import Progress, silent
from midway.data.image_set import ImageArray, ImageSet
from midway.data.lazy_images import LazyImages
from midway.data.manifest import FileFacts, Manifest

Layout = Literal["npy", "jpeg", "png"]
JPEG_QUALITY = 85  # as published
CHUNK_PIXELS = 1 << 20  # per unit of work: 1,024 images of 32 px, 20 of 224 px


@dataclass(frozen=True)
class _Plan:
    """The checked arguments of ``make_corrupted``."""

    folder: Path
    data: ImageSet
    corruptions: tuple[str, ...]
    severities: tuple[int, ...]
    seed: int
    layout: Layout

    def __post_init__(self) -> None:
        if not self.corruptions or not self.severities:
            raise ValueError("there is nothing to write: give at least one corruption and one severity.")
        for name in self.corruptions:
            REGISTRY[name]  # raises if it is unknown
        for severity in self.severities:
            check_severity(severity)
        if self.layout not in ("npy", "jpeg", "png"):
            raise ValueError(f"layout is '{self.layout}', expected 'npy', 'jpeg' or 'png'.")
        if len(self.data) == 0:
            raise ValueError(f"{self.data.name} is empty: there is nothing to corrupt.")
        if self.layout != "npy":
            _check_folder_names(self.data.class_names)

    @property
    def settings(self) -> dict[str, object]:
        """The settings that must agree to continue an interrupted call."""
        settings: dict[str, object] = {
            "seed": self.seed,
            "severities": list(self.severities),
            "layout": self.layout,
            "source": _fingerprint(self.data),
        }
        return settings if self.layout == "npy" else settings | {"class_names": list(self.data.class_names)}

    @property
    def parts(self) -> list[tuple[str, str, tuple[int, ...]]]:
        """The name, corruption and severities of each file to write, or of each folder: one per severity."""
        if self.layout == "npy":
            return [(f"{name}.npy", name, self.severities) for name in self.corruptions]
        return [(f"{name}/{level}", name, (level,)) for name in self.corruptions for level in self.severities]


def make_corrupted(
    source: ImageSet | str,
    out: str | Path,
    *,
    corruptions: Sequence[str] | None = None,
    severities: Sequence[int] = (1, 2, 3, 4, 5),
    seed: int = 0,
    layout: Layout | None = None,
    jobs: int | None = None,
    progress: Progress = silent,
) -> Path:
    """Corrupt all images of a data set and write them in a published layout; return the folder.

    With all five severities a ``.npy`` file has the published 5 N rows and can be read by any tool for CIFAR-10-C. With
    fewer it has N rows for each, in rising order, and the manifest lists them for ``midway.data.load``.

    Several jobs are processes: call this under ``if __name__ == "__main__"`` in a script, or with ``jobs=1``.

    Args:
        source: The clean images, or the name of a data set in the data home.
        out: The folder to write to; an earlier, interrupted call is continued.
        corruptions: Names; by default the nineteen published ones.
        severities: Some of 1 to 5.
        seed: Seed of the random corruptions.
        layout: ``"npy"``, ``"jpeg"`` (quality 85) or ``"png"``; Default: by the source.
        jobs: Number of processes. Default: the number of processors.
        progress: Called with the number of finished images of each corruption.

    Example:
        >>> import numpy as np, tempfile
        >>> from midway.data import ImageSet, make_corrupted
        >>> clean = ImageSet(np.full((3, 32, 32, 3), 90, np.uint8), np.array([0, 1, 1]), ("cat", "dog"), "toy")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     out = make_corrupted(clean, folder, corruptions=["contrast"], severities=[4, 5], jobs=1)
        ...     np.load(out / "contrast.npy").shape, np.load(out / "labels.npy").tolist()
        ((6, 32, 32, 3), [0, 1, 1, 0, 1, 1])
    """
    data = load(source) if isinstance(source, str) else source
    if not data.labelled:  # one folder for all
        data = replace(data, labels=np.zeros(len(data), np.int64), class_names=("images",))
    if corruptions is None:
        corruptions = corruption_names("benchmark") + corruption_names("tuning")
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs is {jobs}, expected 1 or more processes.")
    plan = _Plan(
        Path(out).expanduser(),
        data,
        tuple(dict.fromkeys(corruptions)),
        tuple(sorted(set(severities))),
        seed,
        layout or ("jpeg" if isinstance(data.images, LazyImages) else "npy"),
    )
    shared = plan.folder / ".source"  # gives the clean images to worker processes
    with FolderLock(plan.folder):
        for left_over in (shared, *plan.folder.glob(".*.part"), *plan.folder.glob(".*.partial")):
            remove(left_over)  # of a call that was killed
        manifest = _continued(plan)
        check_space(plan.folder, _bytes_to_write(plan, jobs or count_processors()), plan.data.name)
        with chunk_workers(data.images, shared, jobs or count_processors()) as run:
            _write(plan, manifest, shared, run, progress)
    return plan.folder


def _fingerprint(data: ImageSet) -> str:
    """Return a digest of the clean images: all pixels of an array; names and two images of a lazy reader."""
    digest = hashlib.sha256(repr((tuple(data.images.shape), data.class_names)).encode())
    digest.update(data.labels.astype("<i8").tobytes())
    if isinstance(data.images, LazyImages):
        digest.update(os.fsencode("\n".join(path.name for path in data.images.paths)))
    pixels = data.images if isinstance(data.images, np.ndarray) else data.images[np.unique([0, len(data) - 1])]
    digest.update(np.ascontiguousarray(pixels).tobytes())
    return digest.hexdigest()


def _continued(plan: _Plan) -> Manifest:
    """Return the manifest of an interrupted call, or a new one."""
    folder, name, settings = plan.folder, plan.data.name, plan.settings
    manifest = Manifest.read(folder)
    if manifest is None:
        if folder.exists() and any(not path.name.startswith(".") for path in folder.iterdir()):
            raise ValueError(f"{folder} has other files and no manifest: give an empty folder.")
        manifest = Manifest(f"{name}-c", f"made from {name}", settings)
    for setting, value in settings.items():
        if (before := manifest.settings.get(setting)) != value:
            what = "from other images" if setting == "source" else f"with {setting} {before}, not {value}"
            raise ValueError(f"{folder} was written {what}: give another folder, or remove this one first.")
    wanted = [*(["labels.npy"] if plan.layout == "npy" else []), *(part for part, _, _ in plan.parts)]
    due = dict.fromkeys([*manifest.due, *(each for each in wanted if each not in manifest.files)])
    manifest = replace(manifest, due=tuple(due))
    manifest.write(folder)
    return manifest


def _write(
    plan: _Plan, manifest: Manifest, source: Path, run: Callable[[list[Chunk]], Iterator[int]], progress: Progress
) -> None:
    """Write the parts that are missing or changed; each appears in one step when it is complete."""
    folder, count, shape = plan.folder, len(plan.data), tuple(plan.data.images.shape)
    total = count * len(plan.severities)  # images per corruption
    names: tuple[str, ...] = ()
    if plan.layout == "npy":
        write_atomically(folder / "labels.npy", _label_file(plan))
        manifest = _recorded(folder, manifest, "labels.npy")
    else:
        names = _file_names(plan.data, ".JPEG" if plan.layout == "jpeg" else ".png")
    for part, corruption, severities in plan.parts:
        path = folder / part
        if not path.exists() or FileFacts.of(path) != manifest.files.get(part):
            done = plan.severities.index(severities[0]) * count
            progress(corruption, done, total)
            staging = folder / f".{part.replace('/', '-')}.part"
            chunks = [
                Chunk(source, corruption, severity, plan.seed, rows, staging, order * count, names[rows])
                for order, severity in enumerate(severities)
                for rows in _chunks(shape)
            ]
            try:
                for inner in {Path(name).parent for name in names}:
                    (staging / inner).mkdir(parents=True)
                if not names:
                    _create_array(staging, (total, *shape[1:]))
                for finished in run(chunks):
                    done += finished
                    progress(corruption, done, total)
                if names:
                    shutil.rmtree(path, ignore_errors=True)
                    path.parent.mkdir(exist_ok=True)
                staging.replace(path)
            except BaseException:
                remove(staging)
                raise
            manifest = _recorded(folder, manifest, part)
        if severities[-1] == plan.severities[-1]:
            progress(corruption, total, total)


def _bytes_to_write(plan: _Plan, jobs: int) -> int:
    """Return the size of the arrays that are missing, and of the copy of the images for worker processes."""
    size = math.prod(plan.data.images.shape)
    if plan.layout != "npy":
        return 0  # the size of compressed files is known only afterwards
    missing = sum(not (plan.folder / part).exists() for part, _, _ in plan.parts)
    copied = jobs > 1 and isinstance(plan.data.images, np.ndarray)
    return missing * len(plan.severities) * size + copied * size


def _create_array(path: Path, shape: tuple[int, ...]) -> None:
    """Create a .npy file of bytes with its full size on the disk."""
    with naming(path), path.open("wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        reserve(file, file.tell() + math.prod(shape))


def _label_file(plan: _Plan) -> bytes:
    small = np.uint8 if len(plan.data.class_names) <= 256 else np.int64  # uint8 as published
    file = io.BytesIO()
    np.save(file, np.tile(plan.data.labels.astype(small), len(plan.severities)))
    return file.getvalue()


def _recorded(folder: Path, manifest: Manifest, part: str) -> Manifest:
    files = manifest.files | {part: FileFacts.of(folder / part)}
    manifest = replace(manifest, files=files, due=tuple(each for each in manifest.due if each != part))
    manifest.write(folder)
    return manifest


def _chunks(shape: Sequence[int]) -> list[slice]:
    count = max(1, CHUNK_PIXELS // (shape[1] * shape[2]))
    return [slice(start, start + count) for start in range(0, shape[0], count)]


def _check_folder_names(names: Sequence[str]) -> None:
    for index, name in enumerate(names):
        if name in ("", ".", "..") or "/" in name or "\\" in name:
            raise ValueError(f"the class name '{name}' cannot be the name of a folder: rename it, or use layout='npy'.")
        if name in names[:index]:
            raise ValueError(
                f"two classes have the name '{name}' and would share a folder: rename one, or use layout='npy'."
            )


def _file_names(data: ImageSet, suffix: str) -> tuple[str, ...]:
    """Return the name class/stem.suffix of every image, with the stem of its file if it has one."""
    folders = [data.class_names[label] for label in data.labels]
    if isinstance(data.images, LazyImages):
        names = tuple(f"{folder}/{path.stem}{suffix}" for folder, path in zip(folders, data.images.paths, strict=True))
        if len({name.lower() for name in names}) == len(names):
            return names
    return tuple(f"{folder}/{index:08d}{suffix}" for index, folder in enumerate(folders))


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
            with naming(self.target / name):
                picture.save(self.target / name, quality=JPEG_QUALITY)
        return len(pixels)


@contextmanager
def chunk_workers(images: ImageArray, source: Path, jobs: int) -> Iterator[Callable[[list[Chunk]], Iterator[int]]]:
    """Yield a function that works through chunks and yields the number of images of each finished one."""
    if jobs == 1:
        memory = {str(source): images}
        yield lambda chunks: (count for _, count in run_here(chunks, memory=memory))
        return

    with WorkerPool(jobs) as pool:

        def run(chunks: list[Chunk]) -> Iterator[int]:
            for chunk, count in pool.run(chunks):
                if isinstance(count, Died):
                    raise OSError(f"{chunk.corruption} was not finished, {count.reason}: run the same command again.")
                yield count

        try:
            with naming(source), source.open("wb") as file:
                if isinstance(images, np.ndarray):
                    np.save(file, images)
                else:
                    pickle.dump(images, file)  # a lazy reader is a list of paths
            yield run
        finally:
            source.unlink(missing_ok=True)


def _opened(source: Path) -> ImageArray:
    """Open the file of clean images in a worker process; arrays stay on the disk."""
    try:
        images: ImageArray = np.load(source, mmap_mode="r", allow_pickle=False)
    except ValueError:
        images = pickle.loads(source.read_bytes())  # noqa: S301 written by chunk_workers
    if isinstance(images, LazyImages):
        images.workers = 1  # the processes already use all processors
    return images
