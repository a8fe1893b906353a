"""Read the data in a pickle without executing it.

``pickle.load`` calls the functions that a file names, so an untrusted file can run any program. This reader admits only
the opcodes of data, and replaces the named functions of numpy by records of the calls: containers, numbers, strings and
numeric numpy arrays become values, no function that a file names is imported or called, everything else is refused.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_RECONSTRUCT = {(f"numpy.{core}.multiarray", "_reconstruct") for core in ("core", "_core")}
_FROM_BUFFER = {(f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")}
_NDARRAY, _DTYPE, _ENCODE = ("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")
_NO_BYTES = {("__builtin__", "bytes"), ("builtins", "bytes")}  # how old protocols write b""
_KNOWN = _RECONSTRUCT | _FROM_BUFFER | _NO_BYTES | {_NDARRAY, _DTYPE, _ENCODE}

_OPCODES = frozenset(
    """PROTO FRAME STOP MARK NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT BINBYTES
    SHORT_BINBYTES BINBYTES8 BYTEARRAY8 STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE
    BINUNICODE8 EMPTY_DICT EMPTY_LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 LIST DICT APPEND APPENDS SETITEM SETITEMS
    PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET GLOBAL STACK_GLOBAL REDUCE BUILD""".split()  # noqa: SIM905
)


_PUT = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})


class UnsafePickleError(ValueError):
    """A pickle contains more than plain data."""


class _Allowance:
    """The bytes that the values of a pickle may take in all: no more than the file has.

    A file can name one long string many times; without a limit, a small one would fill the memory.
    """

    def __init__(self, size: int) -> None:
        self.left = size

    def take(self, content: Any) -> bytes:
        """Return a byte string, or the one that Latin-1 text stands for; everything else is refused."""
        if not isinstance(content, str | bytes | bytearray):
            raise UnsafePickleError(f"an array in it has {type(content).__name__} for its bytes.")
        self.left -= len(content)
        if self.left < 0:
            raise ValueError("its arrays have more bytes than the file")
        return content.encode("latin-1") if isinstance(content, str) else bytes(content)


class _Call:
    """A function that the pickle names, or a call of it with a later state; only recorded."""

    def __init__(self, name: tuple[str, str], allowance: _Allowance, arguments: tuple[Any, ...] = ()) -> None:
        self.name, self.allowance, self.arguments = name, allowance, arguments
        self.state: Any = None

    def __call__(self, *arguments: Any) -> _Call | bytes:
        # Byte strings, which may be keys, are converted at once.
        if self.name == _ENCODE and arguments and isinstance(arguments[0], str):
            return self.allowance.take(arguments[0])
        if self.name in _NO_BYTES and not arguments:
            return b""
        return _Call(self.name, self.allowance, arguments)

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _DataUnpickler(pickle.Unpickler):
    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), fix_imports=False, encoding="latin-1")
        self.allowance = _Allowance(2 * len(content))  # a byte string counts when it is read and in its array

    def find_class(self, module: str, name: str) -> _Call:
        """Return the record of a known name in place of the function or class."""
        if (module, name) not in _KNOWN:
            raise UnsafePickleError(f"it asks to call {module}.{name}.")
        return _Call((module, name), self.allowance)


def read_pickled_data(path: Path) -> Any:
    """Return the plain data in a pickle file; byte strings of Python 2 come back as ``str``, byte by byte (Latin-1).

    A file that names a function or class other than numpy's arrays raises UnsafePickleError.
    """
    content = path.read_bytes()
    try:
        for opcode, argument, _ in pickletools.genops(content):
            if opcode.name not in _OPCODES:
                raise UnsafePickleError(f"it uses the opcode {opcode.name}.")
            if opcode.name in _PUT and int(argument or 0) > len(
                content
            ):  # pickle would allocate a table of this length
                raise UnsafePickleError(f"it numbers a value {argument:,}.")
        try:
            value = _DataUnpickler(content).load()
        except (pickle.UnpicklingError, TypeError):
            reason = "it calls something that is not a name, or sets the state of something that is not an array."
            raise UnsafePickleError(reason) from None
        return _plain(value, {})
    except UnsafePickleError as error:
        raise UnsafePickleError(
            f"{path} is refused: {error} Only plain data is read, and nothing in it was executed."
        ) from None
    except (
        ValueError,
        IndexError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        MemoryError,
        OverflowError,
    ) as error:
        raise ValueError(f"{path} is damaged: {len(content):,} bytes are not a complete pickle ({error}).") from None


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
        return _array(value.allowance, _plain(content, done), kind, shape, "F" if fortran else "C")
    if value.name in _FROM_BUFFER:
        content, kind, shape, order = value.arguments
        return _array(value.allowance, _plain(content, done), kind, shape, order)
    raise UnsafePickleError(f"it asks to call {'.'.join(value.name)}.")


def _array(allowance: _Allowance, content: Any, kind: Any, shape: Any, order: str) -> NDArray[Any]:
    if not (isinstance(kind, _Call) and kind.name == _DTYPE and kind.arguments):
        raise UnsafePickleError("an array in it has no numpy type.")
    code = kind.arguments[0]
    if not isinstance(code, str | bytes):
        raise UnsafePickleError(f"an array in it has a {type(code).__name__} as its numpy type.")
    dtype = np.dtype(code if isinstance(code, str) else code.decode("ascii"))
    if dtype.kind not in "biuf":
        raise UnsafePickleError(f"an array in it has {dtype}, not numbers.")
    if isinstance(kind.state, tuple) and len(kind.state) > 1 and kind.state[1] == ">":
        dtype = dtype.newbyteorder(">")
    raw = allowance.take(content)
    if not isinstance(shape, tuple) or not all(type(side) is int and side >= 0 for side in shape):
        raise ValueError(f"an array has the shape {shape!r}")
    if math.prod(shape) * dtype.itemsize != len(raw):
        raise ValueError(f"an array of shape {tuple(shape)} has {len(raw)} bytes")
    return np.frombuffer(raw, dtype).reshape(shape, order="F" if order == "F" else "C")
