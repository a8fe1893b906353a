"""Errors in one line, for messages that quote what another library said."""

from __future__ import annotations


def shorten_error(error: BaseException) -> str:
    r"""Return the first line of the message of an error; the name of its type if it has no message.

    Example:
        >>> shorten_error(ValueError("no such file\nat all")), shorten_error(KeyError())
        ('no such file', 'KeyError')
    """
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def describe_error(error: BaseException) -> str:
    """Return the type of an error and the first line of its message.

    Example:
        >>> describe_error(ValueError("no such file"))
        'ValueError: no such file'
    """
    return f"{type(error).__name__}: {error}".strip().splitlines()[0]
