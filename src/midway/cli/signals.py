"""Ctrl-C, SIGTERM and SIGHUP end a command in order: workers stop, what is finished is stored, and the status tells."""

from __future__ import annotations

import signal

import typer

_received: list[int] = []


def stop_on_signals() -> None:
    """Let SIGTERM and SIGHUP interrupt the command like Ctrl-C; a signal that is ignored (``nohup``) stays ignored."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: object) -> None:
    _received.append(number)
    raise KeyboardInterrupt


def interrupted() -> bool:
    """Return whether a signal has interrupted the command."""
    return bool(_received)


def status() -> int:
    """Return the exit status of an interrupted command: 128 and the number of the signal."""
    return 128 + (_received[0] if _received else signal.SIGINT)


def create_exit() -> typer.Exit:
    """Return the exception that ends an interrupted command."""
    return typer.Exit(status())
