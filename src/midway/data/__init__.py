"""Data sets as ``ImageSet`` values, and the corruptions of their images."""

from midway.data.class_lists import class_indices, class_lists
from midway.data.corrupted import CorruptedImages, corrupt
from midway.data.corruptions import Corruption, Draws, corruption, corruption_names
from midway.data.datasets import Dataset, data_home, dataset, load, names
from midway.data.download import Archive, Progress
from midway.data.fetch import fetch
from midway.data.image_set import ImageArray, ImageSet
from midway.data.lazy_images import LazyImages, prefetched
from midway.data.loaders.imagenet_variants import imagenet_indices
from midway.data.make import make_corrupted
from midway.data.manifest import inventory
from midway.data.preview import contact_sheet
from midway.data.torch_datasets import from_dataset

__all__ = [
    "Archive",
    "CorruptedImages",
    "Corruption",
    "Dataset",
    "Draws",
    "ImageArray",
    "ImageSet",
    "LazyImages",
    "Progress",
    "class_indices",
    "class_lists",
    "contact_sheet",
    "corrupt",
    "corruption",
    "corruption_names",
    "data_home",
    "dataset",
    "fetch",
    "from_dataset",
    "imagenet_indices",
    "inventory",
    "load",
    "make_corrupted",
    "names",
    "prefetched",
]
