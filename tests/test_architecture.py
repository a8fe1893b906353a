"""The sub-packages of midway form layers: imports go downwards, never upwards and never in circles."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[1] / "src"
ROOT = "midway"
MAX_LINES = 350

# From bottom to top. A unit (a sub-package or top-level module) imports units of lower layers. Units of one layer may
# import each other, unless that gives a cycle.
LAYERS = [
    {"_allocator", "_version", "_errors", "_suggest", "_registry", "_files", "_arrays", "_secrets", "_workers"},
    {"functional", "metrics", "significance"},
    {"models", "data"},
    {"streams", "sampling"},
    {"adaptation"},
    {"methods"},
    {"_equal", "_resume", "testing", "cost"},
    {"bench"},
    {"tune"},
    {"report"},
    {"comparison"},
    {"cli"},
    {"__main__"},
]
LEVEL = {unit: level for level, layer in enumerate(LAYERS) for unit in layer}
MAY_IMPORT_ROOT = {ROOT, "cli", "__main__"}


class Import(NamedTuple):
    """One import of midway: the unit that contains it, the unit it imports, and its position in the source."""

    importer: str
    imported: str
    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}  ({self.importer} imports {self.imported})"


def unit_of(module: str) -> str:
    """Return the sub-package or top-level module that a dotted name belongs to; the package root is a unit, too."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def import_statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield every import below a node, those inside functions included, those for type checkers alone excluded."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node
    children: list[ast.AST] = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.If) and is_type_checking(node.test):
        children = list(node.orelse)
    for child in children:
        yield from import_statements(child)


def imported_modules(statement: ast.Import | ast.ImportFrom, package: str) -> list[str]:
    """Return the dotted names that a statement imports; `from midway import data` imports the package root."""
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    module = statement.module or ""
    if statement.level:
        parents = package.split(".")[: len(package.split(".")) - statement.level + 1]
        module = ".".join([*parents, *([module] if module else [])])
    return [module]


def imports_of(path: Path, source: Path = SOURCE) -> list[Import]:
    """Return the imports of midway in one file; those within one unit are left out."""
    parts = list(path.relative_to(source).with_suffix("").parts)
    package = ".".join(parts[:-1])
    importer = unit_of(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    text = path.read_text()
    lines = text.splitlines()
    imports = []
    for statement in import_statements(ast.parse(text)):
        for module in imported_modules(statement, package):
            if module.split(".")[0] == ROOT and unit_of(module) != importer:
                line = statement.lineno
                imports.append(
                    Import(importer, unit_of(module), path.relative_to(source), line, lines[line - 1].strip())
                )
    return imports


def files(source: Path = SOURCE) -> list[Path]:
    return sorted((source / ROOT).rglob("*.py"))


def upward(imports: list[Import]) -> list[Import]:
    """Return the imports of a higher layer; those of the package root have a test of their own."""
    return [
        each
        for each in imports
        if ROOT not in (each.importer, each.imported) and LEVEL[each.imported] > LEVEL[each.importer]
    ]


def cycle(imports: list[Import]) -> list[Import]:
    """Return the imports along one cycle between units, or nothing if no cycle exists."""
    graph: dict[str, set[str]] = {}
    for each in imports:
        if ROOT not in (each.importer, each.imported):
            graph.setdefault(each.importer, set()).add(each.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        units = error.args[1][::-1]  # graphlib lists each unit after the one it is imported by
        edges = set(pairwise(units))
        return [each for each in imports if (each.importer, each.imported) in edges]
    return []


def listed(imports: list[Import]) -> str:
    return "".join(f"\n  {each}" for each in imports)


@pytest.fixture(scope="module")
def imports() -> list[Import]:
    return [each for path in files() for each in imports_of(path)]


def test_every_unit_has_a_layer() -> None:
    units = {unit_of(".".join(path.relative_to(SOURCE).with_suffix("").parts)) for path in files()} - {"__init__"}
    assert units - set(LEVEL) == set(), "add the new sub-package or module to LAYERS"


def test_imports_go_downwards(imports: list[Import]) -> None:
    wrong = upward(imports)
    assert not wrong, f"{len(wrong)} imports go upwards:{listed(wrong)}"


def test_no_cycle_between_packages(imports: list[Import]) -> None:
    wrong = cycle(imports)
    assert not wrong, f"these imports form a cycle:{listed(wrong)}"


def test_only_the_command_line_imports_the_package_root(imports: list[Import]) -> None:
    wrong = [each for each in imports if each.imported == ROOT and each.importer not in MAY_IMPORT_ROOT]
    assert not wrong, f"{len(wrong)} imports of the package root, which imports everything:{listed(wrong)}"


def test_no_file_is_too_long() -> None:
    lengths = {path.relative_to(SOURCE): len(path.read_text().splitlines()) for path in files()}
    long = {str(path): length for path, length in lengths.items() if length > MAX_LINES}
    assert not long, f"files above {MAX_LINES} lines; split them by subject: {long}"


# The checks themselves, on a small package.


def write(source: Path, **modules: str) -> list[Import]:
    for name, text in modules.items():
        path = source / ROOT / f"{name.replace('__in__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return [each for path in files(source) for each in imports_of(path, source)]


def test_an_upward_import_inside_a_function_is_reported_with_its_line(tmp_path: Path) -> None:
    imports = write(tmp_path, data__in__load="def load():\n    from midway.bench import run\n", bench__in__run="")
    assert [str(each) for each in upward(imports)] == [
        "midway/data/load.py:2: from midway.bench import run  (data imports bench)"
    ]


def test_relative_imports_are_followed(tmp_path: Path) -> None:
    imports = write(tmp_path, data__in__load="from ..bench.run import go\nfrom . import other\nfrom .other import x\n")
    assert [(each.importer, each.imported) for each in imports] == [("data", "bench")]


def test_imports_for_type_checkers_do_not_count(tmp_path: Path) -> None:
    text = "import typing\nif typing.TYPE_CHECKING:\n    import midway.bench\nelse:\n    import midway.tune\n"
    assert [each.imported for each in write(tmp_path, data__in__load=text)] == ["tune"]


def test_a_cycle_within_one_layer_is_reported(tmp_path: Path) -> None:
    imports = write(
        tmp_path, data__in__a="import midway.models.b", models__in__b="from midway.data import a\nimport os"
    )
    assert upward(imports) == []
    assert {(each.importer, each.imported) for each in cycle(imports)} == {("data", "models"), ("models", "data")}
    assert cycle(imports[:1]) == []


def test_a_subpackage_imported_by_name_imports_the_root(tmp_path: Path) -> None:
    imports = write(tmp_path, bench__in__run="from midway import data\nfrom .. import models\nimport midway as m\n")
    assert [each.imported for each in imports] == [ROOT] * 3
