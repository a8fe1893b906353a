"""Data sets: every layout on disk becomes one value, an ``ImageSet``."""

from midway.data.catalog import load, names
from midway.data.corrupted import CorruptedImages, corrupt
from midway.data.corruptions import Corruption, Draws, corruption, corruption_names
from midway.data.fetch import fetch
from midway.data.home import data_home
from midway.data.image_set import ImageArray, ImageSet
from midway.data.inventory import inventory
from midway.data.lazy_images import LazyImages
from midway.data.make import make_corrupted
from midway.data.prefetch import prefetched
from midway.data.preview import contact_sheet
from midway.data.progress import Progress
from midway.data.torch_datasets import from_dataset

__all__ = [
    "CorruptedImages",
    "Corruption",
    "Draws",
    "ImageArray",
    "ImageSet",
    "LazyImages",
    "Progress",
    "contact_sheet",
    "corrupt",
    "corruption",
    "corruption_names",
    "data_home",
    "fetch",
    "from_dataset",
    "inventory",
    "load",
    "make_corrupted",
    "names",
    "prefetched",
]
