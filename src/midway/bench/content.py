"""Digests of what has no version: methods of one's own, and folders of images."""

from __future__ import annotations

import hashlib
import inspect
import os
from pathlib import Path

from midway import methods
from midway.checksum import file_digest


def digest(*parts: str) -> str:
    """Put digests together; nothing if all are empty."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16] if any(parts) else ""


def digest_of_method(name: str) -> str:
    """Return the digest of the file that defines a method; nothing for midway's own, and where there is no file.

    Example:
        >>> from midway.bench.content import digest_of_method
        >>> digest_of_method("tent")
        ''
    """
    method = methods.find(name)
    if method.__module__.partition(".")[0] == "midway":
        return ""
    try:
        path = inspect.getsourcefile(method)
    except (OSError, TypeError):  # written at a prompt
        return ""
    return file_digest(Path(path))[:16] if path is not None and Path(path).is_file() else ""


def digest_of_data(name: str, root: str | None) -> str:
    """Return the digest of the names and sizes of the files in a folder of images; nothing for published data sets."""
    if name != "folder" or root is None:
        return ""
    found = hashlib.sha256()
    for directory, folders, files in os.walk(root):
        folders.sort()
        for file in sorted(files):
            path = Path(directory, file)
            found.update(os.fsencode(f"{path.relative_to(root)}\n{path.lstat().st_size}\n"))
    return found.hexdigest()[:16]
