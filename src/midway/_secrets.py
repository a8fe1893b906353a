"""Passwords and tokens in addresses: no store, page or message shows them."""

from __future__ import annotations

import re
from urllib.parse import unquote, unquote_plus

_SECRET = r"[^=&?;\s]*(?:password|passwd|pwd|token|secret|key|sig|credential|auth)[^=&?;\s]*="
_IN_QUERY = re.compile(rf"([?&;]{_SECRET})([^&]*)", re.IGNORECASE)


def without_password(address: str) -> str:
    """Return an address with its password and the tokens in its query hidden."""
    scheme, sign, rest = address.partition("://")
    if not sign:
        return address
    login, at, host = rest.rpartition("@")
    user, colon, _ = login.partition(":")
    if at and colon:
        rest = f"{user}:***@{host}"
    elif at and scheme.lower().endswith(("http", "https")):  # tokens are written in place of a user
        rest = f"***@{host}"
    return f"{scheme}://" + _IN_QUERY.sub(r"\1***", rest)


def hide_password(text: str, address: str) -> str:
    """Return a text with the password and the tokens of an address hidden, as written there and as they are sent."""
    scheme, _, rest = address.partition("://")
    login, _, host = rest.rpartition("@")
    user, colon, password = login.partition(":")
    secrets = [password if colon else user if scheme.lower().endswith(("http", "https")) else ""]
    secrets += [value for _, value in _IN_QUERY.findall(host)]
    spellings = {form for secret in secrets for form in (secret, unquote(secret), unquote_plus(secret)) if form}
    for secret in sorted(spellings, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text
