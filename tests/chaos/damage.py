"""Twenty ways to damage a file, and the readers of every file that the package reads."""

from __future__ import annotations

import random
from collections.abc import Callable

Damage = Callable[[bytes, random.Random], bytes]


def _flip(content: bytes, position: int) -> bytes:
    damaged = bytearray(content)
    if damaged:
        damaged[position % len(damaged)] ^= 1 << (position % 7)
    return bytes(damaged)


def _cut(content: bytes, chance: random.Random) -> tuple[bytes, bytes, bytes]:
    """Split a file into what is before, in and after a block in its middle."""
    first = chance.randrange(max(1, len(content)))
    last = min(len(content), first + chance.randrange(1, 2 + len(content) // 8))
    return content[:first], content[first:last], content[last:]


WAYS: dict[str, Damage] = {
    "empty": lambda content, chance: b"",
    "one byte": lambda content, chance: content[:1],
    "first half": lambda content, chance: content[: len(content) // 2],
    "without its last byte": lambda content, chance: content[:-1],
    "without its first byte": lambda content, chance: content[1:],
    "cut anywhere": lambda content, chance: content[: chance.randrange(max(1, len(content)))],
    "twice": lambda content, chance: content + content,
    "zeros": lambda content, chance: bytes(len(content)),
    "all ones": lambda content, chance: b"\xff" * len(content),
    "random bytes": lambda content, chance: chance.randbytes(len(content)),
    "a flipped bit at the start": lambda content, chance: _flip(content, chance.randrange(64)),
    "a flipped bit in the middle": lambda content, chance: _flip(content, len(content) // 2),
    "a flipped bit anywhere": lambda content, chance: _flip(content, chance.randrange(max(1, len(content)))),
    "a block of zeros": lambda content, chance: (parts := _cut(content, chance))[0] + bytes(len(parts[1])) + parts[2],
    "a block missing": lambda content, chance: (parts := _cut(content, chance))[0] + parts[2],
    "a block twice": lambda content, chance: (parts := _cut(content, chance))[0] + 2 * parts[1] + parts[2],
    "garbage inside": lambda content, chance: (
        (parts := _cut(content, chance))[0] + chance.randbytes(40) + parts[1] + parts[2]
    ),
    "garbage at the end": lambda content, chance: content + chance.randbytes(40),
    "another file": lambda content, chance: b"null\n",
    "deep brackets": lambda content, chance: b"[" * 100_000 + b"]" * 100_000 + b"\n",
}
assert len(WAYS) == 20
