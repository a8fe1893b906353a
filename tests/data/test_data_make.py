from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from midway import data
from midway._files import FolderLock, FolderTakenError
from midway.data import ImageSet, corrupt, make_corrupted
from midway.data.manifest import Manifest


@pytest.fixture(scope="module")
def clean() -> ImageSet:
    return data.load("cifar10-mini").first(6)


def test_published_layout_is_read_back(tmp_path: Path, clean: ImageSet) -> None:
    out = make_corrupted(clean, tmp_path / "set", corruptions=["fog", "jpeg_compression"], seed=4, jobs=1)
    assert sorted(path.name for path in out.iterdir()) == [
        "fog.npy",
        "jpeg_compression.npy",
        "labels.npy",
        "manifest.json",
    ]
    images, labels = np.load(out / "fog.npy"), np.load(out / "labels.npy")
    assert images.shape == (30, 32, 32, 3)
    assert images.dtype == labels.dtype == np.uint8
    assert labels.tolist() == clean.labels.tolist() * 5
    for severity in range(1, 6):
        loaded = data.load("cifar10-c", out, corruption="fog", severity=severity)
        expected = corrupt(clean.images[:], "fog", severity=severity, seed=4, indices=np.arange(6))
        np.testing.assert_array_equal(loaded.images[:], expected)
        np.testing.assert_array_equal(loaded.labels, clean.labels)
    content = json.loads((out / "manifest.json").read_text())
    assert content["settings"]["seed"] == 4
    assert content["settings"]["severities"] == [1, 2, 3, 4, 5]
    assert content["midway"]
    assert set(content["files"]) == {"fog.npy", "jpeg_compression.npy", "labels.npy"}


def test_some_severities_are_found_by_the_manifest(tmp_path: Path, clean: ImageSet) -> None:
    out = make_corrupted(clean, tmp_path, corruptions=["contrast"], severities=[5, 3], jobs=1)
    assert np.load(out / "contrast.npy").shape == (12, 32, 32, 3)
    for severity in (3, 5):
        loaded = data.load("cifar10-c", out, corruption="contrast", severity=severity)
        np.testing.assert_array_equal(loaded.images[:], corrupt(clean.images[:], "contrast", severity=severity))
    with pytest.raises(ValueError, match="has severities 3, 5, not 4"):
        data.load("cifar10-c", out, corruption="contrast", severity=4)


def test_finished_files_are_skipped_and_damaged_ones_made_again(tmp_path: Path, clean: ImageSet) -> None:
    wanted = ["contrast", "brightness"]
    make_corrupted(clean, tmp_path, corruptions=wanted, jobs=1)
    whole = (tmp_path / "contrast.npy").read_bytes()
    (tmp_path / "contrast.npy").write_bytes(whole[:-1] + b"?")
    untouched = (tmp_path / "brightness.npy").stat().st_ino
    begun: list[str] = []
    make_corrupted(
        clean,
        tmp_path,
        corruptions=[*wanted, "saturate"],
        jobs=1,
        progress=lambda task, done, total: begun.append(task) if done == 0 else None,
    )
    assert begun == ["contrast", "saturate"]
    assert (tmp_path / "contrast.npy").read_bytes() == whole
    assert (tmp_path / "brightness.npy").stat().st_ino == untouched
    manifest = Manifest.read(tmp_path)
    assert manifest is not None
    assert manifest.problem(tmp_path, deep=True) == ""


