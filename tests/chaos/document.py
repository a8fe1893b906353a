"""Tables in a document: each is written by a command, between two marks."""

from __future__ import annotations

from pathlib import Path


def write_table(document: Path, name: str, table: str) -> None:
    """Replace what stands between the marks of a table."""
    begin, end = f"<!-- begin of {name} -->", f"<!-- end of {name} -->"
    text = document.read_text()
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"{document} must contain '{begin}' and '{end}' once each: add them where the table belongs.")
    before, _, rest = text.partition(begin)
    document.write_text(f"{before}{begin}\n{table}\n{end}{rest.partition(end)[2]}")
