"""Checksums of files."""

from __future__ import annotations

import hashlib
from pathlib import Path


def file_digest(path: Path, algorithm: str = "sha256") -> str:
    """Return the checksum of a file as hexadecimal digits, read block by block.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from midway.checksum import file_digest
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "a").write_text("abc")
        ...     file_digest(Path(folder, "a"))[:16]
        'ba7816bf8f01cfea'
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()
