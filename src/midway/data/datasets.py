"""The registry of data sets: one decorated loader each; ``load`` calls it by name."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from midway._registry import Registered, Registry
from midway.data.class_lists import Classes, plain_classes
from midway.data.corrupted import CorruptedImages, check_severity
from midway.data.download import Archive, Fallback
from midway.data.image_set import ImageSet

ASSETS = Path(__file__).parent / "assets"
_DEFAULTS: dict[str, Any] = {"split": "test", "domain": None, "size": None, "classes": None}
_ARGUMENTS = {*_DEFAULTS, "corruption", "severity", "name"}

REMEDY = "<how to get the data>"
"""In the error messages of loaders: ``load`` replaces it by the remedy of the data set."""

L = TypeVar("L", bound=Callable[..., ImageSet])


@dataclass(eq=False)
class Dataset(Registered):
    """A registered data set.

    Attributes: those of ``dataset``; ``function``, the loader; ``arguments``, those of ``load`` that the loader takes.
    """

    remedy: str
    archive: Archive | None
    fallback: Fallback | None
    needs_root: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        self.arguments = frozenset(inspect.signature(self.function).parameters) - {"root"}

    @property
    def shifts(self) -> Literal["domains", "stored", "computed"]:
        """Its shifts: domains, corruptions that are stored in files, or corruptions that are computed on access."""
        if "domain" in self.arguments:
            return "domains"
        return "stored" if "corruption" in self.arguments else "computed"


REGISTRY: Registry[Dataset] = Registry("data set", group="datasets", package="midway.data.loaders")


def dataset(
    name: str,
    *,
    remedy: str,
    archive: Archive | None = None,
    fallback: Fallback | None = None,
    needs_root: bool = False,
) -> Callable[[L], L]:
    """Register a loader as a data set; other packages list its module as an entry point in ``midway.datasets``.

    The loader takes ``root``, a folder, and by keyword those of ``split``, ``corruption``, ``severity``, ``domain``,
    ``size`` and ``classes`` that it supports; ``load`` refuses the others. A loader that takes ``domain`` has domains
    as shifts, one that takes ``corruption`` has stored corruptions. A loader of several data sets takes ``name``.

    Args:
        name: The name that ``load`` takes.
        remedy: How to get the data, such as ``"get it from example.org."``.
        archive: The published archive for ``midway data fetch``.
        fallback: Another way to fetch it.
        needs_root: The folder must always be given.

    Raises:
        ValueError: The loader has an unknown argument, or the name is in use.

    Example:
        >>> import midway
        >>> @midway.data.dataset("flowers", remedy="get it from example.org/flowers.")
        ... def load_flowers(root, *, split="test"):
        ...     return midway.data.load("folder", root / split)
        >>> "flowers" in midway.data.names()
        True
        >>> from midway.data.datasets import REGISTRY
        >>> REGISTRY.remove("flowers")
    """

    def register(function: L) -> L:
        entry = Dataset(name, function, remedy, archive, fallback, needs_root)
        if strange := entry.arguments - _ARGUMENTS:
            raise ValueError(f"the loader of {name} takes {min(strange)}, expected {', '.join(sorted(_ARGUMENTS))}.")
        REGISTRY.add(name, entry)
        return function

    return register


def names() -> tuple[str, ...]:
    """Return the names of all data sets.

    Example:
        >>> from midway import data
        >>> data.names()[:3]
        ('cifar10', 'cifar10-c', 'cifar10-mini')
    """
    return tuple(sorted(REGISTRY))


def load(
    name: str,
    root: str | Path | None = None,
    *,
    split: str = "test",
    corruption: str | None = None,
    domain: str | None = None,
    severity: int = 5,
    seed: int = 0,
    size: int | None = None,
    classes: Classes | None = None,
) -> ImageSet:
    """Load a data set by name; images in many or large files are read when they are indexed.

    If something is missing, the message of the FileNotFoundError names it and how to get it.

    Args:
        name: One of ``names()``. ``"folder"`` is any folder of images, ``"cifar10-mini"`` ships with the package.
        root: The folder of the data set. Default: ``data_home() / name``.
        split: ``"test"`` or ``"train"`` (``"all"`` for DomainNet).
        corruption: For the ``-c`` sets, one of the stored corruptions; for the others, one of ``corruption_names()``,
            computed for each image when it is read.
        domain: For DomainNet and PACS.
        severity: 1 to 5, with ``corruption``.
        seed: Seed of a corruption that is computed; the stored ones have their own.
        size: Side in pixels for images in files; see ``LazyImages``.
        classes: For class folders, which logit each class is, if the folder has only some of the network's classes: the
            names in the order of the logits, an index for each class folder in their order, ``{folder: index}``, a file
            with one class per line, or one of ``class_lists()``. With a subset of ImageNet, such as ``"imagenet-r"``,
            ``ImageSet.logits`` are those that the network is limited to, as in its published results.

    Example:
        >>> from midway import data
        >>> mini = data.load("cifar10-mini")
        >>> foggy = data.load("cifar10-mini", corruption="fog", severity=3)
        >>> foggy.images[[0, 1]].shape
        (2, 32, 32, 3)
    """
    entry = REGISTRY[name]
    if classes is not None and not isinstance(classes, str | Path):  # errors name a file
        classes = plain_classes(classes)
    given = {"split": split, "domain": domain, "size": size, "classes": classes}
    for argument, default in _DEFAULTS.items():
        if given[argument] != default and argument not in entry.arguments:
            raise ValueError(f"{argument}= does not apply to the data set {name}: leave it out.")
    check_severity(severity)
    if entry.needs_root and root is None:
        raise ValueError(f"the data set {name} needs root=, the folder with the images.")
    given |= {"corruption": corruption, "severity": severity, "name": name}
    folder = data_home() / name if root is None else Path(root).expanduser()
    try:
        data: ImageSet = entry.function(folder, **{argument: given[argument] for argument in entry.arguments})
    except (FileNotFoundError, ValueError) as error:
        if REMEDY not in str(error):
            raise
        raise type(error)(str(error).replace(REMEDY, entry.remedy)) from None
    if corruption is not None and entry.shifts != "stored":
        data = replace(data, images=CorruptedImages(data.images, corruption, severity, seed))
    shift = domain or corruption
    return replace(data, name=f"{data.name}:{shift}") if shift else data


def data_home() -> Path:
    """Return the folder that contains one folder per data set.

    ``$MIDWAY_DATA`` if it is set, else ``midway/data`` in the cache folder of the platform
    (``~/.cache`` or ``$XDG_CACHE_HOME`` on Linux). The folder need not exist.

    Example:
        >>> from midway.data import data_home
        >>> import os
        >>> os.environ["MIDWAY_DATA"] = "somewhere"
        >>> data_home().name
        'somewhere'
        >>> del os.environ["MIDWAY_DATA"]
    """
    if chosen := os.environ.get("MIDWAY_DATA"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        cache = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        cache = Path.home() / "Library" / "Caches"
    else:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "midway" / "data"
