from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from midway import compare, data
from midway.data.lazy_images import as_rgb, fit
from midway.testing import tiny_network

WriteImage = Callable[..., Path]


def test_class_folders(tmp_path: Path, write_image: WriteImage) -> None:
    for number, path in enumerate(["dog/b.png", "cat/a.png", "dog/a.jpg", "cat/deep/c.PNG"]):
        write_image(tmp_path / path, 10 * number)
    (tmp_path / "cat" / "notes.txt").write_text("not an image")
    (tmp_path / "cat" / ".hidden.png").write_text("not an image")
    loaded = data.load("folder", tmp_path)
    assert loaded.class_names == ("cat", "dog")
    assert loaded.labels.tolist() == [0, 0, 1, 1]
    assert loaded.images.shape == (4, 16, 16, 3)
    assert loaded.images[:][:, 8, 8, 0].tolist() == [10, 30, 20, 0]


def test_a_folder_of_images_without_classes(tmp_path: Path, write_image: WriteImage) -> None:
    write_image(tmp_path / "holiday" / "1.png", 5)
    loaded = data.load("folder", tmp_path / "holiday")
    assert (loaded.class_names, loaded.labels.tolist(), loaded.labelled) == ((), [-1], False)
    assert repr(loaded) == "ImageSet('folder', 1 images of 16 x 16 x 3, unlabelled)"
    with pytest.raises(ValueError, match="no class folders, so classes= does not apply"):
        data.load("folder", tmp_path / "holiday", classes="imagenet")


def test_images_without_classes_are_no_benchmark(tmp_path: Path, write_image: WriteImage) -> None:
    write_image(tmp_path / "val" / "ILSVRC2012_val_00000001.JPEG")
    with pytest.raises(ValueError, match=r"has images but no class folders.*sort them into one folder per class"):
        data.load("imagenet", tmp_path)


def test_stray_folders_are_no_classes(tmp_path: Path, write_image: WriteImage) -> None:
    for name in ("__MACOSX", "n01", "n02"):
        write_image(tmp_path / name / "a.png")
    assert data.load("imagenet", tmp_path).class_names == ("n01", "n02")


def test_tiny_imagenet_as_published(tmp_path: Path, write_image: WriteImage) -> None:
    for number in range(3):
        write_image(tmp_path / "val" / "images" / f"val_{number}.JPEG", 50 * number, (64, 64))
    rows = ["val_2.JPEG\tn02\t0\t32\t44\t62", "val_0.JPEG\tn01\t0\t0\t9\t9", "val_1.JPEG\tn02\t0\t0\t9\t9"]
    (tmp_path / "val" / "val_annotations.txt").write_text("\n".join(rows) + "\n")
    loaded = data.load("folder", tmp_path)
    assert (loaded.labels.tolist(), loaded.class_names) == ([1, 0, 1], ("n01", "n02"))
    assert loaded.images[:][:, 0, 0, 0].tolist() == pytest.approx([100, 0, 50], abs=2)
    with pytest.raises(ValueError, match="unknown class folder 'n02'"):
        data.load("folder", tmp_path, classes=["n01"])
    (tmp_path / "val" / "val_annotations.txt").write_text("val_2.JPEG n02\n")
    with pytest.raises(ValueError, match="is not a list of 'file, class'"):
        data.load("folder", tmp_path)


def test_links_that_go_round_count_once(tmp_path: Path, write_image: WriteImage) -> None:
    write_image(tmp_path / "cat" / "a.png")
    (tmp_path / "cat" / "again").symlink_to(tmp_path / "cat")
    assert len(data.load("folder", tmp_path)) == 1


def test_splits(tmp_path: Path, write_image: WriteImage) -> None:
    write_image(tmp_path / "val" / "n01" / "a.JPEG", 9)
    write_image(tmp_path / "train" / "n01" / "a.JPEG", 7)
    assert data.load("imagenet", tmp_path).images[0][0, 0, 0] == 9
    assert data.load("imagenet", tmp_path, split="train").images[0][0, 0, 0] == 7
    assert len(data.load("imagenet", tmp_path / "val")) == 1
    (tmp_path / "val").rename(tmp_path / "test")
    assert data.load("imagenet", tmp_path).images[0][0, 0, 0] == 9
    (tmp_path / "train").rename(tmp_path.parent / "moved_train")
    with pytest.raises(FileNotFoundError, match="has test but no train folder"):
        data.load("imagenet", tmp_path, split="train")


