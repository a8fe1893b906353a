"""Workers keep the memory that they free, unless the environment configures malloc."""

from __future__ import annotations

import os
import resource
import sys
from ctypes import CDLL, c_int, c_size_t, c_void_p
from typing import Any

import pytest

from midway._workers import Task, Tell, run_in_workers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc")

BYTES = 20 << 20
BLOCKS = 10


class PageFaults(Task):
    """Page faults of ten blocks of 20 MB, used one after the other."""

    def run(self, memory: dict[str, Any], tell: Tell) -> int:
        libc = CDLL(None)
        libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = c_void_p, [c_size_t], [c_void_p]
        libc.memset.argtypes = [c_void_p, c_int, c_size_t]

        def use() -> None:
            block = libc.malloc(BYTES)
            libc.memset(block, 1, BYTES)
            libc.free(block)

        use()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(BLOCKS):
            use()
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def faults_in_a_worker() -> int:
    ((_, faults),) = run_in_workers([PageFaults()], jobs=1)
    assert isinstance(faults, int)
    return faults


def is_glibc() -> bool:
    return hasattr(CDLL(None), "gnu_get_libc_version")


@pytest.fixture(autouse=True)
def without_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("MALLOC_") or name == "GLIBC_TUNABLES":
            monkeypatch.delenv(name)


@pytest.mark.skipif(not is_glibc(), reason="glibc's malloc")
def test_a_worker_uses_blocks_again_without_page_faults() -> None:
    assert faults_in_a_worker() < 100


@pytest.mark.parametrize(
    ("name", "value"),
    [("MALLOC_MMAP_THRESHOLD_", str(1 << 20)), ("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=1048576")],
)
@pytest.mark.skipif(not is_glibc(), reason="glibc's malloc")
def test_the_environment_decides_if_it_configures_malloc(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    pages = BLOCKS * BYTES // os.sysconf("SC_PAGE_SIZE")
    assert faults_in_a_worker() > pages / 1024  # with huge pages a fault brings 512
