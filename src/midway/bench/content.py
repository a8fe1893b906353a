"""Digests of what has no version: methods of one's own, and folders of images."""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from midway import methods
from midway.files import file_digest

INSTALLED = {"site-packages", "dist-packages"}


def digest(*parts: str) -> str:
    """Put digests together; nothing if all are empty."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16] if any(parts) else ""


def digest_of_method(name: str) -> str:
    """Return the digest of the files that define a method and what it derives from; nothing for midway's own.

    Example:
        >>> from midway.bench.content import digest_of_method
        >>> digest_of_method("tent")
        ''
    """
    files = source_files(methods.find(name).__mro__)
    return file_digest(files[0])[:16] if len(files) == 1 else digest(*map(file_digest, files))


def source_files(kinds: Iterable[object]) -> list[Path]:
    """Return the files with the code of functions and classes, each once; installed packages have versions instead.

    Example:
        >>> import torch
        >>> from midway.bench.content import source_files
        >>> source_files([torch.nn.Linear, dict])
        []
    """
    files: dict[Path, None] = {}
    for kind in kinds:
        if getattr(kind, "__module__", "").partition(".")[0] in {"midway", "torch", *sys.stdlib_module_names}:
            continue
        try:
            path = inspect.getsourcefile(kind)  # type: ignore[arg-type]
        except (OSError, TypeError):  # written at a prompt
            continue
        if path is not None and Path(path).is_file() and not INSTALLED & {*Path(path).parts}:
            files[Path(path)] = None
    return list(files)


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
