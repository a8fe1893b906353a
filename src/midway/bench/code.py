"""Digests of the code that computes a number, so that a stored result is reused exactly as long as it is valid."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import io
import os
import sys
import tokenize
import uuid
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import repeat
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from midway.adaptation.batch_norm.by_name import module_of
from midway.adaptation.registry import STATISTICS, VIEWS, WRAP
from midway.adaptation.wrappers import WRAPPERS, read_wrapper
from midway.bench.record import Cell
from midway.bench.resources import FROM_FILES
from midway.data.corruptions import REGISTRY as CORRUPTIONS
from midway.data.datasets import REGISTRY as DATA_SETS
from midway.methods import find
from midway.metrics import METRICS
from midway.streams import Scenario
from midway.streams.registry import REGISTRY as SCENARIOS

INSTALLED = {"site-packages", "dist-packages"}

MEASURING = ("midway.bench.measure", "midway.metrics.classification")
"""Modules that compute the numbers of every cell."""

STREAMING = ("midway.data.corrupted", "midway.streams.parsing")
"""Modules that apply corruptions and build every stream."""

METADATA = {"about", "search_space"}
"""Attributes of classes that describe a method: titles, colours and ranges of searches change no number."""

WITHOUT_NUMBERS = {
    "midway",
    "midway._version",
    "midway._errors",
    "midway._registry",
    "midway._suggest",
    "midway._files",
    "midway._workers",
    "midway.adaptation.about",
    "midway.adaptation.registry",
    "midway.adaptation.space",
    "midway.bench.environment",
    "midway.bench.record",
    "midway.data.download",
    "midway.data.manifest",
    "midway.metrics.registry",
    "midway.streams.registry",
}
"""Registries, error messages and storage: no number depends on these modules, and they import much."""


def code_digest(modules: Iterable[str]) -> str:
    """Return a digest of modules and of all modules they import from the same packages or from loose files.

    Comments, docstrings, blank lines and the metadata of methods do not count. A class of a notebook has no file: its
    digest is another one each time. Installed packages other than those of
    the given modules have versions, which are recorded with every result, and do not count either.
    """
    waiting = sorted(set(modules))
    packages = {module.partition(".")[0] for module in waiting}
    seen, lines = set(WITHOUT_NUMBERS), list[str]()
    while waiting:
        module = waiting.pop()
        path = None if module in seen else _file_of(module)
        seen.add(module)
        if path is None:
            if module == "__main__":  # a notebook or standard input: code that cannot be read has no valid results
                lines.append(f"{module} {uuid.uuid4()}")
            continue
        source = _read(path, path.stat().st_mtime_ns, module)
        name = path.name if module.startswith(FROM_FILES) else module  # wherever the file is stored
        lines.append(f"{name} {source.digest}")
        for imported, names in source.imports:
            top = imported.partition(".")[0]
            if top not in packages and (top in sys.stdlib_module_names or _is_library(top)):
                continue
            if imported in sys.modules and not hasattr(sys.modules[imported], "__path__"):
                waiting.append(imported)
            else:
                waiting += [_defining_module(imported, each) for each in names]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]


def _file_of(module: str) -> Path | None:
    """Return the file of a module without importing it, if it has one."""
    origin = getattr(sys.modules.get(module), "__file__", None)
    if origin is None:
        try:
            spec = importlib.util.find_spec(module)
        except (ImportError, ValueError, AttributeError):
            return None
        origin = None if spec is None else spec.origin
    return Path(origin) if origin and origin.endswith(".py") else None


@cache
def _is_library(package: str) -> bool:
    """Return whether a top-level package is installed."""
    path = _file_of(package)
    return path is not None and bool(INSTALLED & {*path.parts})


class _Source(NamedTuple):
    """A file of code: its digest, and the names that it imports from each module anywhere in it ("" for all)."""

    digest: str
    imports: tuple[tuple[str, tuple[str, ...]], ...]


_name = attrgetter("name")


@cache
def _read(path: Path, modified: int, module: str) -> _Source:
    """Read a file once as long as it is not modified; imports for type checkers are left out."""
    text = path.read_text(encoding="utf-8")
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    imports: list[tuple[str, tuple[str, ...]]] = []
    ignored: list[ast.stmt] = []
    waiting: list[ast.AST] = [ast.parse(text)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            ignored.append(node)
        elif isinstance(node, ast.ClassDef):
            for statement in node.body:
                target = statement.targets[0] if isinstance(statement, ast.Assign) else None
                if isinstance(target, ast.Name) and target.id in METADATA:
                    ignored.append(statement)
        elif isinstance(node, ast.Import):
            imports += zip(map(_name, node.names), repeat(("",)))
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            name = f"{base}.{node.module}" if base and node.module else base or node.module or ""
            imports.append((name, tuple(map(_name, node.names))))
            if name in WITHOUT_NUMBERS:  # what the metadata is written with
                ignored.append(node)
    return _Source(_digest(text, ignored), tuple(imports))


def _digest(text: str, ignored: Iterable[ast.stmt]) -> str:
    """Digest code without some statements, comments and blank lines.

    Lines are compared as text, not as syntax trees, whose form depends on the version of Python.
    """
    lines = text.splitlines()
    for node in ignored:
        stop = node.end_lineno or node.lineno
        lines[node.lineno - 1 : stop] = [""] * (stop - node.lineno + 1)
    code = hashlib.sha256()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        row, column = token.start
        if token.type == tokenize.COMMENT and lines[row - 1]:
            lines[row - 1] = lines[row - 1][:column]
    for line in lines:
        if line.strip():
            code.update(f"{line.rstrip()}\n".encode())
    return code.hexdigest()


@cache
def _defining_module(module: str, name: str) -> str:
    """Return the module that defines what ``from module import name`` imports, looking through re-exports."""
    path = _file_of(module)
    if path is None or path.name != "__init__.py" or not name:
        return module
    if _file_of(f"{module}.{name}") is not None:
        return f"{module}.{name}"
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name and node.module != module:
                    return _defining_module(node.module, alias.name)
    defined = getattr(getattr(sys.modules.get(module), name, None), "__module__", module)
    return defined if isinstance(defined, str) else module


def modules_of_method(name: str, settings: Mapping[str, Any]) -> set[str]:
    """Return the modules that define a method, its wrapper and its statistics."""
    modules = {find(name).__module__}
    if (wrap := settings.get(WRAP)) is not None:
        modules.add(WRAPPERS[read_wrapper(wrap)[0]].__module__)
    if settings.get(VIEWS) == "mirror":
        modules.add("midway.adaptation.wrappers.mirrored")
    if settings.get(STATISTICS) is not None:
        modules.add(module_of(settings[STATISTICS]))
    return modules


def modules_of_stream(scenario: Scenario, data: str) -> set[str]:
    """Return the modules that define the data, the corruptions and the order of the images of a stream."""
    corruptions = {CORRUPTIONS[shift].__module__ for shift in scenario.shifts if shift in CORRUPTIONS}
    return {DATA_SETS[data].__module__, SCENARIOS[scenario.kind].__module__, *corruptions, *STREAMING}


def registering_modules(cell: Cell) -> tuple[str, ...]:
    """Return the modules outside midway that another process has to import before it runs a cell."""
    modules = modules_of_method(cell.method, cell.settings) | modules_of_stream(cell.scenario, cell.data)
    modules |= {metric.compute.__module__ for metric in METRICS.values()}
    return tuple(sorted([module for module in modules if module.partition(".")[0] not in ("midway", "__main__")]))


def folder_digest(root: str, *, nested: bool = True) -> str:
    """Return a digest of the names and sizes of the files in a folder, and of the content of files of labels.

    Args:
        root: The folder.
        nested: Count the files in its folders too; data sets in arrays have all files at the top.
    """
    digest = hashlib.sha256()
    for directory, folders, files in os.walk(root):
        folders[:] = sorted(folders) if nested else []
        for file in sorted(files):
            path = Path(directory, file)
            digest.update(os.fsencode(f"{path.relative_to(root)}\n{path.lstat().st_size}\n"))
            if "label" in file.lower():
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
