"""Whatever gives images as a stream: loaders, arrays, folders, data sets, generators; with labels or without."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, SequentialSampler

from midway.adaptation.problem import LARGE_SIDE
from midway.bench.measure import AnyStream
from midway.bench.resources import arrange
from midway.data import ImageSet, load, names
from midway.data.class_lists import Classes
from midway.data.datasets import REGISTRY as DATA_SETS
from midway.data.image_set import UNLABELLED
from midway.data.torch_datasets import IMAGE_KEYS, as_array, read_fields
from midway.streams import Batch, Stream
from midway.streams.scenarios import folder_classes

NAMED = re.compile(r"(?P<name>[^:@]+)(:(?P<shift>[^:@]+))?(@(?P<folder>.+))?")
"""The name of a data set, perhaps with a corruption or domain and with a folder."""

EXPECTED = (
    "give batches of images with or without labels, as a torch DataLoader does, a folder, arrays, a data set or a "
    "midway stream"
)


class Batches:
    """Batches of any source as those of a stream with one group; the labels of unlabelled images are -1.

    Args:
        source: Yields batches (a tensor or array of images; a tuple or list of images, labels and further fields; a
            dictionary with ``image`` or ``pixel_values`` and ``label`` or ``labels``) or single images in these forms.
        batch_size: Images per batch, for sources of single images.
        name: What messages and tables call the source.
    """

    groups = ("images",)
    folder_classes: int | None = None

    def __init__(self, source: Iterable[Any], *, batch_size: int | None = None, name: str = "stream") -> None:
        self.source, self.batch_size, self.name = source, batch_size, name

    def __iter__(self) -> Iterator[Batch]:
        items: Iterator[tuple[Any, Any]] = map(_fields, iter(self.source))
        first = next(items, None)
        if first is None:
            return
        items = itertools.chain([first], items)
        if _is_single(*first):
            items = _in_batches(items, self.batch_size)
        labelled: bool | None = None
        for images, labels in items:
            batch = _batch(images, labels)
            has_labels = bool((batch.labels != UNLABELLED).any())
            if labelled is not None and has_labels != labelled:
                raise ValueError(f"{self.name} has batches with labels and batches without: give one kind.")
            labelled = has_labels
            yield batch


class _Adaptor:
    """Another way to read a stream, with its name and groups."""

    def __init__(self, stream: AnyStream) -> None:
        self.stream, self.name, self.groups = stream, stream.name, stream.groups
        self.folder_classes = stream.folder_classes


class FirstImages(_Adaptor):
    """The first images of a stream, for sources that are long or endless."""

    def __init__(self, stream: AnyStream, images: int) -> None:
        if images < 1:
            raise ValueError(f"images must be at least 1, got {images}.")
        super().__init__(stream)
        self.images = images

    def __iter__(self) -> Iterator[Batch]:
        left = self.images
        for batch in self.stream:
            yield batch if len(batch) <= left else Batch(batch.images[:left], batch.labels[:left], batch.group[:left])
            left -= len(batch)
            if left <= 0:  # before the next batch is asked for: an endless source may wait for it
                return


class Unlabelled(_Adaptor):
    """A stream whose labels are not used."""

    def __init__(self, stream: AnyStream) -> None:
        super().__init__(stream)
        self.folder_classes = None

    def __iter__(self) -> Iterator[Batch]:
        for batch in self.stream:
            yield replace(batch, labels=torch.full_like(batch.labels, UNLABELLED))


class Replayed(_Adaptor):
    """A stream that can be read once: its batches are kept for the next method."""

    def __init__(self, stream: AnyStream) -> None:
        super().__init__(stream)
        self.rest, self.batches = iter(stream), list[Batch]()

    def __iter__(self) -> Iterator[Batch]:
        index = 0
        while index < len(self.batches) or self._read():
            yield self.batches[index]
            index += 1

    def _read(self) -> bool:
        batch = next(self.rest, None)
        self.batches += [] if batch is None else [batch]
        return batch is not None


def is_repeatable(stream: AnyStream) -> bool:
    """Return whether every method can read the same batches in the same order from the source itself."""
    if isinstance(stream, FirstImages):
        return is_repeatable(stream.stream)
    source = stream.source if isinstance(stream, Batches) else None
    if isinstance(source, DataLoader):
        return isinstance(source.sampler, SequentialSampler)
    return isinstance(stream, Stream) or (hasattr(source, "__len__") and hasattr(source, "__getitem__"))


def as_stream(
    data: Any,
    *,
    batch_size: int | None = None,
    images: int | None = None,
    classes: Classes | None = None,
    size: int | None = None,
    seed: int = 0,
) -> tuple[Stream | Batches | FirstImages, tuple[int, ...] | None]:
    """Return any data as batches, see ``midway.compare``, and the logits that a network is limited to, None for all.

    Images that are sorted by class are shuffled by the seed.
    """
    logits = None
    name = f"folder {data}" if isinstance(data, str | Path) and Path(data).is_dir() else None
    if isinstance(data, str | Path):
        data = _load_named(data, classes=classes, size=size)
    elif classes is not None:
        raise ValueError("classes= applies to folders of images: leave it out, or number the labels by the logits.")
    elif size is not None:
        raise ValueError("size= applies to images in files, a folder or the name of a data set: resize these images.")
    if isinstance(data, ImageSet):
        logits = data.logits
        side = min(data.images.shape[1:3])
        batch_size = batch_size or published_batch_size(side)
        name, data = name or data.name, arrange(data, images=None, seed=seed)
        sources = dict.fromkeys(Batches.groups, data.images)  # whether they are clean is not known
        data = Stream(sources, data.labels, batch_size=batch_size, name=name, folder_classes=folder_classes(data))
    stream = data if isinstance(data, Stream) else _as_batches(data, batch_size)
    return stream if images is None else FirstImages(stream, images), logits


def published_batch_size(side: int) -> int:
    """Return the size of the batches that methods were published with, for the shorter side of images in pixels."""
    return 64 if side >= LARGE_SIDE else 200


def check_folder(data: str | Path) -> None:
    """Raise if data are neither a folder, a file of arrays, nor the name of a data set."""
    if _parse_name(data) is not None:
        return
    path = Path(data).expanduser()
    if path.is_dir() or (path.is_file() and path.suffix == ".npz"):
        return
    if path.exists():
        raise ValueError(
            f"{data} is a file: give a folder of images, or a .npz file with the arrays images and labels."
        )
    written_as_path = isinstance(data, Path) or "/" in data or data.startswith("~")
    remedy = (
        ": give one with a folder of images for each class, or the name of a data set"
        if written_as_path
        else ", and no data set has this name: `midway data ls` lists them"
    )
    raise FileNotFoundError(f"there is no folder {data}{remedy}.")


def _parse_name(data: str | Path) -> re.Match[str] | None:
    """Return the parts of the name of a data set, its shift and its folder; None for anything else."""
    if isinstance(data, Path) or Path(data).exists():
        return None
    match = NAMED.fullmatch(data)
    return match if match is not None and match["name"] in names() else None


def _load_named(data: str | Path, *, classes: Classes | None, size: int | None) -> Any:
    """Load a folder, a file of arrays, or a data set by name."""
    check_folder(data)
    match = _parse_name(data)
    if match is None:
        path = Path(data).expanduser()
        if path.is_dir():
            return load("folder", data, classes=classes, size=size)
        if classes is not None or size is not None:
            raise ValueError("classes= and size= apply to images in files, not to arrays: leave them out.")
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = dict(file)
        except (ValueError, OSError, TypeError, EOFError, BadZipFile) as error:
            reason = "no arrays of numbers" if "pickle" in str(error) else error
            raise ValueError(
                f"{data} cannot be read ({reason}): write it by numpy.savez(file, images=..., labels=...)."
            ) from error
        images, labels = read_fields(arrays)
        if images is None:
            raise ValueError(
                f"{data} has the arrays {', '.join(arrays)}: name that of the images {' or '.join(IMAGE_KEYS)}."
            )
        return images if labels is None else (images, labels)
    name, shift = match["name"], match["shift"]
    domains = DATA_SETS[name].shifts == "domains"
    chosen: dict[str, Any] = {} if shift is None else {"domain" if domains else "corruption": shift}
    try:
        return load(name, match["folder"], classes=classes, size=size, **chosen)
    except (TypeError, ValueError) as error:
        if shift is None and "needs " in str(error):
            raise ValueError(f"{error} Write {name}:{'DOMAIN' if domains else 'CORRUPTION'}.") from error
        raise


def _as_batches(data: Any, batch_size: int | None) -> Batches:
    if isinstance(data, Tensor | np.ndarray):
        return _of_arrays(data, None, batch_size)
    if isinstance(data, tuple) and len(data) == 2 and _is_array(data[0]) and data[0].ndim > 2 and _is_labels(data[1]):
        return _of_arrays(data[0], data[1], batch_size)
    if isinstance(data, tuple) and len(data) == 2 and all(map(_is_array, data)) and data[1].ndim == 2 < data[0].ndim:
        shape = tuple(data[1].shape)
        raise ValueError(f"labels have shape {shape}: give one class index for each image, as labels.argmax(1).")
    if isinstance(data, torch.nn.Module) or not (hasattr(data, "__iter__") or hasattr(data, "__getitem__")):
        raise TypeError(f"{type(data).__name__} is not a source of images: {EXPECTED}.")
    return Batches(data, batch_size=batch_size)


def _of_arrays(images: Any, labels: Any, batch_size: int | None) -> Batches:
    """Return arrays of all images and all labels in batches."""
    count = len(images)
    known = None if labels is None else torch.as_tensor(np.asarray(labels))
    if known is not None and len(known) != count:
        raise ValueError(f"there are {count} images but {len(known)} labels.")
    size = batch_size or published_batch_size(sorted(images.shape[1:])[1] if images.ndim == 4 else 0)
    cuts = [slice(start, start + size) for start in range(0, count, size)]
    return Batches([(images[cut],) if known is None else (images[cut], known[cut]) for cut in cuts])


def _fields(item: Any) -> tuple[Any, Any]:
    """Return images and labels, or None for labels, of what a source yields."""
    if isinstance(item, Batch):
        return item.images, item.labels
    if isinstance(item, Mapping):
        images, labels = read_fields(item)
        if images is None:
            raise TypeError(
                f"a batch has the keys {', '.join(map(str, item))}, none of which is known to be that of the images: "
                f"call it one of {', '.join(IMAGE_KEYS)}."
            )
        return images, labels
    if isinstance(item, tuple | list) and len(item) and (_is_array(item[0]) or isinstance(item[0], Image.Image | list)):
        others = [each for each in item[1:] if _is_array(each) or _is_labels(each) or isinstance(each, int)]
        return item[0], others[0] if others else None
    if _is_array(item) or isinstance(item, Image.Image):
        return item, None
    raise TypeError(f"the stream must give batches of images, got {type(item).__name__}: {EXPECTED}.")


def _is_array(value: Any) -> bool:
    return isinstance(value, Tensor | np.ndarray)


def _is_labels(value: Any) -> bool:
    """Return whether a value is a list of integers or an array of one dimension."""
    if _is_array(value):
        return bool(value.ndim == 1)
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(each, int | np.integer) for each in value)


def _is_single(images: Any, labels: Any) -> bool:
    """Return whether an item is one image: a picture, or an array of three dimensions without a list of labels.

    Without a label an array of three dimensions may also be a batch of signals (N, C, L): images have 1 or 3 channels.
    """
    if isinstance(images, Image.Image):
        return True
    if not _is_array(images) or images.ndim not in (2, 3):
        return False
    if labels is None:
        return images.ndim == 2 or images.shape[0] in (1, 3) or images.shape[-1] in (1, 3)
    return np.ndim(labels) == 0


def _in_batches(items: Iterator[tuple[Any, Any]], size: int | None) -> Iterator[tuple[Tensor, Any]]:
    """Collect single images, which are converted as by ``midway.data.from_dataset``."""
    pixels: list[Any] = []
    labels: list[Any] = []

    def collected() -> tuple[Tensor, Any]:
        unlabelled = any(label is None for label in labels)
        return torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2), None if unlabelled else list(map(int, labels))

    for image, label in items:
        pixels.append(as_array(image))
        labels.append(label)
        if pixels[-1].shape != pixels[0].shape:
            shapes = f"{pixels[0].shape[:2]} and {pixels[-1].shape[:2]}"
            raise ValueError(f"single images have sizes {shapes}: resize them, as midway.data.from_dataset does.")
        if len(pixels) == (size or published_batch_size(min(pixels[0].shape[:2]))):
            yield collected()
            pixels, labels = [], []
    if pixels:
        yield collected()


def _batch(images: Any, labels: Any) -> Batch:
    """Convert images to float tensors in [0, 1], channels first, and labels to integers; check that they match."""
    if isinstance(images, list) and images and all(isinstance(each, Image.Image) for each in images):
        images = torch.from_numpy(np.stack([as_array(each) for each in images])).permute(0, 3, 1, 2)
    images = torch.as_tensor(images)
    if images.ndim == 4 and images.shape[3] in (1, 3) and images.shape[1] not in (1, 3):
        images = images.movedim(-1, 1)
    if images.dtype == torch.uint8:
        images = images.float() / 255
    known = torch.full((len(images),), UNLABELLED) if labels is None else torch.as_tensor(labels)
    if known.shape != images.shape[:1]:
        raise ValueError(f"a batch has {len(images)} images but labels of shape {tuple(known.shape)}.")
    if known.is_floating_point() and not known.equal(known.round()):
        raise ValueError("labels must be integers, 0 for the first class.")
    return Batch(images, known.cpu().long(), torch.zeros(len(images), dtype=torch.int64))
