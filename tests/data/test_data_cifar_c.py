from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from midway import data


@pytest.mark.parametrize("severity", [1, 3, 5])
def test_severities_are_slices_of_a_memory_map(
    tmp_path: Path, write_cifar_c: Callable[..., None], severity: int
) -> None:
    write_cifar_c(tmp_path / "CIFAR-10-C")
    for root in (tmp_path, tmp_path / "CIFAR-10-C"):
        loaded = data.load("cifar10-c", root, corruption="fog", severity=severity)
        assert isinstance(loaded.images, np.memmap)
        assert loaded.images[[0, 3]][:, 5, 5, 1].tolist() == [10 * severity, 10 * severity + 3]
        assert loaded.labels.tolist() == [0, 1, 2, 3]
        assert loaded.name == "cifar10-c:fog"


def test_cifar100_c_has_its_classes(tmp_path: Path, write_cifar_c: Callable[..., None]) -> None:
    write_cifar_c(tmp_path / "set")
    assert data.load("cifar100-c", tmp_path / "set", corruption="snow").class_names[-1] == "worm"


def test_what_is_not_there(tmp_path: Path, write_cifar_c: Callable[..., None]) -> None:
    with pytest.raises(FileNotFoundError, match=r"none is missing.*Zenodo record 2535967"):
        data.load("cifar10-c", tmp_path / "none", corruption="fog")
    with pytest.raises(FileNotFoundError, match=r"has no CORRUPTION.npy"):
        data.load("cifar10-c", tmp_path, corruption="fog")
    write_cifar_c(tmp_path / "set")
    with pytest.raises(ValueError, match=r"did you mean 'snow'"):
        data.load("cifar10-c", tmp_path / "set", corruption="snwo")
    with pytest.raises(ValueError, match="needs corruption=, one of fog, snow"):
        data.load("cifar10-c", tmp_path / "set")
    with pytest.raises(ValueError, match="severity must be an integer from 1 to 5, got 6"):
        data.load("cifar10-c", tmp_path / "set", corruption="fog", severity=6)
    (tmp_path / "set" / "labels.npy").unlink()
    with pytest.raises(FileNotFoundError, match=r"labels.npy is missing: make it with `midway data make cifar10-c`"):
        data.load("cifar10-c", tmp_path / "set", corruption="fog")


def test_damaged_files(tmp_path: Path, write_cifar_c: Callable[..., None]) -> None:
    write_cifar_c(tmp_path / "set")
    fog, labels = tmp_path / "set" / "fog.npy", tmp_path / "set" / "labels.npy"

    def complains(message: str) -> None:
        with pytest.raises(ValueError, match=message):
            data.load("cifar10-c", tmp_path / "set", corruption="fog")

    whole = fog.read_bytes()
    fog.write_bytes(whole[:-1000])
    complains(r"fog.npy is truncated: 60,568 bytes, expected 61,568 for uint8 of shape \(20, 32, 32, 3\)")
    fog.write_bytes(b"<html>not found</html>")
    complains("fog.npy is not a .npy file")
    fog.write_bytes(b"")
    complains("fog.npy is not a .npy file")
    np.save(fog, np.zeros((20, 32, 32), np.uint8))
    complains(r"expected uint8 of shape \(N, 32, 32, 3\)")
    np.save(fog, np.zeros((20, 32, 32, 3), np.float32))
    complains("has float32")
    np.save(fog, np.zeros((19, 32, 32, 3), np.uint8))
    complains(r"labels.npy has labels of shape \(20,\), expected \(19,\)")
    np.save(labels, np.zeros(19, np.uint8))
    complains("has 19 images, expected equally many for 5 severities")
    np.save(fog, np.array([None, {}], dtype=object), allow_pickle=True)
    complains("contains pickled Python objects, which are not read")
    fog.write_bytes(whole)
    np.save(labels, np.zeros(10, np.uint8))
    complains(r"labels.npy has labels of shape \(10,\), expected \(20,\)")
    np.save(labels, np.zeros(20))
    complains("labels.npy has float64, expected integers")


def test_a_foreign_manifest_is_left_alone_and_a_damaged_one_named(
    tmp_path: Path, write_cifar_c: Callable[..., None]
) -> None:
    write_cifar_c(tmp_path / "set")
    (tmp_path / "set" / "manifest.json").write_text(json.dumps({"name": "somebody else's"}))
    assert len(data.load("cifar10-c", tmp_path / "set", corruption="fog")) == 4
    (tmp_path / "set" / "manifest.json").write_text("{")
    with pytest.raises(ValueError, match=r"manifest.json is damaged"):
        data.load("cifar10-c", tmp_path / "set", corruption="fog")
