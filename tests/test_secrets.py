"""Passwords and tokens in addresses are hidden, however they are written."""

from __future__ import annotations

import pytest

from midway._secrets import hide_password, without_password


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://ann:p@ss@host/name", "postgresql://ann:***@host/name"),
        ("postgresql://ann@host/name", "postgresql://ann@host/name"),
        ("postgresql://host/name?user=ann&PASSWORD=a b", "postgresql://host/name?user=ann&PASSWORD=***"),
        ("https://t0ken@host/data.tar", "https://***@host/data.tar"),
        ("https://host/data.tar?access_token=abc&part=1", "https://host/data.tar?access_token=***&part=1"),
        ("https://host/data.tar?X-Amz-Signature=abc", "https://host/data.tar?X-Amz-Signature=***"),
        ("--mirror=https://host/data.tar?api_key=abc", "--mirror=https://host/data.tar?api_key=***"),
        ("study.journal", "study.journal"),
    ],
)
def test_what_is_secret_in_an_address_is_hidden(address: str, shown: str) -> None:
    assert without_password(address) == shown


@pytest.mark.parametrize(
    "address",
    ["postgresql://ann:p%40ss@host/name", "https://p%40ss@host/data", "https://host/data?token=p%40ss&part=1"],
)
def test_a_message_shows_no_spelling_of_a_secret(address: str) -> None:
    assert hide_password("ann: p@ss or p%40ss is wrong", address) == "ann: *** or *** is wrong"
