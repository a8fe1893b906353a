"""Registries: named objects of one kind, each defined in one file and open to other packages."""

from __future__ import annotations

import importlib
import pkgutil
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, TypeVar

from midway._suggest import unknown

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """A mapping from names to objects that modules fill with a decorator.

    The first lookup imports every module of ``package`` and every entry point of the group ``midway.<group>``, so
    that neither this project nor another package needs a second list.

    Args:
        kind: What an object is called in error messages, such as ``"corruption"``.
        group: Name of the entry-point group after ``midway.``, such as ``"corruptions"``.
        package: The package whose modules register the built-in objects; None if they register themselves on import.

    Example:
        >>> from midway._registry import Registry
        >>> shapes: Registry[int] = Registry("shape", group="shapes")
        >>> shapes.add("triangle", 3)
        >>> shapes["triangle"], list(shapes)
        (3, ['triangle'])
        >>> shapes["triangel"]
        Traceback (most recent call last):
        ValueError: unknown shape 'triangel': did you mean 'triangle'? Valid names: triangle.
    """

    def __init__(self, kind: str, *, group: str, package: str | None = None) -> None:
        self.kind, self.group, self.package = kind, f"midway.{group}", package
        self._objects: dict[str, T] = {}
        self._discovered = self._discovering = False
        self._lock = threading.RLock()  # a module that is being imported may look things up

    def add(self, name: str, value: T) -> None:
        """Register an object; registering the same definition again, as a notebook cell does, replaces it.

        Raises:
            ValueError: Another definition has the name.
        """
        known = self._objects.get(name, value)
        if _definition(known) != _definition(value):
            raise ValueError(f"the name '{name}' is already used by the {self.kind} {_definition(known)}.")
        self._objects[name] = value

    def remove(self, name: str) -> None:
        """Remove an object, for tests and notebooks."""
        del self._objects[name]

    def discover(self) -> None:
        """Import the built-in modules and the entry points; later calls do nothing.

        An entry point that cannot be imported gives a warning, so that a broken package does not disable midway.
        """
        if self._discovered:
            return
        with self._lock:  # another thread waits until everything is registered
            if self._discovered or self._discovering:
                return
            self._discovering = True
            try:
                self._import_all()
            finally:
                self._discovering = False
            self._discovered = True

    def _import_all(self) -> None:
        if self.package is not None:
            package = importlib.import_module(self.package)
            for module in pkgutil.iter_modules(package.__path__, f"{self.package}."):
                importlib.import_module(module.name)
        for point in entry_points(group=self.group):
            try:
                point.load()
            except Exception as error:  # the code of another package can raise anything
                warnings.warn(f"the {self.kind} {point.value} cannot be imported: {error}", stacklevel=4)

    def __getitem__(self, name: str) -> T:
        if name not in self._objects:
            self.discover()
        try:
            return self._objects[name]
        except (KeyError, TypeError):
            raise ValueError(unknown(self.kind, str(name), self._objects)) from None

    def get(self, name: str, default: Any = None) -> Any:
        """Return the object of a name, or a default."""
        self.discover()
        return self._objects.get(name, default)

    def __contains__(self, name: object) -> bool:
        if name not in self._objects:
            self.discover()
        return name in self._objects

    def __iter__(self) -> Iterator[str]:
        self.discover()
        return iter(self._objects)

    def __len__(self) -> int:
        self.discover()
        return len(self._objects)


@dataclass(eq=False)
class Registered:
    """A registered function with a name; it has the function's module and qualified name, which identify it."""

    name: str
    function: Callable[..., Any]

    def __post_init__(self) -> None:
        # The registry identifies a definition by its qualified name: a notebook may execute it twice.
        self.__module__, self.__qualname__ = self.function.__module__, self.function.__qualname__


def _definition(value: object) -> object:
    """Return what identifies a definition across two executions of its file: where it stands."""
    named = value if hasattr(value, "__qualname__") else type(value)
    where = f"{named.__module__}.{named.__qualname__}"
    return where if named is value else (where, repr(value))
