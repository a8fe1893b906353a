"""Plans: a grid of methods, networks, data, scenarios and seeds becomes a list of cells."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from midway._suggest import unknown
from midway.adaptation.precision import use_bf16
from midway.bench.code import MEASURING, code_digest, folder_digest, modules_of_method, modules_of_stream
from midway.bench.entries import READERS, Entry, PlanError, import_plugins
from midway.bench.record import Cell
from midway.bench.resources import make_absolute, modules_of, weights_of
from midway.data import corruption_names, names
from midway.data.datasets import REGISTRY as DATA_SETS
from midway.methods import find
from midway.methods import names as method_names
from midway.streams import Scenario, expand


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A comparison; every combination is a cell.

    Attributes:
        methods: The rows.
        networks: See ``Cell.network``.
        data: Names of data sets, optionally with a folder: ``"cifar10-c@/data/c"``.
        root: Folder of the data sets without a folder of their own.
        scenarios: See ``midway.streams.expand``.
        severities: Severities of scenarios that have none.
        seeds: Seeds of streams and methods.
        batch_sizes: Images per batch, 1 to 500.
        images: Use at most this many images of a data set; None for all.
        size: Side in pixels of images in files.
        classes: Which logit each class folder is: names, indices, a file or a list, see ``midway.data.load``.
        precision: ``"float32"``, ``"bf16"``, or ``"auto"``: bf16 where the machine computes it fast.
        device: ``"cpu"``, ``"cuda"``, ..., or ``"auto"``: a GPU if there is one.
        threads: Threads per cell.

    Example:
        >>> from midway.bench import Grid
        >>> plan = {"methods": "source,tent", "scenarios": "pure:all", "severities": [3, 5], "seeds": [0, 1]}
        >>> len(Grid.from_dict(plan).cells())
        120
    """

    methods: tuple[Entry, ...]
    networks: tuple[str, ...] = ("wrn16_2.cifar10",)
    data: tuple[str, ...] = ("cifar10-mini",)
    root: str | None = None
    scenarios: tuple[str, ...] = ("pure:gaussian_noise",)
    severities: tuple[int, ...] = (5,)
    seeds: tuple[int, ...] = (0,)
    batch_sizes: tuple[int, ...] = (200,)
    images: int | None = None
    size: int | None = None
    classes: str | tuple[str, ...] | tuple[int, ...] | None = None
    precision: str = "float32"
    device: str = "auto"
    threads: int = 1

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Grid:
        """Check a plan of plain values, from a TOML file or the command line; a ``PlanError`` says what is wrong where.

        The keys are those of this class; a single value may replace a list of one. ``methods`` is a string, ``method``
        a list of tables with ``name``, ``label`` and settings. ``import`` names modules that register things.
        """
        for key in content:
            if key not in READERS:
                raise PlanError(unknown("key", key, READERS), key)
        import_plugins(READERS["import"]("import", content.get("import", [])))
        values = {key: READERS[key](key, value) for key, value in content.items() if key != "import"}
        values["methods"] = (*values.get("methods", ()), *values.pop("method", ()))
        if "scenarios" not in values and any(text.partition("@")[0] == "folder" for text in values.get("data", ())):
            raise PlanError(
                'a folder of images needs scenarios: scenarios = "pure:clean" uses the images as they are, "pure:fog" '
                "adds fog.",
                "data",
            )
        if not values["methods"]:
            raise PlanError(f"there are no methods: name some of {', '.join(method_names())}.", "methods")
        return cls(**values)

    def cells(self) -> list[Cell]:
        """List the cells; cells of one stream are adjacent."""
        scenarios = self.each_scenario()
        with _errors_at("networks"):
            weights = {network: weights_of(network) for network in self.networks}
        sets = [_data_set(text, self.root) for text in self.data]
        _check_shifts([name for name, _ in sets], scenarios)
        for name, _ in sets:
            if self.classes is not None and "classes" not in DATA_SETS[name].arguments:
                raise PlanError(f"classes does not apply to the data set {name}: leave it out.", "classes")
        precision, device = self._resolved()
        codes = _codes(self, sets, scenarios)
        cells = [
            Cell(
                method=entry.name,
                label=entry.label,
                settings=entry.complete_settings(seed),
                network=make_absolute(network),
                weights=weights[network],
                further_weights=find(entry.name).further_weights(entry.settings),
                data=name,
                root=root,
                images=self.images,
                size=self.size,
                classes=self.classes,
                scenario=scenario,
                seed=seed,
                batch_size=batch_size,
                precision=precision,
                device=device,
                threads=self.threads,
                module=find(entry.name).__module__,
                code=codes[entry.label, network, name, root, scenario],
            )
            for network, (name, root), batch_size, scenario, seed, entry in itertools.product(
                self.networks, sets, self.batch_sizes, scenarios, self.seeds, self.methods
            )
        ]
        _check_unique(cells)
        return cells

    def each_scenario(self) -> list[Scenario]:
        """List the scenarios; ``pure:all`` is fifteen."""
        scenarios: dict[Scenario, None] = {}
        with _errors_at("scenarios"):
            for text, severity in itertools.product(self.scenarios, self.severities):
                scenarios |= dict.fromkeys(expand(text, severity=severity))
        return list(scenarios)

    def _resolved(self) -> tuple[str, str]:
        """Return the precision and device that ``"auto"`` stands for: a cell must not depend on where it runs."""
        with _errors_at("device"):
            device = resolve_device(self.device)
        with _errors_at("precision"):
            half = use_bf16(self.precision, torch.device(device))  # type: ignore[arg-type]
        return "bf16" if half else "float32", device


