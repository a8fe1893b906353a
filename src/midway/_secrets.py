"""Passwords in addresses: no store, page or message shows them."""

from __future__ import annotations

import re


def without_password(address: str) -> str:
    """Return an address of a database with its password hidden."""
    scheme, sign, rest = address.partition("://")
    if not sign:
        return address
    login, at, host = rest.rpartition("@")
    user, colon, _ = login.partition(":")
    rest = f"{user}:***@{host}" if at and colon else rest
    return f"{scheme}://" + re.sub("(password=)[^&]*", r"\1***", rest, flags=re.IGNORECASE)


def hide_password(text: str, address: str) -> str:
    """Return a text with the password of an address hidden."""
    login, _, host = address.partition("://")[2].rpartition("@")
    secrets = [login.partition(":")[2], *re.findall("password=([^&]*)", host, flags=re.IGNORECASE)]
    for secret in filter(None, secrets):
        text = text.replace(secret, "***")
    return text
