"""Writing files, checksums and locks."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from midway._files import (
    FolderLock,
    FolderTakenError,
    check_space,
    file_digest,
    parse_json,
    reserve,
    write_atomically,
)
from midway.cli import _sentence


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_atomically(tmp_path / "new" / "a.txt", "abc")
    assert path.read_text() == "abc"
    assert file_digest(path)[:16] == "ba7816bf8f01cfea"

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("midway._files.os.fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*/a\.txt'"):
        write_atomically(path, b"new")
    assert [each.name for each in path.parent.iterdir()] == ["a.txt"]
    assert path.read_text() == "abc"


def test_an_error_names_the_file_and_not_the_temporary_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(path: Path, mode: str) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "open", read_only)
    with pytest.raises(OSError, match=r"Read-only file system: '.*/report\.html'$") as refused:
        write_atomically(tmp_path / "report.html", "page")
    assert _sentence(refused.value) == (
        f"{tmp_path / 'report.html'}: Read-only file system: change its permissions, or choose another."
    )


def test_a_folder_is_reserved_until_the_lock_is_closed(tmp_path: Path) -> None:
    with FolderLock(tmp_path / "run"), pytest.raises(FolderTakenError, match="another process"):
        FolderLock(tmp_path / "run")
    FolderLock(tmp_path / "run").close()
    assert list((tmp_path / "run").iterdir()) == []


def test_json_that_cannot_be_used_is_a_value_error() -> None:
    assert parse_json('{"a": "\\u00e9"}') == {"a": "é"}
    for text in ("[" * 100_000 + "]" * 100_000, '"\\ud800"', b'"\\udfff"', "{", b"\xff"):
        with pytest.raises(ValueError, match=r".+"):
            parse_json(text)


def test_space_is_checked_and_reserved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_space(tmp_path, 1, "it")
    with pytest.raises(OSError, match=r"it needs 1,000,000,000.0 MB in .*, and .* MB are free: free some space"):
        check_space(tmp_path, 10**15, "it")
    for portable in (False, True):
        if portable:
            monkeypatch.delattr("midway._files.os.posix_fallocate", raising=False)
        with (tmp_path / "file").open("wb") as file:
            file.write(b"header")
            reserve(file, 3_000_000)
        assert (tmp_path / "file").stat().st_size == 3_000_000
        assert (tmp_path / "file").stat().st_blocks * 512 >= 3_000_000  # no holes
        assert (tmp_path / "file").read_bytes().startswith(b"header\0")
