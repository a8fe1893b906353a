"""Connections to a Ray cluster: quick answers if nobody listens, the head dies or a token is missing."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeVar

from midway._errors import shorten_error

T = TypeVar("T")

CONNECT_SECONDS = 5.0
"""How long a head may take to accept a connection."""

CHECK_SECONDS, FAILED_CHECKS = 2.0, 3
"""Interval at which the head is asked whether it is alive, and after how many failures in a row it counts as dead."""

_CLUSTERS = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # despite its name it decides on every system


class HeadLostError(ValueError):
    """The head of the Ray cluster no longer answers."""


def connect(ray: ModuleType, address: str | None) -> None:
    """Connect to a cluster, or start one for this machine alone if there is no address."""
    if address not in (None, "auto", "local"):
        _check_listening(str(address))
    handler = signal.getsignal(signal.SIGTERM)
    refused: type[Exception] = getattr(ray.exceptions, "AuthenticationError", ConnectionError)
    try:
        with _on_loopback(ray) if address in (None, "local") else _as_it_is():
            ray.init(address=address or "local", log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    except (refused, ConnectionError, ValueError, RuntimeError) as error:
        if address in (None, "auto", "local"):
            raise ValueError(f"no Ray cluster answers ({shorten_error(error)}): start one with `ray start`.") from error
        raise ValueError(
            f"a process listens at '{address}', but it does not accept this one ({shorten_error(error)}): if the "
            "cluster has a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH); otherwise "
            "check that it is the head of a Ray cluster of the same version."
        ) from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray replaces it, and midway would not stop in order


@contextmanager
def _on_loopback(ray: ModuleType) -> Iterator[None]:
    """Let a new cluster listen on the loopback interface alone: it is for this machine."""
    constants = ray._private.ray_constants
    before, enabled = os.environ.get(_CLUSTERS), constants.ENABLE_RAY_CLUSTER
    os.environ[_CLUSTERS], constants.ENABLE_RAY_CLUSTER = "0", False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = enabled
        if before is None:
            del os.environ[_CLUSTERS]
        else:
            os.environ[_CLUSTERS] = before


@contextmanager
def _as_it_is() -> Iterator[None]:
    yield


def _check_listening(address: str) -> None:
    """Raise within seconds if nobody listens at an address: Ray itself tries for two minutes, then ends the process."""
    _, at, place = address.rpartition("@")
    if at:  # not shown: it may contain a password
        raise ValueError(
            f"the address of the Ray cluster at '{place}' has a login, which Ray does not use: write HOST:PORT and "
            "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN if the cluster has a token."
        )
    host, _, port = address.partition("://")[2].rpartition(":") if "://" in address else address.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"'{address}' is not an address of a Ray cluster: write HOST:PORT, or auto.")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise ValueError(
            f"no Ray cluster answers at '{address}' ({error.strerror or error}): start one with `ray start --head`, or "
            "correct the address."
        ) from error


class HeadWatch:
    """Asks the head of the cluster from time to time whether it is alive."""

    def __init__(self, ray: ModuleType) -> None:
        self.address = str(ray.get_runtime_context().gcs_address)
        self._next, self._failures = 0.0, 0

    def answers(self) -> bool:
        """Return whether the head answers now; raise HeadLostError if it has not answered several times.

        A question to a dead head blocks for a minute within Ray, so this is called before each.
        """
        if self._failures and time.monotonic() < self._next:
            return False
        host, _, port = self.address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=CHECK_SECONDS).close()
            self._failures = 0
        except OSError:
            self._failures += 1
        if self._failures >= FAILED_CHECKS:
            raise HeadLostError(
                f"the head of the Ray cluster at {self.address} no longer answers. What is finished is stored: start "
                "the cluster again, then run the same command."
            )
        self._next = time.monotonic() + CHECK_SECONDS
        return not self._failures

    def ask(self, question: Callable[..., T], *args: Any, **options: Any) -> T:
        """Return the answer to a question that Ray may ask the head; raise HeadLostError if the head dies meanwhile.

        Ray blocks in it for a minute and then ends the process, so a thread asks.
        """
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(question(*args, **options))
            except BaseException as error:  # raised where the answer is awaited
                answer.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        while True:
            try:
                return answer.result(timeout=CHECK_SECONDS)
            except TimeoutError:
                if answer.done():  # an error of the question itself
                    raise
            self.answers()


def leave(ray: ModuleType) -> None:
    """Let the process end without a word to a dead head, for which Ray would wait when the interpreter exits."""
    atexit.unregister(ray._private.worker.shutdown)
