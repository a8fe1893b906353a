"""The values of a plan, from TOML or the command line: methods with settings as text, names, numbers.

Methods are written like ``tent,tea(steps=4),mita(lr=1e-4, label="MITA, slow")``. Errors name the key at fault.
"""

from __future__ import annotations

import ast
import importlib
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from midway._files import is_printable
from midway._suggest import unknown
from midway.adaptation.adapt import with_preset
from midway.adaptation.registry import FOR_EVERY_METHOD, PRESET
from midway.bench.record import with_tuples
from midway.data.class_lists import plain_classes
from midway.methods import adapt, find, hyperparameters
from midway.testing import tiny_network


class PlanError(ValueError):
    """A plan that cannot be run as it is written.

    Attributes:
        where: Path to the value in the plan: a key, or ``"method"``, the index of the table and its setting.
    """

    def __init__(self, message: str, *where: str | int) -> None:
        super().__init__(message)
        self.where = where


class SettingError(ValueError):
    """A method that cannot be created with the given settings; ``setting`` is the one at fault, or ``"name"``."""

    def __init__(self, message: str, setting: str) -> None:
        super().__init__(message)
        self.setting = setting


@dataclass(frozen=True)
class Entry:
    """One row of a comparison: a method, the settings that differ from its defaults, and a label."""

    name: str
    settings: dict[str, Any] = field(hash=False)
    label: str

    @classmethod
    def make(cls, name: str, settings: dict[str, Any], label: str | None = None) -> Entry:
        """Check the settings by creating the method on a tiny network; without a label the settings are the label.

        A ``SettingError`` is raised if the method or a setting is unknown, or the method rejects a value.
        """
        given = _given(settings)
        written = ", ".join([f"{key}={value!r}" for key, value in given.items()])
        try:
            known = {*hyperparameters(name), *FOR_EVERY_METHOD}
        except ValueError as error:
            raise SettingError(str(error), "name") from error
        try:
            settings = _given(with_preset(name, settings))
        except ValueError as error:
            raise SettingError(f"{name}: {error}", PRESET) from error
        for setting in settings:
            if setting not in known:
                raise SettingError(unknown(f"hyper-parameter of {name}", setting, known), setting)
        layers = find(name).names_layers  # settings that name layers of the real network
        checked = {key: value for key, value in settings.items() if key not in layers}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                adapt(_trial_network(), name, **checked)
        except (TypeError, ValueError) as error:
            at_fault = next((setting for setting in settings if setting in str(error)), "name")
            raise SettingError(f"{name}: {error}", at_fault) from error
        if not is_printable(label or written):
            raise SettingError(
                f"{name}: the label {label or written!r} has bytes or control characters that are not text: leave "
                "them out.",
                "label",
            )
        return cls(name, settings, label or (f"{name}({written})" if written else name))

    def complete_settings(self, seed: int) -> dict[str, Any]:
        """Return every hyper-parameter; a method with a ``seed`` that is not set gets the seed of the cell."""
        defaults = hyperparameters(self.name)
        if "seed" in defaults:
            defaults["seed"] = seed
        return with_tuples(defaults | self.settings)


