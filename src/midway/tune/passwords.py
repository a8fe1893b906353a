"""Addresses of databases without their passwords: commands and messages are kept in files that people share."""

from __future__ import annotations

import re


def without_password(address: str) -> str:
    """Hide the password of an address, wherever it stands in it.

    Example:
        >>> from midway.tune.passwords import without_password
        >>> without_password("postgresql://ann:se/cr@t@host/name"), without_password("study.journal")
        ('postgresql://ann:***@host/name', 'study.journal')
        >>> without_password("postgresql://host/name?password=my secret&user=ann")
        'postgresql://host/name?password=***&user=ann'
    """
    scheme, sign, rest = address.partition("://")
    if not sign:
        return address
    who, at, where = rest.rpartition("@")
    user, colon, _ = who.partition(":")
    rest = f"{user}:***@{where}" if at and colon else rest
    return f"{scheme}://" + re.sub("(password=)[^&]*", r"\1***", rest, flags=re.IGNORECASE)


def hide_in(text: str, address: str) -> str:
    """Hide the password of an address in a text about it.

    Example:
        >>> from midway.tune.passwords import hide_in
        >>> hide_in("no such user, password=secret", "postgresql://ann:secret@host/name")
        'no such user, password=***'
    """
    who, _, where = address.partition("://")[2].rpartition("@")
    secrets = [who.partition(":")[2], *re.findall("password=([^&]*)", where, flags=re.IGNORECASE)]
    for secret in filter(None, secrets):
        text = text.replace(secret, "***")
    return text
