from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from midway import data
from midway.data.manifest import FileFacts, Manifest


def test_what_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIDWAY_DATA", str(tmp_path))
    assert [record.name for record in data.inventory()] == ["cifar10-mini"]
    embedded = data.inventory()[0]
    assert embedded.verified
    assert embedded.bytes > 1_000_000

    clean = data.load("cifar10-mini").first(2)
    data.make_corrupted(clean, tmp_path / "mini-c", corruptions=["contrast"], jobs=1)
    (tmp_path / "pacs").mkdir()
    (tmp_path / "pacs" / "file").write_bytes(b"12345")
    (tmp_path / ".cifar100.partial").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "manifest.json").write_text("{")
    records = {record.name: record for record in data.inventory()}
    assert list(records) == ["cifar10-mini", "cifar100", "broken", "mini-c", "pacs"]
    assert [record.verified for record in records.values()] == [True, False, False, True, False]
    assert records["mini-c"].note == "made from cifar10-mini"
    assert records["mini-c"].bytes == sum(path.stat().st_size for path in (tmp_path / "mini-c").iterdir())
    assert records["pacs"].bytes == 5
    assert "no manifest" in records["pacs"].note
    assert "unfinished" in records["cifar100"].note
    assert "damaged" in records["broken"].note


def test_changes_are_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    path = folder / "a.npy"
    np.save(path, np.zeros(4))
    Manifest("set", "by hand", files={"a.npy": FileFacts.of(path)}).write(folder)
    assert data.inventory(tmp_path, deep=True)[1].verified
    np.save(path, np.ones(4))  # the same size: only the checksum tells
    assert data.inventory(tmp_path)[1].verified
    assert data.inventory(tmp_path, deep=True)[1].note == "a.npy has changed"
    np.save(path, np.ones(5))
    assert not data.inventory(tmp_path)[1].verified
    path.unlink()
    assert data.inventory(tmp_path)[1].note == "a.npy is missing"


def test_unfinished_and_emptied_sets_are_not_verified(tmp_path: Path) -> None:
    clean = data.load("cifar10-mini").first(2)

    def stop(task: str, done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        data.make_corrupted(clean, tmp_path / "set", corruptions=["contrast", "fog"], jobs=1, progress=stop)
    assert data.inventory(tmp_path)[1].note == "unfinished: 2 parts are missing, the same command continues"
    data.make_corrupted(clean, tmp_path / "set", corruptions=["contrast", "fog"], jobs=1)
    assert data.inventory(tmp_path)[1].verified
    folders = data.make_corrupted(clean, tmp_path / "z", corruptions=["fog"], severities=[1], jobs=1, layout="png")
    assert data.inventory(tmp_path)[2].verified
    next(folders.rglob("*.png")).unlink()
    assert "fog/1 has" in data.inventory(tmp_path)[2].note


def test_folders_have_one_checksum(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "x").write_bytes(b"123")
    before = FileFacts.of(tmp_path / "a")
    assert before.bytes == 3
    (tmp_path / "a" / "b" / "x").rename(tmp_path / "a" / "b" / "y")
    assert FileFacts.of(tmp_path / "a").sha256 != before.sha256
