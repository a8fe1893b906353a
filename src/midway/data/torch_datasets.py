"""Any torch or Hugging Face data set of (image, label) as an ``ImageSet``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from midway.data.image_set import ImageSet
from midway.data.lazy_images import ImagesOnDemand, as_rgb, fit

IMAGE_KEYS = ("image", "images", "img", "pixel_values", "inputs", "x")
LABEL_KEYS = ("label", "labels", "fine_label", "target", "targets", "y")


class DatasetImages(ImagesOnDemand):
    """The images of a data set with a length, read when they are indexed, in the given size or that of the first."""

    def __init__(self, dataset: Any, size: int | None = None) -> None:
        self.dataset = dataset
        first = as_array(_image_and_label(dataset[0])[0])
        side = first.shape[:2] if size is None else (size, size)
        self.shape = (len(dataset), side[0], side[1], 3)

    def __repr__(self) -> str:
        return f"DatasetImages({type(self.dataset).__name__}, shape={self.shape})"

    def _read(self, index: int) -> NDArray[np.uint8]:
        image = as_array(_image_and_label(self.dataset[index])[0])
        return fit(Image.fromarray(np.ascontiguousarray(image)), self.shape[1:3])


def from_dataset(
    dataset: Any, *, name: str = "dataset", class_names: Sequence[str] | None = None, size: int | None = None
) -> ImageSet:
    """Wrap a torch or Hugging Face data set; images are read when they are indexed.

    Labels are the label column or the ``targets`` of the data set if it has them; else each item is read once.
    A data set without a length (an iterable one) is read into memory.

    Args:
        dataset: Yields ``(image, label)`` tuples or dictionaries with ``"image"`` and ``"label"``. Images are PIL
            images, uint8 arrays, or floats in [0, 1]; tensors are (C, H, W), as from torchvision's ``ToTensor``.
        name: Name of the set.
        class_names: The classes in label order. Default: from the data set (``features`` or ``classes``).
        size: Side in pixels. Default: the size of the first image.

    Images of one channel become three equal channels: a network with one input channel takes the first, ``x[:, :1]``.

    Example:
        >>> import numpy as np
        >>> from midway.data import from_dataset
        >>> pairs = [(np.full((8, 8, 3), value, np.uint8), value % 2) for value in range(4)]
        >>> data = from_dataset(pairs, class_names=("even", "odd"))
        >>> data.images[[3]].max(), data.labels.tolist()
        (np.uint8(3), [0, 1, 0, 1])
    """
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        dataset = _collect(dataset)
    if len(dataset) == 0:
        raise ValueError(f"the data set {name} is empty.")
    labels = _labels(dataset)
    names = tuple(class_names) if class_names is not None else _class_names(dataset, labels)
    return ImageSet(DatasetImages(dataset, size), labels, names, name)


def as_array(image: Any) -> NDArray[np.uint8]:
    """Convert a PIL image, an array or a tensor to uint8 RGB (H, W, 3)."""
    if isinstance(image, Image.Image):
        return np.asarray(as_rgb(image), dtype=np.uint8)
    tensor = hasattr(image, "detach")
    array = np.asarray(image.detach().cpu().numpy() if tensor else image)
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim == 3 and array.shape[0] in (1, 3) and (tensor or array.shape[2] not in (1, 3)):
        array = array.transpose(1, 2, 0)
    if array.ndim != 3 or array.shape[2] not in (1, 3):
        raise ValueError(f"an image has shape {array.shape}, expected (H, W, 3), (H, W) or, for tensors, (3, H, W).")
    if array.dtype.kind == "f":
        low, high = float(array.min()), float(array.max())
        if not -1e-3 <= low <= high <= 1 + 1e-3:
            raise ValueError(
                f"an image has values from {low:.3g} to {high:.3g}, expected [0, 1]: remove the normalisation from the "
                "data set's transform, it is part of the model."
            )
        array = np.rint(array * 255).clip(0, 255).astype(np.uint8)
    if array.dtype != np.uint8:
        raise ValueError(f"an image is {array.dtype}, expected uint8 or floats in [0, 1].")
    return np.broadcast_to(array, (*array.shape[:2], 3))


def read_fields(item: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the image and the label of a dictionary, one or a batch of them; None where no key is known.

    Example:
        >>> read_fields({"img": "cat.jpg", "fine_label": 3, "coarse_label": 1})
        ('cat.jpg', 3)
    """
    image, label = (next((item[key] for key in keys if key in item), None) for keys in (IMAGE_KEYS, LABEL_KEYS))
    return image, label


def _image_and_label(item: Any) -> tuple[Any, Any]:
    if isinstance(item, dict):
        image, label = read_fields(item)
        if image is None or label is None:
            raise ValueError(f"an item has the keys {', '.join(item)}, expected 'image' and 'label'.")
        return image, label
    if isinstance(item, tuple | list) and len(item) >= 2:
        return item[0], item[1]
    raise ValueError(f"an item is a {type(item).__name__}, expected (image, label) or {{'image', 'label'}}.")


def _labels(dataset: Any) -> NDArray[np.int64]:
    columns = getattr(dataset, "column_names", None)
    key = next((key for key in LABEL_KEYS if isinstance(columns, list) and key in columns), None)
    if key is not None:
        return _integers(list(dataset[key]))
    targets = getattr(dataset, "targets", None)
    if targets is not None and len(targets) == len(dataset) and not getattr(dataset, "target_transform", None):
        return _integers(targets)
    return _integers([_image_and_label(dataset[index])[1] for index in range(len(dataset))])


def _integers(labels: Any) -> NDArray[np.int64]:
    values = np.asarray([label.item() if hasattr(label, "item") else label for label in labels])
    if values.dtype.kind not in "biuf" or not np.array_equal(values, values.astype(np.int64)):
        wrong = next(label for label in values.tolist() if not isinstance(label, int))
        raise ValueError(f"labels must be integers, 0 for the first class, got {wrong!r}: number the classes.")
    return values.astype(np.int64)


def _class_names(dataset: Any, labels: NDArray[np.int64]) -> tuple[str, ...]:
    features = getattr(dataset, "features", None)
    if isinstance(features, dict):
        for key in LABEL_KEYS:
            if names := getattr(features.get(key), "names", None):
                return tuple(names)
    if classes := getattr(dataset, "classes", None):
        return tuple(str(name) for name in classes)
    return tuple(f"class {label}" for label in range(int(labels.max()) + 1))


def _collect(dataset: Iterable[Any]) -> list[tuple[NDArray[np.uint8], int]]:
    return [(as_array(image), int(label)) for image, label in map(_image_and_label, dataset)]
