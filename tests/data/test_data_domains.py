from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from midway import data

WriteImage = Callable[..., Path]


@pytest.fixture
def pacs(tmp_path: Path, write_image: WriteImage) -> Path:
    write_image(tmp_path / "photo" / "dog" / "1.jpg", 10, (128, 128))
    write_image(tmp_path / "photo" / "horse" / "1.jpg", 20, (128, 128))
    write_image(tmp_path / "sketch" / "house" / "1.png", 30, (128, 128), "L")
    return tmp_path


def test_labels_agree_between_domains(pacs: Path) -> None:
    photo, sketch = (data.load("pacs", pacs, domain=domain) for domain in ("photo", "sketch"))
    assert photo.class_names == sketch.class_names == ("dog", "horse", "house")
    assert photo.labels.tolist() == [0, 1]
    assert sketch.labels.tolist() == [2]
    assert sketch.images.shape == (1, 128, 128, 3)
    assert sketch.images[0].max() == 30


def test_pacs_inside_its_archive_folder(pacs: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outer = tmp_path_factory.mktemp("outer")
    pacs.rename(outer / "PACS")
    assert len(data.load("pacs", outer, domain="photo")) == 2


def test_domains_that_are_not_there(pacs: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"unknown domain 'foto': did you mean 'photo'"):
        data.load("pacs", pacs, domain="foto")
    with pytest.raises(ValueError, match="pacs needs domain=, one of photo, sketch"):
        data.load("pacs", pacs)
    with pytest.raises(FileNotFoundError, match="has no domains"):
        data.load("pacs", tmp_path / "photo" / "dog", domain="photo")
    (pacs / "sketch" / "house" / "1.png").unlink()
    with pytest.raises(FileNotFoundError, match="sketch has no images"):
        data.load("pacs", pacs, domain="sketch")


@pytest.fixture
def domainnet(tmp_path: Path, write_image: WriteImage) -> Path:
    for number, name in enumerate(["axe/clipart_1.jpg", "axe/clipart_2.jpg", "zebra/clipart_3.jpg"]):
        write_image(tmp_path / "clipart" / name, 50 * number, (20 + 10 * number, 20))
    (tmp_path / "clipart_test.txt").write_text("clipart/zebra/clipart_3.jpg 2\nclipart/axe/clipart_1.jpg 0\n\n")
    return tmp_path


@pytest.mark.parametrize("folder", [".", "splits"])
def test_split_lists(domainnet: Path, folder: str) -> None:
    (domainnet / folder).mkdir(exist_ok=True)
    (domainnet / "clipart_test.txt").rename(domainnet / folder / "clipart_test.txt")
    loaded = data.load("domainnet", domainnet, domain="clipart")
    assert loaded.labels.tolist() == [2, 0]
    assert loaded.class_names == ("axe", "class 1", "zebra")
    assert loaded.images.shape == (2, 224, 224, 3)
    assert loaded.images[:][:, 9, 9, 0].tolist() == pytest.approx([100, 0], abs=2)


def test_all_images_need_no_list(domainnet: Path) -> None:
    everything = data.load("domainnet", domainnet, domain="clipart", split="all", size=32)
    assert everything.labels.tolist() == [0, 0, 1]
    assert everything.images.shape == (3, 32, 32, 3)


def test_all_images_have_the_labels_of_the_lists(tmp_path: Path, write_image: WriteImage) -> None:
    """The published lists order names by their letters: cello before cell_phone, t-shirt after trumpet."""
    listed = [
        "aircraft_carrier",
        "cello",
        "cell_phone",
        "tent",
        "The_Mona_Lisa",
        "tiger",
        "trumpet",
        "t-shirt",
        "zebra",
    ]
    for name in listed:
        write_image(tmp_path / "real" / name / "1.jpg")
    write_image(tmp_path / "__MACOSX" / "art" / "1.jpg")
    assert data.load("domainnet", tmp_path, domain="real", split="all").class_names == tuple(listed)


def test_damaged_lists(domainnet: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"clipart_train.txt is missing.*split='all'"):
        data.load("domainnet", domainnet, domain="clipart", split="train")
    with pytest.raises(ValueError, match="expected 'test', 'train' or 'all'"):
        data.load("domainnet", domainnet, domain="clipart", split="val")
    listing = domainnet / "clipart_test.txt"
    for content, message in [
        ("clipart/axe/clipart_1.jpg 0\nclipart/axe/clipart_2.jpg\n", "line 2 is 'clipart/axe/clipart_2.jpg'"),
        ("clipart/axe/clipart_1.jpg zero\n", "line 1 is"),
        ("", "is empty"),
    ]:
        listing.write_text(content)
        with pytest.raises(ValueError, match=message):
            data.load("domainnet", domainnet, domain="clipart")
    listing.write_text("clipart/axe/no.jpg 0\nclipart/bee/no.jpg 1\nclipart/axe/clipart_1.jpg 0")
    with pytest.raises(FileNotFoundError, match=r"no.jpg is missing and 1 more of the 3 files that .*clipart_test.txt"):
        data.load("domainnet", domainnet, domain="clipart")
