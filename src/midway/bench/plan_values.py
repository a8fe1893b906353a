"""Reading the plain values of a plan, from TOML or from the command line, with errors that name the key."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from midway.bench.entries import Entry, SettingError, parse_entries

LARGEST_BATCH = 500


class PlanError(ValueError):
    """A plan that cannot be run as it is written.

    Attributes:
        where: Path to the value in the plan: a key, or ``"method"``, the index of the table and its setting.
    """

    def __init__(self, message: str, *where: str | int) -> None:
        super().__init__(message)
        self.where = where


def import_plugins(modules: Iterable[str]) -> None:
    """Import modules that register methods, scenarios and so on, also from the working directory.

    Raises:
        PlanError: A module cannot be imported.

    Example:
        >>> from midway.bench.plan_values import import_plugins
        >>> import_plugins(["my_methods.py"])
        Traceback (most recent call last):
        midway.bench.plan_values.PlanError: import: my_methods.py is not the name of a module: write my_methods.
    """
    for module in modules:
        if (directory := str(Path.cwd())) not in sys.path:
            sys.path.append(directory)
        if module.endswith(".py") or not all(part.isidentifier() for part in module.split(".")):
            correct = Path(module).stem.lstrip(".")
            raise PlanError(f"import: {module} is not the name of a module: write {correct}.", "import")
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise PlanError(f"import: {error}: install it, or correct the name.", "import") from error
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


def _integers(least: int, most: int | None = None) -> Callable[[str, Any], tuple[int, ...]]:
    def read(key: str, value: Any) -> tuple[int, ...]:
        values = value if isinstance(value, list | tuple) else (value,)
        return _not_empty(key, tuple(_integer(least, most)(key, each) for each in values))

    return read


def _integer(least: int, most: int | None = None) -> Callable[[str, Any], int]:
    def read(key: str, value: Any) -> int:
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if not is_integer or value < least or (most is not None and value > most):
            limits = f"of at least {least}" if most is None else f"from {least} to {most}"
            raise PlanError(f"{key} must be an integer {limits}, got {value!r}.", key)
        return int(value)

    return read


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
    "severities": _integers(1, 5),
    "seeds": _integers(0),
    "batch_sizes": _integers(1, LARGEST_BATCH),
    "images": _integer(1),
    "size": _integer(1),
    "precision": _string,
    "device": _string,
    "threads": _integer(1),
    "import": _names,
}
"""Key of a plan -> function that checks its value and converts it."""
