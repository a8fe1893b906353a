"""Download and unpack archives: a file appears only when it is complete and verified."""

from __future__ import annotations

import gzip
import http.client
import lzma
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from midway._errors import shorten_error
from midway._files import file_digest
from midway._secrets import hide_password, without_password

BLOCK_BYTES = 1 << 18
TIMEOUT_SECONDS = 20.0
ATTEMPTS = 3


class Progress(Protocol):
    """A function that downloads and generators call to report their progress.

    Example:
        >>> def progress(task: str, done: int, total: int | None) -> None:
        ...     print(f"{task}: {done} of {total or '?'}")
    """

    def __call__(self, task: str, done: int, total: int | None) -> None:
        """Record that ``done`` of ``total`` (None: unknown) units of a task are finished."""


def silent(task: str, done: int, total: int | None) -> None:
    """Report nothing."""


Fallback = Callable[[Path, Path, Progress], str]
"""Fills a new folder (second argument), with another folder for temporary files (first); returns the source."""


@dataclass(frozen=True)
class Archive:
    """A published archive.

    Attributes: ``url``, its address; ``md5``, its published checksum; ``folder``, the folder that it contains.
    """

    url: str
    md5: str
    folder: str


def download(url: str, target: Path, *, md5: str, progress: Progress = silent) -> Path:
    """Download a file to ``target``, continuing where an earlier, interrupted call stopped.

    The bytes are written to ``target.part``, which is renamed to ``target`` when its checksum is right. A broken
    connection is resumed up to three times; then ConnectionError is raised and the received bytes are kept.
    """
    shown = without_password(url)
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{shown} is not an http or https address.")
    if target.is_file() and file_digest(target, "md5") == md5:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    for attempt in range(1, ATTEMPTS + 1):
        before = _size(part)
        try:
            _receive(url, part, progress)
            break
        except (OSError, http.client.HTTPException) as error:
            received = _size(part)
            if attempt == ATTEMPTS or received == before:  # no bytes: the server will not answer the next time either
                kept = f" {received:,} bytes are kept; the same command continues." if received else ""
                reason = hide_password(_reason(error), url)
                raise ConnectionError(f"{shown} could not be downloaded: {reason}.{kept}") from None
    if (digest := file_digest(part, "md5")) != md5:
        size = _size(part)
        part.unlink()
        raise ValueError(f"{shown} returned {size:,} bytes with MD5 {digest}, expected MD5 {md5}: removed, try again.")
    part.replace(target)
    return target


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar archive; names and links that point outside the folder, and devices, are refused."""
    try:
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, ValueError) as error:
        reason = shorten_error(error).rstrip(":")  # tarfile lists every format that it tried
        raise ValueError(f"{archive} cannot be unpacked ({reason}): get it again.") from None


def _receive(url: str, part: Path, progress: Progress) -> None:
    """Append the missing bytes to the part file."""
    size = _size(part)
    request = urllib.request.Request(url, headers={"User-Agent": "midway", "Accept-Encoding": "identity"})
    if size:
        request.add_header("Range", f"bytes={size}-")
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and size:  # no bytes are left to send: the checksum decides
            return
        raise
    with response:
        if size and response.status != 206:  # the server cannot continue: start again
            size = 0
        length = response.headers.get("Content-Length")
        total = size + int(length) if length is not None and length.isdecimal() else None
        with part.open("ab" if size else "wb") as file:
            while block := response.read(BLOCK_BYTES):
                file.write(block)
                size += len(block)
                progress(part.name.removesuffix(".part"), size, total)
        if total is not None and size < total:
            raise ConnectionError(f"the connection broke after {size:,} of {total:,} bytes")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answered {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return str(getattr(error.reason, "strerror", None) or error.reason)
    return str(error) or type(error).__name__