def test_classes_fix_the_labels(tmp_path: Path, write_image: WriteImage) -> None:
    write_image(tmp_path / "n02" / "a.png")
    loaded = data.load("imagenet", tmp_path, classes=["n01", "n02", "n03"])
    assert (loaded.labels.tolist(), loaded.class_names) == ([1], ("n01", "n02", "n03"))
    with pytest.raises(ValueError, match="unknown class folder 'n02'"):
        data.load("imagenet", tmp_path, classes=["n01"])


@pytest.mark.parametrize("name", ["imagenet-c", "tiny-imagenet-c"])
@pytest.mark.parametrize("category", ["", "weather", "Tiny-ImageNet-C"])
def test_corruption_folders(tmp_path: Path, write_image: WriteImage, name: str, category: str) -> None:
    for severity in (1, 5):
        for wnid in ("n01", "n02"):
            write_image(tmp_path / category / "fog" / str(severity) / wnid / "v.JPEG", 40 * severity, (64, 64))
    loaded = data.load(name, tmp_path, corruption="fog", severity=5)
    assert loaded.images.shape == (2, 64, 64, 3)
    assert loaded.images[:].min() == 200
    assert loaded.labels.tolist() == [0, 1]
    assert loaded.name == f"{name}:fog"
    with pytest.raises(FileNotFoundError, match=r"fog.3 is missing, the folder has severities 1, 5"):
        data.load(name, tmp_path, corruption="fog", severity=3)
    with pytest.raises(ValueError, match=r"unknown corruption 'frog': did you mean 'fog'\?.*Zenodo record"):
        data.load(name, tmp_path, corruption="frog")
    with pytest.raises(ValueError, match="needs corruption=, one of fog"):
        data.load(name, tmp_path)


