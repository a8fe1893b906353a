"""Lists of classes, splits and images, checksums and archives: what is wrong in them is refused with their name."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from chaos.damage import WAYS
from chaos.listings import listing_readers

NUMBERS = (b"99999999999", b"9" * 30, b"9" * 5000)
"""Indices of classes for which there is no memory, no integer of 64 bits, and no integer at all."""


def with_number(content: bytes, number: bytes) -> bytes:
    for last in (b" 3\n", b" 1\n", b'"1"'):
        if last in content:
            return content.replace(last, last.replace(last[1:2], number))
    return content


KINDS = (
    "list of classes (.txt)",
    "list of classes (.json)",
    "split list of DomainNet",
    "annotations of Tiny-ImageNet",
    "checksum of weights",
    "archive (.tar.gz)",
)


def test_every_kind_is_tried(tmp_path: Path) -> None:
    assert tuple(listing_readers(tmp_path)) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_named_or_read(kind: str, tmp_path: Path) -> None:
    path, read = listing_readers(tmp_path)[kind]
    whole = path.read_bytes()
    damaged = [way(whole, random.Random(seed)) for way in WAYS.values() for seed in range(2)]
    damaged += [with_number(whole, number) for number in NUMBERS]
    damaged += [whole.replace(b"dog", other) for other in (b"d\xf6g", b"d\0g", b"\\ud800")]
    damaged += [b'[["a"], ["b"]]', b'{"0": [], "1": []}', b'{"0": null, "1": null}', b'{"cat": {"a": 1}}', b"[1e999]"]
    refused: list[str] = []
    for content in damaged:
        path.write_bytes(content)
        try:
            read()
        except (ValueError, OSError) as error:
            refused.append(str(error).strip())
    assert len(refused) > len(damaged) / 4
    assert all(path.name in reason and "\n" not in reason for reason in refused)
