"""Download a file so that it is either whole and verified, or not there."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from pathlib import Path

from midway.data.progress import Progress, silent
from midway.files import file_digest

BLOCK_BYTES = 1 << 18
TIMEOUT_SECONDS = 20.0
ATTEMPTS = 3


def download(url: str, target: Path, *, md5: str, progress: Progress = silent) -> Path:
    """Download a file to ``target``, continuing where an earlier, interrupted call stopped.

    The bytes gather in ``target.part``; only a file with the right checksum gets the name ``target``. A broken
    connection is taken up again, up to three times.

    Args:
        url: Where the file is, http or https.
        target: Where it goes.
        md5: The published checksum.
        progress: Told the bytes that are there and the bytes there will be.

    Raises:
        ConnectionError: The server cannot be reached, refuses, or breaks off; what has arrived is kept.
        ValueError: The file arrived whole with another checksum; it is removed.
    """
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url} is not an http or https address.")
    if target.is_file() and file_digest(target, "md5") == md5:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    for attempt in range(1, ATTEMPTS + 1):
        before = part.stat().st_size if part.exists() else 0
        try:
            _receive(url, part, progress)
            break
        except (OSError, http.client.HTTPException) as error:
            arrived = part.stat().st_size if part.exists() else 0
            if (
                attempt == ATTEMPTS or arrived == before
            ):  # nothing came: the server will not answer the next time either
                kept = f" {arrived:,} bytes are kept; the same command continues." if arrived else ""
                raise ConnectionError(f"{url} could not be downloaded: {_reason(error)}.{kept}") from None
    if (found := file_digest(part, "md5")) != md5:
        size = part.stat().st_size
        part.unlink()
        raise ValueError(f"{url} gave {size:,} bytes with MD5 {found}, expected MD5 {md5}: removed, try again.")
    part.replace(target)
    return target


def _receive(url: str, part: Path, progress: Progress) -> None:
    """Append to the part file what it lacks."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "midway", "Accept-Encoding": "identity"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and have:  # nothing is left to send: the checksum decides whether that is right
            return
        raise
    with response:
        if have and response.status != 206:  # the server cannot continue: start again
            have = 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length is not None else None
        with part.open("ab" if have else "wb") as file:
            while block := response.read(BLOCK_BYTES):
                file.write(block)
                have += len(block)
                progress(part.name.removesuffix(".part"), have, total)
        if total is not None and have < total:
            raise ConnectionError(f"the connection broke after {have:,} of {total:,} bytes")


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answered {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return str(getattr(error.reason, "strerror", None) or error.reason)
    return str(error) or type(error).__name__
