"""Read ``Example:`` in docstrings as the section of examples, for the API pages (mkdocs.yml names this file)."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Renames the heading: the parser knows ``Examples:`` and takes ``Example:`` for a box with quotations."""

    def on_object(self, *, obj: Any, **others: Any) -> None:
        """Change the docstring of one object before it is parsed."""
        _rename(obj)

    def on_package(self, *, pkg: Any, **others: Any) -> None:
        """Change the docstring of the package itself, which is no object within another."""
        _rename(pkg)


def _rename(obj: Any) -> None:
    if obj.docstring is not None:
        obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
