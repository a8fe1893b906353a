"""Digests of the code that computes a number, so that a stored result is reused exactly as long as it is valid."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import io
import os
import sys
import tokenize
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from midway.adaptation.registry import STATISTICS, WRAP
from midway.adaptation.wrappers import WRAPPERS
from midway.bench.cell import Cell
from midway.bench.networks import FROM_FILES
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

WITHOUT_NUMBERS = frozenset(
    {
        "midway",
        "midway._version",
        "midway.registry",
        "midway.suggest",
        "midway.files",
        "midway.adaptation.about",
        "midway.adaptation.registry",
        "midway.adaptation.space",
        "midway.bench.cell",
        "midway.bench.record",
        "midway.data.download",
        "midway.data.manifest",
        "midway.metrics.registry",
        "midway.streams.registry",
    }
)
"""Modules that register, look up, word and store things: no number depends on them, and they import much."""


def code_digest(modules: Iterable[str]) -> str:
    """Return a digest of modules and of all modules they import from the same packages or from loose files.

    Comments, docstrings and blank lines do not count. Installed packages other than those of the given modules have
    versions, which are recorded with every result, and do not count either.

    Args:
        modules: Names of the modules that define the method, the network, the corruptions and so on.

    Example:
        >>> from midway.bench.code import code_digest
        >>> len(code_digest(["midway.methods.tent"]))
        16
    """
    waiting, seen, sources = sorted(set(modules)), set[str](), dict[str, str]()
    packages = frozenset(map(_top, waiting))
    while waiting:
        module = waiting.pop()
        if module in seen or module in WITHOUT_NUMBERS or (_top(module) not in packages and _is_library(_top(module))):
            continue
        seen.add(module)
        path = _source_file(module)
        if path is not None:
            modified = path.stat().st_mtime_ns
            name = path.name if module.startswith(FROM_FILES) else module  # wherever the file is stored
            sources[name] = _file_digest(path, modified)
            waiting += _imports(module, path, modified, packages)
    lines = "\n".join(sorted([f"{module} {digest}" for module, digest in sources.items()]))
    return hashlib.sha256(lines.encode()).hexdigest()[:16]


@cache
def _top(module: str) -> str:
    """Return the top-level package of a module."""
    return module.partition(".")[0]


def _source_file(module: str) -> Path | None:
    """Return the file of a module without importing it, if it has one."""
    loaded = sys.modules.get(module)
    origin = getattr(loaded, "__file__", None)
    if origin is None:
        try:
            spec = importlib.util.find_spec(module)
        except (ImportError, ValueError, AttributeError):
            return None
        origin = None if spec is None else spec.origin
    return Path(origin) if origin and origin.endswith(".py") else None


@cache
def _is_library(package: str) -> bool:
    """Tell whether a top-level package is installed or belongs to Python itself."""
    if package in sys.stdlib_module_names:
        return True
    path = _source_file(package)
    return path is not None and bool(INSTALLED & {*path.parts})


@cache
def _file_digest(path: Path, modified: int) -> str:
    """Digest the code of a file without its comments, docstrings and blank lines.

    Lines are compared as text, not as syntax trees, whose form depends on the version of Python.
    """
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            stop = node.end_lineno or node.lineno
            lines[node.lineno - 1 : stop] = [""] * (stop - node.lineno + 1)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        row, column = token.start
        if token.type == tokenize.COMMENT and lines[row - 1]:
            lines[row - 1] = lines[row - 1][:column]
    code = "\n".join([line.rstrip() for line in lines if line.strip()])
    return hashlib.sha256(code.encode()).hexdigest()


@cache
def _imports(module: str, path: Path, modified: int, packages: frozenset[str]) -> tuple[str, ...]:
    """Return the modules that a module imports anywhere in its code, without libraries and type-checking imports."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    imported: list[str] = []
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            name = ".".join([part for part in (base, node.module) if part])
            if _top(name) in packages or not _is_library(_top(name)):
                imported += [_defining_module(name, alias.name) for alias in node.names]
    return tuple(dict.fromkeys(imported))


@cache
def _defining_module(module: str, name: str) -> str:
    """Return the module that defines what ``from module import name`` imports, looking through re-exports."""
    submodule = f"{module}.{name}"
    path = _source_file(module)
    if path is None or path.name != "__init__.py":
        return module
    if _source_file(submodule) is not None:
        return submodule
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
        modules.add(WRAPPERS[wrap].__module__)
    if settings.get(STATISTICS) is not None:
        modules.add("midway.adaptation.clustered")
    return modules


def modules_of_stream(scenario: Scenario, data: str) -> set[str]:
    """Return the modules that define the data, the corruptions and the order of the images of a stream."""
    corruptions = {CORRUPTIONS[shift].__module__ for shift in scenario.shifts if shift in CORRUPTIONS}
    return {DATA_SETS[data].__module__, SCENARIOS[scenario.kind].__module__, *corruptions, *STREAMING}


def registering_modules(cell: Cell) -> tuple[str, ...]:
    """Return the modules outside midway that another process has to import before it runs a cell.

    Example:
        >>> from midway.bench import Grid
        >>> from midway.bench.code import registering_modules
        >>> registering_modules(Grid.from_dict({"methods": "tent"}).cells()[0])
        ()
    """
    modules = modules_of_method(cell.method, cell.settings) | modules_of_stream(cell.scenario, cell.data)
    modules |= {metric.compute.__module__ for metric in METRICS.values()}
    return tuple(sorted(module for module in modules if _top(module) not in ("midway", "__main__")))


def import_modules(modules: Iterable[str]) -> None:
    """Import modules for what they register."""
    for module in modules:
        importlib.import_module(module)


def folder_digest(root: str) -> str:
    """Return a digest of the names and sizes of all files in a folder of images."""
    digest = hashlib.sha256()
    for directory, folders, files in os.walk(root):
        folders.sort()
        for file in sorted(files):
            path = Path(directory, file)
            digest.update(os.fsencode(f"{path.relative_to(root)}\n{path.lstat().st_size}\n"))
    return digest.hexdigest()[:16]