def _given(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that are given: those that every method takes are None by default."""
    return with_tuples({k: v for k, v in settings.items() if v is not None or k not in FOR_EVERY_METHOD})


_trial_network = cache(tiny_network)
"""Settings are checked on this network; methods copy it and never change it."""


def parse_entries(text: str) -> list[Entry]:
    """Parse methods as they are written on the command line; a ``ValueError`` has an example of how to."""
    try:
        parsed = ast.parse(f"[{text}]", mode="eval").body
    except SyntaxError:
        raise ValueError(_not_understood(text)) from None
    if not isinstance(parsed, ast.List):
        raise ValueError(_not_understood(text))
    return [_entry(node, text) for node in parsed.elts]


def _entry(node: ast.expr, text: str) -> Entry:
    if isinstance(node, ast.Name):
        return Entry.make(node.id, {})
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.args:
        raise ValueError(_not_understood(text))
    settings: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ValueError(_not_understood(text))
        if keyword.arg in settings:
            raise ValueError(f"{node.func.id}: {keyword.arg} is given twice.")
        try:
            settings[keyword.arg] = ast.literal_eval(keyword.value)
        except (ValueError, TypeError):
            written = ast.unparse(keyword.value)
            raise ValueError(f"{node.func.id}: {keyword.arg}={written} is not a number or a quoted string.") from None
    label = settings.pop("label", None)
    if label is not None and not isinstance(label, str):
        raise ValueError(f"{node.func.id}: the label must be a quoted string, got {label!r}.")
    return Entry.make(node.func.id, settings, label)


def _not_understood(text: str) -> str:
    return f"methods '{text}' cannot be parsed: write them like tent,tea(steps=4),mita."


def import_plugins(modules: Iterable[str], *, beside: Path | None = None) -> None:
    """Import modules that register methods, scenarios and so on, also from the working directory.

    They may also be ``beside`` a file, in its folder.
    """
    for module in modules:
        folders = [Path.cwd(), *([] if beside is None else [beside.resolve().parent])]
        sys.path += [folder for folder in dict.fromkeys(map(str, folders)) if folder not in sys.path]
        if module.endswith(".py") or not all(part.isidentifier() for part in module.split(".")):
            correct = Path(module).stem.lstrip(".")
            raise PlanError(f"import: {module} is not the name of a module: write {correct}.", "import")
        try:
            importlib.import_module(module)
        except ImportError as error:
            inside = "" if getattr(error, "name", None) == module else f"{module} cannot be imported: "
            raise PlanError(f"import: {inside}{error}: install it, or correct the name.", "import") from error
        except Exception as error:  # the code of another package can raise anything
            reason = f"{type(error).__name__}: {error}"
            raise PlanError(f"import: {module} cannot be imported ({reason}): correct it.", "import") from error


def _strings(key: str, value: Any) -> tuple[str, ...]:
    values = (value,) if isinstance(value, str) else value
    if not isinstance(values, list | tuple) or not all(isinstance(each, str) and each for each in values):
        raise PlanError(f'{key} must be a string or a list of strings, such as {key} = ["..."], got {value!r}.', key)
    return _not_empty(key, tuple(values))


def _names(key: str, value: Any) -> tuple[str, ...]:
    parts = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
    return _strings(key, parts)


def _integers(key: str, value: Any, least: int, most: int | None = None) -> tuple[int, ...]:
    values = value if isinstance(value, list | tuple) else (value,)
    return _not_empty(key, tuple([_integer(key, each, least, most) for each in values]))


def _integer(key: str, value: Any, least: int = 1, most: int | None = None) -> int:
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if not is_integer or value < least or (most is not None and value > most):
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise PlanError(f"{key} must be an integer {limits}, got {value!r}.", key)
    return int(value)


def _not_empty(key: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    if not values and key != "import":
        raise PlanError(f"{key} is empty: name at least one, or leave the key out.", key)
    repeated = next((each for index, each in enumerate(values) if each in values[:index]), None)
    if repeated is not None:
        raise PlanError(f"{key} has {repeated!r} twice.", key)
    return values


def _string(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise PlanError(f"{key} must be a string, got {value!r}.", key)
    return value


def _classes(key: str, value: Any) -> str | tuple[str, ...] | tuple[int, ...]:
    if isinstance(value, str) and "," in value:
        parts = [part.strip() for part in value.split(",") if part.strip()]
        value = [int(part) for part in parts] if all(part.isdecimal() for part in parts) else parts
    if not isinstance(value, str | list | tuple | dict):
        raise PlanError(f"{key} must be names, indices, a file or the name of a list, got {value!r}.", key)
    try:
        return plain_classes(value)
    except ValueError as error:
        raise PlanError(str(error), key) from error


def _methods(key: str, value: Any) -> tuple[Entry, ...]:
    try:
        return tuple(entry for text in _strings(key, value) for entry in parse_entries(text))
    except PlanError:
        raise
    except ValueError as error:
        raise PlanError(str(error), key) from error


def _method_tables(key: str, value: Any) -> tuple[Entry, ...]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise PlanError("method must be a list of tables: write [[method]] above the name and settings of each.", key)
    entries = []
    for index, table in enumerate(value):
        settings = dict(table)
        name, label = settings.pop("name", None), settings.pop("label", None)
        if not isinstance(name, str):
            raise PlanError('a method needs a name, such as name = "tent".', key, index)
        if label is not None and (not isinstance(label, str) or not label):
            raise PlanError(f"the label of {name} must be a string, got {label!r}.", key, index, "label")
        try:
            entries.append(Entry.make(name, settings, label))
        except SettingError as error:
            raise PlanError(str(error), key, index, error.setting) from error
    return tuple(entries)


READERS: dict[str, Callable[[str, Any], Any]] = {
    "methods": _methods,
    "method": _method_tables,
    "networks": _names,
    "data": _names,
    "root": _string,
    "scenarios": _names,
    "severities": partial(_integers, least=1, most=5),
    "seeds": partial(_integers, least=0),
    "batch_sizes": partial(_integers, least=1, most=500),
    "images": _integer,
    "size": _integer,
    "classes": _classes,
    "precision": _string,
    "device": _string,
    "threads": _integer,
    "import": _names,
}
"""Key of a plan -> function that checks its value and converts it."""
