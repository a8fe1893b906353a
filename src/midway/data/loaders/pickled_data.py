"""Read the data in a pickle without executing it.

``pickle.load`` calls the functions that a file names, so an untrusted file can run any program. This module interprets
the opcodes itself: containers, numbers, strings and numeric numpy arrays become values, no function is ever imported or
called, and everything else is refused.
"""

from __future__ import annotations

import math
import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_RECONSTRUCT = {(f"numpy.{core}.multiarray", "_reconstruct") for core in ("core", "_core")}
_FROM_BUFFER = {(f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")}
_NDARRAY, _DTYPE, _ENCODE = ("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")
_NO_BYTES = {("__builtin__", "bytes"), ("builtins", "bytes")}  # how old protocols write b""
_KNOWN = _RECONSTRUCT | _FROM_BUFFER | _NO_BYTES | {_NDARRAY, _DTYPE, _ENCODE}

_LITERALS = frozenset(
    """INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8
    STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8""".split()  # noqa: SIM905, twenty names in two lines
)


class UnsafePickleError(ValueError):
    """A pickle contains more than plain data."""


@dataclass(frozen=True)
class _Name:
    """A function or class that the pickle names; never imported."""

    module: str
    name: str


@dataclass
class _Call:
    """A call that the pickle requests and that is only recorded: the function's name, its arguments, a later state."""

    name: tuple[str, str]
    arguments: tuple[Any, ...]
    state: Any = field(default=None)


class _Mark:
    """The beginning of a group on the stack."""


_NEW: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "MARK": _Mark,
}
_FROM_GROUP: dict[str, Callable[[list[Any]], Any]] = {
    "TUPLE": tuple,
    "LIST": list,
    "DICT": lambda items: dict(zip(items[::2], items[1::2], strict=True)),
}


def read_pickled_data(path: Path) -> Any:
    """Return the plain data in a pickle file: containers, numbers, strings and numeric numpy arrays.

    Byte strings of Python 2 come back as ``str``, byte by byte (Latin-1).

    Raises:
        UnsafePickleError: The file names a function or class other than numpy's arrays; nothing was executed.
        ValueError: The file is truncated or not a pickle.
    """
    content = path.read_bytes()
    try:
        return _plain(_interpret(content), {})
    except UnsafePickleError as error:
        raise UnsafePickleError(
            f"{path} is refused: {error} Only plain data is read, and nothing in it was executed."
        ) from None
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, StopIteration, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {len(content):,} bytes are not a complete pickle ({error}).") from None


def _interpret(content: bytes) -> Any:
    stack: list[Any] = []
    memo: dict[int, Any] = {}

    def group() -> list[Any]:
        start = next(index for index in range(len(stack) - 1, -1, -1) if isinstance(stack[index], _Mark))
        values = stack[start + 1 :]
        del stack[start:]
        return values

    argument: Any
    for opcode, argument, _ in pickletools.genops(content):
        code = opcode.name
        if code in _LITERALS:
            stack.append(argument)
        elif code in _NEW:
            stack.append(_NEW[code]())
        elif code in _FROM_GROUP:
            stack.append(_FROM_GROUP[code](group()))
        elif code in ("PUT", "BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif code == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif code in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif code in ("TUPLE1", "TUPLE2", "TUPLE3"):
            count = int(code[-1])
            stack[-count:] = [tuple(stack[-count:])]
        elif code in ("APPEND", "APPENDS"):
            values = group() if code == "APPENDS" else [stack.pop()]
            stack[-1].extend(values)
        elif code in ("SETITEM", "SETITEMS"):
            items = group() if code == "SETITEMS" else [stack.pop(), stack.pop()][::-1]
            stack[-1].update(zip(items[::2], items[1::2], strict=True))
        elif code == "GLOBAL":
            stack.append(_known(*argument.split(" ", 1)))
        elif code == "STACK_GLOBAL":
            name = stack.pop()
            stack.append(_known(stack.pop(), name))
        elif code == "REDUCE":
            arguments, named = stack.pop(), stack.pop()
            if not isinstance(named, _Name):
                raise UnsafePickleError("it calls something that is not a name.")
            stack.append(_record((named.module, named.name), tuple(arguments)))
        elif code == "BUILD":
            state = stack.pop()
            if not isinstance(stack[-1], _Call):
                raise UnsafePickleError("it sets the state of something that is not an array.")
            stack[-1].state = state
        elif code == "STOP":
            return stack.pop()
        elif code not in ("PROTO", "FRAME"):
            raise UnsafePickleError(f"it uses the opcode {code}.")
    raise ValueError("it has no end")


def _known(module: str, name: str) -> _Name:
    if (module, name) not in _KNOWN:
        raise UnsafePickleError(f"it asks to call {module}.{name}.")
    return _Name(module, name)


def _record(name: tuple[str, str], arguments: tuple[Any, ...]) -> _Call | bytes:
    """Record a call; byte strings, which may be keys, are converted at once."""
    if name == _ENCODE and isinstance(arguments[0], str):
        return arguments[0].encode("latin-1")
    if name in _NO_BYTES and not arguments:
        return b""
    return _Call(name, arguments)


def _plain(value: Any, done: dict[int, Any]) -> Any:
    """Convert recorded calls in a value to arrays; a value that occurs twice is converted once."""
    if not isinstance(value, dict | list | tuple | _Call):
        return value
    if id(value) not in done:
        done[id(value)] = _convert(value, done)
    return done[id(value)]


def _convert(value: Any, done: dict[int, Any]) -> Any:
    if isinstance(value, dict):
        return {_plain(key, done): _plain(content, done) for key, content in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_plain(content, done) for content in value)
    if value.name in _RECONSTRUCT:
        _, shape, kind, fortran, content = value.state
        return _array(_plain(content, done), kind, shape, "F" if fortran else "C")
    if value.name in _FROM_BUFFER:
        content, kind, shape, order = value.arguments
        return _array(_plain(content, done), kind, shape, order)
    raise UnsafePickleError(f"it asks to call {'.'.join(value.name)}.")


def _array(content: Any, kind: Any, shape: Any, order: str) -> NDArray[Any]:
    if not (isinstance(kind, _Call) and kind.name == _DTYPE):
        raise UnsafePickleError("an array in it has no numpy type.")
    code = kind.arguments[0]
    dtype = np.dtype(code if isinstance(code, str) else bytes(code).decode("ascii"))
    if dtype.kind not in "biuf":
        raise UnsafePickleError(f"an array in it has {dtype}, not numbers.")
    if isinstance(kind.state, tuple) and len(kind.state) > 1 and kind.state[1] == ">":
        dtype = dtype.newbyteorder(">")
    raw = content.encode("latin-1") if isinstance(content, str) else bytes(content)
    if math.prod(shape) * dtype.itemsize != len(raw):
        raise ValueError(f"an array of shape {tuple(shape)} has {len(raw)} bytes")
    return np.frombuffer(raw, dtype).reshape(shape, order="F" if order == "F" else "C")
