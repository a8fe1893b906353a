"""Writing files, checksums and locks."""

from __future__ import annotations

from pathlib import Path

import pytest

from midway._files import FolderLock, FolderTakenError, file_digest, write_atomically


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_atomically(tmp_path / "new" / "a.txt", "abc")
    assert path.read_text() == "abc"
    assert file_digest(path)[:16] == "ba7816bf8f01cfea"

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("midway._files.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new")
    assert [each.name for each in path.parent.iterdir()] == ["a.txt"]
    assert path.read_text() == "abc"


def test_a_folder_is_reserved_until_the_lock_is_closed(tmp_path: Path) -> None:
    with FolderLock(tmp_path / "run"), pytest.raises(FolderTakenError, match="another process"):
        FolderLock(tmp_path / "run")
    FolderLock(tmp_path / "run").close()
    assert list((tmp_path / "run").iterdir()) == []
