"""One call at a time: threads that share a method take turns."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class CallLock:
    """A re-entrant lock that belongs to one object: copies of the object, also through pickle, have their own."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __deepcopy__(self, memo: dict[int, Any]) -> CallLock:
        return CallLock()

    def __reduce__(self) -> tuple[type[CallLock], tuple[()]]:
        return CallLock, ()


class _Locked(Protocol):
    _lock: CallLock


S = TypeVar("S", bound=_Locked)


def one_at_a_time(function: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Let a method of a class wait until no other thread is in one of the methods with this decorator."""

    @wraps(function)
    def locked(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            return function(self, *args, **kwargs)

    return locked
