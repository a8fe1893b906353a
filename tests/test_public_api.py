"""What docs/public_api.md promises exists, and every public name is documented with an example."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

import midway.testing
from midway.cli import app

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/public_api.md").read_text()


def first_column(heading: str) -> list[str]:
    """Return the code in the first column of the table below a heading of the page."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(.+?)` \|", section, flags=re.MULTILINE)


MODULES = [importlib.import_module(name) for name in first_column("Python")]


def public_names(module: ModuleType) -> list[str]:
    """Return `__all__`, or without it the classes and functions that a module defines without an underscore."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def documentation_fault(value: object) -> str:
    """Return what is missing in the docstring of a public object, or an empty string.

    Functions and classes need an example. Records of values need a list of their attributes instead, since functions
    return them; exceptions, protocols and the checks of the contract need a docstring alone.
    """
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return ""  # modules are listed in the page; constants and type aliases have no docstring of their own
    text = (vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__) or ""  # not an inherited one
    if not text or text.startswith(f"{value.__name__}("):  # the second is written by the dataclass or named tuple
        return "no docstring"
    if dataclasses.is_dataclass(value) or hasattr(value, "_fields"):
        return "" if "Attributes:" in text or ">>>" in text else "neither attributes nor an example"
    if inspect.isclass(value) and (issubclass(value, BaseException) or getattr(value, "_is_protocol", False)):
        return ""
    if value in midway.testing.CONTRACT:
        return ""
    return "" if ">>>" in text else "no example"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_public_name_is_documented(module: ModuleType) -> None:
    faults = {name: documentation_fault(getattr(module, name)) for name in public_names(module)}
    assert {name: fault for name, fault in faults.items() if fault} == {}


def test_packages_say_what_they_export() -> None:
    assert [
        module.__name__ for module in MODULES if hasattr(module, "__path__") and not hasattr(module, "__all__")
    ] == []


def test_no_public_name_comes_with_an_underscore() -> None:
    names = [f"{module.__name__}.{name}" for module in MODULES for name in public_names(module)]
    assert [name for name in names if "._" in name and not name.endswith("__version__")] == []


def test_the_page_has_every_command() -> None:
    commands = [command.name or command.callback.__name__ for command in app.registered_commands if command.callback]
    groups = [group.name for group in app.registered_groups]
    assert sorted(first_column("Command line")) == sorted(f"midway {name}" for name in [*commands, *groups])


def test_the_page_has_every_entry_point_group() -> None:
    groups = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "Registry":
                groups |= {f"midway.{word.value.value}" for word in node.keywords if word.arg == "group"}  # type: ignore[attr-defined]
    assert set(first_column("Entry points")) == groups


def test_modules_are_imported_when_they_are_used() -> None:
    assert midway.report.frame is not None
    assert callable(midway.tune.tune)
    with pytest.raises(AttributeError, match="module 'midway' has no attribute 'reports'"):
        _ = midway.reports  # type: ignore[attr-defined]


def test_faults_are_detected() -> None:
    def bare() -> None: ...

    def told() -> None:
        """Do nothing."""

    @dataclasses.dataclass
    class Values:
        """Two values."""

    @dataclasses.dataclass
    class Generated:
        value: int

    class WrongError(ValueError):
        """Something is wrong."""

    assert [documentation_fault(each) for each in (bare, told, Values, Generated, WrongError)] == [
        "no docstring",
        "no example",
        "neither attributes nor an example",
        "no docstring",
        "",
    ]