def resolve_device(name: str) -> str:
    """Return the device that a name stands for, as torch names it: ``"auto"`` is a GPU if there is one."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device '{name}' is not known to torch: use cpu, cuda or auto.") from error
    return name


def _codes(
    grid: Grid, sets: Iterable[tuple[str, str | None]], scenarios: Sequence[Scenario]
) -> dict[tuple[str, str, str, str | None, Scenario], str]:
    """Return label, network, data set, folder and scenario -> digest of the code and of the files of a folder."""
    networks = {network: modules_of(network) for network in grid.networks}
    methods = {entry.label: modules_of_method(entry.name, entry.settings) for entry in grid.methods}
    digests: dict[frozenset[str], str] = {}
    codes = {}
    for name, root in sets:
        files = "" if root is None else folder_digest(root, nested=name == "folder")
        for scenario in scenarios:
            streaming = modules_of_stream(scenario, name) | {*MEASURING}
            for label, network in itertools.product(methods, networks):
                modules = frozenset(methods[label] | networks[network] | streaming)
                if modules not in digests:
                    digests[modules] = code_digest(modules)
                codes[label, network, name, root, scenario] = digests[modules] + files
    return codes


def _check_shifts(data: Sequence[str], scenarios: Sequence[Scenario]) -> None:
    """Refuse misspelt corruptions before anything runs; the domains of a data set are only known from its files."""
    if {DATA_SETS[name].shifts for name in data} == {"domains"}:
        return
    valid = (*corruption_names(), "clean")
    for scenario in scenarios:
        for shift in scenario.shifts:
            if shift not in valid:
                raise PlanError(f"{scenario}: {unknown('corruption', shift, valid)}", "scenarios")


def _check_unique(cells: Sequence[Cell]) -> None:
    """Refuse entries with the same label, and entries that would be run twice."""
    rows: set[tuple[object, ...]] = set()
    keys: dict[str, Cell] = {}
    for cell in cells:
        row = (cell.label, cell.network, *cell.stream_key)
        if row in rows:
            raise PlanError(
                f"two entries are called '{cell.label}': give each a label of its own, such as "
                f'{cell.method}(..., label="other").',
                "methods",
            )
        if cell.key in keys:
            raise PlanError(
                f"'{keys[cell.key].label}' and '{cell.label}' have the same settings: leave one out.", "methods"
            )
        rows.add(row)
        keys[cell.key] = cell


@contextmanager
def _errors_at(key: str) -> Iterator[None]:
    """Turn a ``ValueError`` within the block into a ``PlanError`` at a key."""
    try:
        yield
    except ValueError as error:
        raise PlanError(str(error), key) from error


def _data_set(text: str, root: str | None) -> tuple[str, str | None]:
    name, at, folder = text.partition("@")
    if name not in names():
        folder = f" For a folder write folder@{name}." if Path(name).is_dir() else ""
        raise PlanError(f"{unknown('data set', name, names())}{folder}", "data")
    chosen = folder if at else root
    if chosen is None:
        return name, None
    path = Path(chosen).expanduser().resolve()
    if not path.is_dir():
        raise PlanError(f"there is no folder {path} for {name}: {DATA_SETS[name].remedy}", "data" if at else "root")
    return name, str(path)


def read_plan(path: Path) -> dict[str, Any]:
    """Read a TOML file as plain values without checking them; an error has the line."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no plan at {path}: give a TOML file, see docs/plans.md, or flags.")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise PlanError(f"{path} is not UTF-8 text ({error}).") from error
    except tomllib.TOMLDecodeError as error:
        position = re.search(r"\(at line (\d+), column \d+\)", str(error))
        text = path.read_text(encoding="utf-8")
        line = int(position[1]) if position else text.count("\n") + 1
        what = str(error).partition(" (at ")[0]
        raise PlanError(f"{path}:{line}: {what}: this is not TOML; quote strings, and write lists in [ ].") from error


def load_plan(path: Path | str) -> Grid:
    r"""Read and check a plan in a TOML file; a ``PlanError`` reads ``file:line: what is wrong, what to do``.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from midway.bench import load_plan
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plan = Path(folder, "plan.toml")
        ...     _ = plan.write_text('methods = "source,bn"\nseeds = [0, 1]\n')
        ...     [entry.name for entry in load_plan(plan).methods]
        ['source', 'bn']
    """
    path = Path(path)
    content = read_plan(path)
    try:
        if "import" in content:
            import_plugins(READERS["import"]("import", content["import"]), beside=path)
        grid = Grid.from_dict(content)
        grid.cells()
    except PlanError as error:
        raise locate(path, error) from error
    return grid


def locate(path: Path, error: PlanError) -> PlanError:
    """Return an error with the file and the line of the key at fault in front of its message."""
    return PlanError(f"{path}:{line_of(path.read_text(encoding='utf-8'), *error.where)}: {error}", *error.where)


def line_of(text: str, *where: str | int) -> int:
    """Return the line of a key in TOML text; of its table, or the first one, if the key is not written.

    ``where`` is a key of the top table; or ``"method"``, the index of the table, and a key in it.
    """
    table, header, lines = -1, 1, text.splitlines()
    wanted = int(where[1]) if len(where) > 1 else -1
    key = "" if len(where) in (0, 2) else str(where[-1])
    for number, line in enumerate(lines, start=1):
        if re.match(r"\s*\[\[\s*\"?method\"?\s*\]\]", line):
            table += 1
            if table == wanted or (key == "method" and wanted < 0):
                header = number
                if not key or key == "method":
                    return number
        elif table == wanted and key and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", line):
            return number
    return header
