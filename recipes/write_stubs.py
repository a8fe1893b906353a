"""Write src/midway/methods/_classes.py, the imports of registered methods and wrappers for editors and type checkers.

    python recipes/write_stubs.py

A new method is known by its name as soon as its file exists; as ``midway.Name`` once this recipe has run.
"""

from __future__ import annotations

from pathlib import Path

from midway.adaptation.registry import METHODS
from midway.adaptation.wrappers import WRAPPERS

CLASSES = Path(__file__).parents[1] / "src" / "midway" / "methods" / "_classes.py"


def classes_module() -> str:
    """Return the text of the module for the classes of this project."""
    own = {(c.__module__, c.__name__) for c in (*METHODS.values(), *WRAPPERS.values())}
    own = {(module, name) for module, name in own if module.startswith("midway.")}
    imports = "".join(f"from {module} import {name}\n" for module, name in sorted(own))
    exports = "".join(f'    "{name}",\n' for name in sorted(name for _, name in own))
    docstring = '"""The registered methods and wrappers by name; written by `python recipes/write_stubs.py`."""'
    return f"{docstring}\n\n{imports}\n__all__ = [  # noqa: RUF022\n{exports}]\n"


if __name__ == "__main__":
    CLASSES.write_text(classes_module(), encoding="utf-8")
    print(f"wrote {CLASSES}")