def test_an_interrupted_file_never_has_its_name(
    tmp_path: Path, clean: ImageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midway.data.make.CHUNK_PIXELS", 2048)  # two images

    def stop(task: str, done: int, total: int | None) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_corrupted(clean, tmp_path, corruptions=["fog"], jobs=1, progress=stop)
    assert not (tmp_path / "fog.npy").exists()
    seen: list[int] = []
    make_corrupted(clean, tmp_path, corruptions=["fog"], jobs=1, progress=lambda task, done, total: seen.append(done))
    assert seen == [*range(0, 31, 2), 30]
    expected = corrupt(clean.images[:], "fog", severity=5, indices=np.arange(6))
    np.testing.assert_array_equal(np.load(tmp_path / "fog.npy")[24:], expected)


def test_other_settings_and_other_content_are_refused(tmp_path: Path, clean: ImageSet) -> None:
    make_corrupted(clean, tmp_path / "set", corruptions=["contrast"], jobs=1)
    with pytest.raises(ValueError, match="was written with seed 0, not 1"):
        make_corrupted(clean, tmp_path / "set", seed=1)
    with pytest.raises(ValueError, match="was written from other images"):
        make_corrupted(clean.first(5), tmp_path / "set")
    with pytest.raises(ValueError, match="was written with severities"):
        make_corrupted(clean, tmp_path / "set", severities=[5])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "fog.npy").touch()
    with pytest.raises(ValueError, match="has other files and no manifest"):
        make_corrupted(clean, tmp_path / "full")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"corruptions": ["frog"]}, "did you mean 'fog'"),
        ({"corruptions": []}, "nothing to write"),
        ({"severities": [0]}, "severity must be an integer from 1 to 5, got 0"),
        ({"severities": []}, "nothing to write"),
        ({"jobs": 0}, "jobs is 0"),
        ({"layout": "bmp"}, "layout is 'bmp'"),
    ],
)
def test_wrong_arguments_write_nothing(
    tmp_path: Path, clean: ImageSet, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make_corrupted(clean, tmp_path / "set", **arguments)  # type: ignore[arg-type]
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize(("layout", "suffix"), [(None, ".JPEG"), ("png", ".png")])
def test_folders_become_folders(
    tmp_path: Path, write_image: Callable[..., Path], layout: str | None, suffix: str
) -> None:
    for name, colour in (("cat/a.png", 90), ("cat/b.png", 120), ("dog/a.png", 60)):
        write_image(tmp_path / "clean" / name, colour, (48, 48))
    source = data.load("folder", tmp_path / "clean")
    out = make_corrupted(
        source,
        tmp_path / "out",
        corruptions=["brightness"],
        severities=[2, 5],
        jobs=1,
        layout=layout,  # type: ignore[arg-type]
    )
    files = sorted(path.relative_to(out).as_posix() for path in out.rglob(f"*{suffix}"))
    assert files == [
        f"brightness/{severity}/{name}{suffix}" for severity in (2, 5) for name in ("cat/a", "cat/b", "dog/a")
    ]
    loaded = data.load("imagenet-c", out, corruption="brightness", severity=5)
    assert loaded.class_names == ("cat", "dog")
    expected = corrupt(source.images[:], "brightness", severity=5, indices=np.arange(3))
    np.testing.assert_allclose(loaded.images[:].astype(int), expected.astype(int), atol=0 if layout else 2)
    with Image.open(out / files[0]) as image:
        assert image.format == ("PNG" if layout else "JPEG")
    (out / files[0]).write_bytes(b"damaged")
    make_corrupted(
        source,
        out,
        corruptions=["brightness"],
        severities=[2, 5],
        jobs=1,
        layout=layout,  # type: ignore[arg-type]
    )
    assert (out / files[0]).stat().st_size > 100


def test_folders_keep_the_labels_of_their_source(tmp_path: Path) -> None:
    images = np.full((2, 32, 32, 3), 90, np.uint8)
    source = ImageSet(images, np.array([2, 0]), ("dog", "cat", "bird"), "toy")
    out = make_corrupted(source, tmp_path / "out", corruptions=["fog"], severities=[1], jobs=1, layout="png")
    loaded = data.load("imagenet-c", out, corruption="fog", severity=1)
    assert loaded.class_names == source.class_names  # also the one that has no image
    assert sorted(loaded.labels.tolist()) == [0, 2]
    twice = ImageSet(images, np.array([0, 1]), ("crane", "crane"), "toy")
    with pytest.raises(ValueError, match="two classes have the name 'crane'"):
        make_corrupted(twice, tmp_path / "never", layout="png")
    assert not (tmp_path / "never").exists()


def test_two_writers_do_not_share_a_folder(tmp_path: Path, clean: ImageSet) -> None:
    with FolderLock(tmp_path / "set"), pytest.raises(FolderTakenError, match=r"another process \(\d+\) is writing to"):
        make_corrupted(clean, tmp_path / "set", corruptions=["contrast"], jobs=1)
    make_corrupted(clean, tmp_path / "set", corruptions=["contrast"], jobs=1)


def test_names_that_collide_are_numbered(tmp_path: Path, write_image: Callable[..., Path]) -> None:
    for name in ("cat/a.png", "cat/a.jpg"):
        write_image(tmp_path / "clean" / name, 50, (32, 32))
    out = make_corrupted(
        data.load("folder", tmp_path / "clean"), tmp_path / "out", corruptions=["contrast"], severities=[1], jobs=1
    )
    assert sorted(path.name for path in out.rglob("*.JPEG")) == ["00000000.JPEG", "00000001.JPEG"]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_killed_run_is_continued_and_leaves_no_workers(tmp_path: Path) -> None:
    """Two worker processes, the parent killed after the first file: the same call finishes with the same bytes."""
    out = tmp_path / "set"
    script = tmp_path / "script.py"
    script.write_text(
        "from midway import data\n"
        "if __name__ == '__main__':\n"
        f"    data.make_corrupted(data.load('cifar10-mini'), {str(out)!r}, severities=[5], jobs=2,\n"
        "        corruptions=['contrast', 'glass_blur', 'elastic_transform', 'snow', 'frost'])\n"
    )
    process = subprocess.Popen([sys.executable, str(script)])
    deadline = time.monotonic() + 600
    while not (out / "contrast.npy").exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.005)
    workers = children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    manifest = Manifest.read(out)
    assert manifest is not None
    assert not (out / "frost.npy").exists()
    mini = data.load("cifar10-mini")
    make_corrupted(mini, out, corruptions=["contrast", "glass_blur"], severities=[5], jobs=1)
    for corruption in ("contrast", "glass_blur"):
        loaded = data.load("cifar10-c", out, corruption=corruption)
        np.testing.assert_array_equal(
            loaded.images[100:110], corrupt(mini.images[100:110], corruption, indices=range(100, 110))
        )
    assert len(workers) >= 2
    deadline = time.monotonic() + 600
    while (left := [worker for worker in workers if parent_of(worker) is not None]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []


def parent_of(process: int) -> int | None:
    """The parent of a running process; None if it has ended."""
    try:
        state, parent = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return None
    return None if state == "Z" else int(parent)


def children(parent: int) -> list[int]:
    processes = [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]
    return [process for process in processes if parent_of(process) == parent]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small disk can only be mounted by root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_refused_before_anything_is_written(small_disk: Path) -> None:
    arguments = ["cifar10-c", "--from", "cifar10-mini", "--corruption", "contrast", "--jobs", "2"]
    command = [sys.executable, "-m", "midway", "data", "make", *arguments, "--out", str(small_disk / "set")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 1  # and not -7, SIGBUS
    assert "cifar10-mini needs 36.9 MB in" in done.stderr
    assert "1.0 MB are free: free some space" in done.stderr
    assert done.stderr.count("\n") == 1
    assert [path.name for path in (small_disk / "set").iterdir()] == ["manifest.json"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_disk_that_others_fill_ends_in_one_sentence(
    small_disk: Path, clean: ImageSet, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (small_disk / "other").write_bytes(bytes(970_000))
    monkeypatch.setattr("midway.data.make.check_space", lambda *_: None)
    with pytest.raises(OSError, match=r"No space left on device: '.*/\.contrast\.npy\.part'"):
        make_corrupted(clean, small_disk / "set", corruptions=["contrast"], jobs=jobs)
    assert sorted(path.name for path in (small_disk / "set").iterdir()) == ["labels.npy", "manifest.json"]
    (small_disk / "other").unlink()
    out = make_corrupted(clean, small_disk / "set", corruptions=["contrast"], jobs=1)
    np.testing.assert_array_equal(
        data.load("cifar10-c", out, corruption="contrast", severity=5).images[:],
        corrupt(clean.images[:], "contrast", severity=5),
    )


def test_workers_that_die_while_they_start_end_it_with_one_sentence(tmp_path: Path) -> None:
    """A worker that dies before it reads its task must not leave the parent blocked in writing to it."""
    (tmp_path / "sitecustomize.py").write_text("import os, sys\nif '--multiprocessing-fork' in sys.argv: os._exit(9)\n")
    arguments = ["cifar10-c", "--from", "cifar10-mini", "--corruption", "contrast", "--jobs", "2"]
    command = [sys.executable, "-m", "midway", "data", "make", *arguments, "--out", str(tmp_path / "set")]
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, check=False, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 1
    assert "4 worker processes in a row died before they began to work" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "set").glob(".*"))


def test_what_a_killed_call_left_is_removed(tmp_path: Path, clean: ImageSet) -> None:
    for name in (".source", ".fog.npy.part", ".manifest.json.0123abcd.partial"):
        (tmp_path / name).write_bytes(b"left")
    make_corrupted(clean, tmp_path, corruptions=["contrast"], severities=[1], jobs=1)
    assert not list(tmp_path.glob(".*"))
