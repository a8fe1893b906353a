"""Data sets by name: ``load``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from midway.data.cifar import CIFAR10, CIFAR100, load_cifar
from midway.data.cifar_c import load_cifar_c
from midway.data.corrupted import CorruptedImages, check_severity
from midway.data.domains import load_domain, load_domainnet
from midway.data.embedded import load_embedded
from midway.data.folders import load_corrupted_folder, load_folder
from midway.data.home import data_home
from midway.data.image_set import ImageSet
from midway.suggest import unknown

_IMAGENET_REMEDY = "get the ILSVRC 2012 validation images from image-net.org and sort them into one folder a class."
_IMAGENET_C_REMEDY = "get ImageNet-C from Zenodo record 2235448, or make it with `midway data make`."
_TINY_IMAGENET_C_REMEDY = (
    "get Tiny-ImageNet-C from Zenodo record 2536630, or make it with `midway data make tiny-imagenet-c --from FOLDER`."
)


@dataclass(frozen=True)
class _Request:
    root: Path
    split: str
    corruption: str | None
    domain: str | None
    severity: int
    size: int | None
    classes: Sequence[str] | None


@dataclass(frozen=True)
class _Entry:
    """How to load a data set, and which of the arguments of ``load`` mean something for it."""

    read: Callable[[_Request], ImageSet]
    stored_corruptions: bool = False
    splits: bool = True
    domains: bool = False
    sized: bool = False
    classes: bool = False


def _embedded(request: _Request) -> ImageSet:
    if request.split != "test":
        raise ValueError(f"cifar10-mini has no {request.split} images, only a test split.")
    return load_embedded()


_CATALOG: dict[str, _Entry] = {
    "cifar10-mini": _Entry(_embedded),
    "cifar10": _Entry(lambda r: load_cifar(r.root, CIFAR10, split=r.split)),
    "cifar100": _Entry(lambda r: load_cifar(r.root, CIFAR100, split=r.split)),
    "cifar10-c": _Entry(
        lambda r: load_cifar_c(r.root, CIFAR10, r.corruption, severity=r.severity),
        stored_corruptions=True,
        splits=False,
    ),
    "cifar100-c": _Entry(
        lambda r: load_cifar_c(r.root, CIFAR100, r.corruption, severity=r.severity),
        stored_corruptions=True,
        splits=False,
    ),
    "imagenet": _Entry(
        lambda r: load_folder(
            r.root, name="imagenet", split=r.split, size=r.size, classes=r.classes, remedy=_IMAGENET_REMEDY
        ),
        sized=True,
        classes=True,
    ),
    "imagenet-c": _Entry(
        lambda r: load_corrupted_folder(
            r.root,
            r.corruption,
            severity=r.severity,
            name="imagenet-c",
            size=r.size,
            classes=r.classes,
            remedy=_IMAGENET_C_REMEDY,
        ),
        stored_corruptions=True,
        splits=False,
        sized=True,
        classes=True,
    ),
    "tiny-imagenet-c": _Entry(
        lambda r: load_corrupted_folder(
            r.root,
            r.corruption,
            severity=r.severity,
            name="tiny-imagenet-c",
            size=r.size,
            classes=r.classes,
            remedy=_TINY_IMAGENET_C_REMEDY,
        ),
        stored_corruptions=True,
        splits=False,
        sized=True,
        classes=True,
    ),
    "domainnet": _Entry(
        lambda r: load_domainnet(r.root, r.domain, split=r.split, size=r.size), domains=True, sized=True
    ),
    "pacs": _Entry(lambda r: load_domain(r.root, r.domain, size=r.size), splits=False, domains=True, sized=True),
    "folder": _Entry(
        lambda r: load_folder(r.root, split=r.split, size=r.size, classes=r.classes), sized=True, classes=True
    ),
}


def names() -> tuple[str, ...]:
    """Return the names ``load`` knows.

    Example:
        >>> from midway import data
        >>> data.names()[:3]
        ('cifar10-mini', 'cifar10', 'cifar100')
    """
    return tuple(_CATALOG)


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
    classes: Sequence[str] | None = None,
) -> ImageSet:
    """Load a data set by name; images that lie in many or large files stay there until they are asked for.

    Args:
        name: One of ``names()``. ``"folder"`` is any folder of images, ``"cifar10-mini"`` ships with the package.
        root: The folder of the data set; ``data_home() / name`` if left out.
        split: ``"test"`` or ``"train"`` (``"all"`` for DomainNet).
        corruption: For the ``-c`` sets, which of the stored corruptions; for the others, one of
            ``ALL_CORRUPTIONS``, applied to each image when it is asked for.
        domain: For DomainNet and PACS.
        severity: 1 to 5, with ``corruption``.
        seed: Of a corruption that is applied here; the stored ones have theirs.
        size: Side in pixels for images in files; see ``LazyImages``.
        classes: For class folders, the class names in label order, if the folder holds only some of them.

    Raises:
        ValueError: An argument is unknown or means nothing for this set, or a file is damaged.
        FileNotFoundError: Something is missing; the message says what and where to get it.

    Example:
        >>> from midway import data
        >>> mini = data.load("cifar10-mini")
        >>> foggy = data.load("cifar10-mini", corruption="fog", severity=3)
        >>> foggy.images[[0, 1]].shape
        (2, 32, 32, 3)
    """
    if name not in _CATALOG:
        raise ValueError(unknown("data set", name, _CATALOG))
    entry = _CATALOG[name]
    for argument, given, understood in (
        ("domain", domain, entry.domains),
        ("size", size, entry.sized),
        ("classes", classes, entry.classes),
    ):
        if given is not None and not understood:
            raise ValueError(f"{argument}= means nothing for the data set {name}: leave it out.")
    if split != "test" and not entry.splits:
        raise ValueError(f"split= means nothing for the data set {name}, which is for testing: leave it out.")
    check_severity(severity)
    if name == "folder" and root is None:
        raise ValueError("the data set folder needs root=, the folder with the images.")
    place = data_home() / name if root is None else Path(root).expanduser()
    data = entry.read(_Request(place, split, corruption, domain, severity, size, classes))
    if corruption is not None and not entry.stored_corruptions:
        data = replace(data, images=CorruptedImages(data.images, corruption, severity, seed))
    shift = domain or corruption
    return replace(data, name=f"{data.name}:{shift}") if shift else data