def test_empty_and_missing_folders(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none is missing.*image-net.org"):
        data.load("imagenet", tmp_path / "none")
    (tmp_path / "cat").mkdir()
    with pytest.raises(FileNotFoundError, match="has no images, neither in it nor in class folders"):
        data.load("folder", tmp_path)
    with pytest.raises(FileNotFoundError, match="is empty, expected CORRUPTION/SEVERITY"):
        data.load("imagenet-c", tmp_path / "cat", corruption="fog")
    with pytest.raises(ValueError, match="list of paths is empty"):
        data.LazyImages([])


def test_one_size_is_kept_and_many_become_224(tmp_path: Path, write_image: WriteImage) -> None:
    paths = [write_image(tmp_path / f"{i}.png", i, (40, 30)) for i in range(3)]
    assert data.LazyImages(paths).shape == (3, 30, 40, 3)
    paths.append(write_image(tmp_path / "odd.png", 9, (300, 250)))
    lazy = data.LazyImages(paths)
    assert lazy.shape == (4, 224, 224, 3)
    assert lazy[:].shape == (4, 224, 224, 3)
    assert data.LazyImages(paths, 48)[[3]].shape == (1, 48, 48, 3)
    with pytest.raises(ValueError, match="size is 0"):
        data.LazyImages(paths, 0)


def test_the_imagenet_protocol(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(0, 256, (300, 500, 3), dtype=np.uint8))
    expected = image.resize((427, 256), Image.Resampling.BILINEAR).crop((102, 16, 326, 240))  # short side, centre
    np.testing.assert_array_equal(fit(image, (224, 224)), np.asarray(expected))


@pytest.mark.parametrize("index", [slice(1, 3), [2, 0, 2], np.array([True, False, True]), slice(None, None, -1)])
@pytest.mark.parametrize("workers", [1, 4])
def test_picking_is_numpys(tmp_path: Path, write_image: WriteImage, index: object, workers: int) -> None:
    lazy = data.LazyImages([write_image(tmp_path / f"{i}.png", i) for i in range(3)], workers=workers)
    eager = np.stack([lazy[i] for i in range(3)])
    np.testing.assert_array_equal(lazy[index], eager[index])  # type: ignore[call-overload]
    assert lazy[-1][0, 0, 0] == 2
    assert lazy[[]].shape == (0, 16, 16, 3)
    with pytest.raises(IndexError):
        lazy[[3]]


@pytest.mark.parametrize(
    ("mode", "value"),
    [("L", 80), ("RGBA", 80), ("P", 80), ("I;16", 80 * 257), ("1", 255), ("I", 80), ("F", 80 / 255)],
)
def test_every_mode_becomes_rgb(mode: str, value: float) -> None:
    if mode == "P":
        image = Image.new("RGB", (8, 8), (80, 80, 80)).quantize()
        image.info["transparency"] = b"\x00" * 4
    elif mode == "I;16":
        image = Image.fromarray(np.full((8, 8), value, np.uint16))
    else:
        image = Image.new(mode, (8, 8), (80, 80, 80, 10) if mode == "RGBA" else value)
    rgb = as_rgb(image)
    assert rgb.mode == "RGB"
    assert rgb.getpixel((0, 0)) == ((255,) * 3 if mode == "1" else (80,) * 3)
    if mode == "F":
        with pytest.raises(ValueError, match="floating-point values from 80 to 80, not 0 to 1"):
            as_rgb(Image.new("F", (8, 8), 80))


def test_damaged_images_are_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    paths = [tmp_path / f"{name}.jpg" for name in ("good", "truncated", "noise", "empty", "gone")]
    for path in paths[:2]:
        Image.fromarray(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(path)
    paths[1].write_bytes(paths[1].read_bytes()[:900])
    paths[2].write_bytes(rng.bytes(500))
    paths[3].touch()
    lazy = data.LazyImages(paths, 64)
    assert lazy[[0]].shape == (1, 64, 64, 3)
    for place, message in [
        (1, "truncated.jpg is damaged or truncated .900 bytes"),
        (2, "noise.jpg is not an image that can be read .500 bytes"),
        (3, "empty.jpg is not an image that can be read .0 bytes"),
    ]:
        with pytest.raises(ValueError, match=message):
            lazy[[0, place]]
    with pytest.raises(FileNotFoundError, match=r"gone.jpg is missing"):
        lazy[[0, 4]]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with a name")
@pytest.mark.parametrize("size", [None, 8])
def test_what_is_not_a_file_is_refused_and_not_waited_for(tmp_path: Path, size: int | None) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "loop.png").symlink_to("loop.png")
    images = data.LazyImages([tmp_path / "pipe.png", tmp_path / "loop.png"], size)
    with pytest.raises(ValueError, match=r"pipe\.png is damaged or truncated .*it is not a file"):
        images[:1]
    with pytest.raises(ValueError, match=r"loop\.png is damaged or truncated .*symbolic links"):
        images[1:]


def test_an_image_of_too_many_pixels_is_refused(tmp_path: Path) -> None:
    Image.new("1", (20_000, 20_000)).save(tmp_path / "large.png")
    with pytest.raises(ValueError, match=r"large\.png is damaged or truncated .*exceeds limit"):
        data.LazyImages([tmp_path / "large.png"])[:1]


def test_classes_as_text(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (8, 8)).save(tmp_path / name / "0.png")
    by_index = data.load("folder", tmp_path, classes="2,0")
    assert by_index.labels.tolist() == [2, 0]
    assert data.load("folder", tmp_path, classes="dog, cat, hen").labels.tolist() == [1, 0]
    with pytest.raises(ValueError, match="give classes=, the names of all 4 classes in the order of logits"):
        compare(tiny_network(), tmp_path, "bn", classes="cat,dog", progress=False)


def test_images_beside_class_folders_are_not_dropped_silently(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    for path in (tmp_path / "cat" / "0.png", tmp_path / "1.png"):
        Image.new("RGB", (8, 8)).save(path)
    with pytest.raises(ValueError, match=r"has 1 images beside its class folders, such as 1.png: move them"):
        data.load("folder", tmp_path)


@pytest.mark.parametrize("odd", [0, 7, 19])
def test_one_image_of_another_size_does_not_change_the_others(tmp_path: Path, odd: int) -> None:
    for index in range(20):
        Image.new("RGB", (33, 33) if index == odd else (32, 32)).save(tmp_path / f"{index:02}.png")
    assert data.load("folder", tmp_path).images.shape == (20, 32, 32, 3)
    for index in range(4):
        Image.new("RGB", (40, 20)).save(tmp_path / f"{index:02}.png")
    assert data.load("folder", tmp_path).images.shape == (20, 224, 224, 3)


def test_an_image_of_somebody_else_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "mine.png")
    images = data.LazyImages([tmp_path / "mine.png"], 8)

    def refuse(path: object) -> Image.Image:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Image, "open", refuse)
    with pytest.raises(PermissionError, match=r"mine.png cannot be read by this user: change its permissions"):
        images[[0]]
