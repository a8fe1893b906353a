"""Data sets of several domains: DomainNet (Peng et al., 2019) and PACS (Li et al., 2017)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from midway._files import read_text
from midway.data.class_lists import MAX_CLASSES
from midway.data.datasets import REMEDY, dataset
from midway.data.image_set import ImageSet
from midway.data.lazy_images import LazyImages, image_files
from midway.data.loaders.folders import chosen, subfolders


@dataset(
    "pacs", remedy="get PACS from its authors' page, sketchx.eecs.qmul.ac.uk, or any copy with DOMAIN/CLASS/*.jpg."
)
def load_pacs(root: Path, *, domain: str | None, size: int | None) -> ImageSet:
    """Load all images of a domain, as PACS is used: every domain is a test set."""
    root = next((root / inner for inner in ("PACS", "kfold") if (root / inner).is_dir()), root)
    return _load_domain(root, domain, size, "pacs")


@dataset("domainnet", remedy="get DomainNet and its split lists from its authors' page, ai.bu.edu/M3SDA.")
def load_domainnet(root: Path, *, domain: str | None, split: str, size: int | None) -> ImageSet:
    """Load one domain of DomainNet by its published split list ``domain_test.txt``, lines of ``path label``.

    The list is beside the domains or in ``splits/``. ``split="all"`` needs no list and loads every image of the
    domain; the classes are in the order of the lists, which compares only letters and digits: The_Mona_Lisa is between
    tent and tiger.
    """
    if split == "all":
        return _load_domain(root, domain, size, "domainnet", key=_letters)
    if split not in ("test", "train"):
        raise ValueError(f"split is '{split}', expected 'test', 'train' or 'all'.")
    domain = _existing_domain(root, domain, "domainnet")
    listing = f"{domain}_{split}.txt"
    path = next((folder / listing for folder in (root, root / "splits") if (folder / listing).is_file()), None)
    if path is None:
        raise FileNotFoundError(
            f"{root / listing} is missing, the published list of the {split} images; "
            f"load all with split='all', or {REMEDY}"
        )
    files, labels = _read_list(path)
    _check_present(root, files, path)
    named = {label: Path(file).parent.name for file, label in zip(files, labels, strict=True)}
    names = tuple(named.get(label, f"class {label}") for label in range(max(labels) + 1))
    return ImageSet(LazyImages([root / file for file in files], size), np.asarray(labels), names, "domainnet")


def _load_domain(
    root: Path, domain: str | None, size: int | None, name: str, key: Callable[[str], str] | None = None
) -> ImageSet:
    """Load ``root/domain/class/*.jpg``; labels are indices into the sorted classes of all domains, equal in each."""
    domain = _existing_domain(root, domain, name)
    classes = sorted({class_name for each in subfolders(root) for class_name in subfolders(root / each)}, key=key)
    files = [image_files(root / domain / class_name) for class_name in classes]
    if not any(files):
        raise FileNotFoundError(f"{root / domain} has no images, expected CLASS/*.jpg: {REMEDY}")
    labels = np.repeat(np.arange(len(classes)), [len(paths) for paths in files])
    return ImageSet(LazyImages([path for paths in files for path in paths], size), labels, tuple(classes), name)


def _letters(name: str) -> str:
    """Return the sort key of a class in DomainNet's lists."""
    return "".join(filter(str.isalnum, name.lower()))


def _existing_domain(root: Path, domain: str | None, name: str) -> str:
    domains = [folder for folder in subfolders(root) if subfolders(root / folder)]
    if not domains:
        raise FileNotFoundError(f"{root} has no domains, expected DOMAIN/CLASS/*.jpg in it: {REMEDY}")
    return chosen(name, root, "domain", domain, domains)


def _read_list(path: Path) -> tuple[list[str], list[int]]:
    files, labels = [], []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        file, _, label = line.strip().rpartition(" ")
        if not file or not label.isdecimal() or len(label) > 9 or int(label) >= MAX_CLASSES:
            raise ValueError(f"{path}, line {number} is '{line[:60]}', expected 'path label': {REMEDY}")
        files.append(file)
        labels.append(int(label))
    if not files:
        raise ValueError(f"{path} is empty, expected lines of 'path label': {REMEDY}")
    return files, labels


def _check_present(root: Path, files: Sequence[str], listing: Path) -> None:
    """Raise for listed files that are missing; lists each folder once instead of testing each file."""
    folders = [root / folder for folder in {Path(file).parent for file in files}]
    present = {path for folder in folders if folder.is_dir() for path in folder.iterdir()}
    missing = [file for file in files if root / file not in present]
    if missing:
        raise FileNotFoundError(
            f"{root / missing[0]} is missing and {len(missing) - 1:,} more of the {len(files):,} files that {listing} "
            f"lists: {REMEDY}"
        )
