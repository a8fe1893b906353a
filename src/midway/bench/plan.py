"""Plans: a grid of methods, networks, data, scenarios and seeds becomes a list of cells."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from midway.adaptation.precision import use_bf16
from midway.bench.cell import Cell
from midway.bench.code import MEASURING, code_digest, folder_digest, modules_of_method, modules_of_stream
from midway.bench.entries import Entry
from midway.bench.networks import absolute, modules_of, weights_of
from midway.bench.plan_values import READERS, PlanError, import_plugins
from midway.data import corruption_names, names
from midway.data.datasets import REGISTRY as DATA_SETS
from midway.methods import find
from midway.methods import names as method_names
from midway.streams import Scenario, expand
from midway.suggest import unknown


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
    precision: str = "float32"
    device: str = "auto"
    threads: int = 1

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Grid:
        """Check a plan of plain values, from a TOML file or the command line.

        Args:
            content: The keys are those of this class; a single value may replace a list of one. ``methods`` is a
                string, ``method`` a list of tables with ``name``, ``label`` and settings. ``import`` names modules
                that register methods, scenarios and so on.

        Raises:
            PlanError: With what is wrong, what to do, and the path to the value in the plan.
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
        """List the cells; cells of one stream are adjacent.

        Raises:
            PlanError: A name is unknown, a file is missing, or two entries are the same.
        """
        scenarios = self.each_scenario()
        weights = {network: _weights(network) for network in self.networks}
        sets = [_data_set(text, self.root) for text in self.data]
        _check_shifts([name for name, _ in sets], scenarios)
        precision, device = self._resolved()
        codes = _Codes(self, {root for name, root in sets if name == "folder"})
        cells = [
            Cell(
                method=entry.name,
                label=entry.label,
                settings=entry.complete_settings(seed),
                network=absolute(network),
                weights=weights[network],
                data=name,
                root=root,
                images=self.images,
                size=self.size,
                scenario=scenario,
                seed=seed,
                batch_size=batch_size,
                precision=precision,
                device=device,
                threads=self.threads,
                module=find(entry.name).__module__,
                code=codes.of(entry, network, scenario, name, root),
            )
            for network, (name, root), batch_size, scenario, seed, entry in itertools.product(
                self.networks, sets, self.batch_sizes, scenarios, self.seeds, self.methods
            )
        ]
        _check_unique(cells)
        return cells

    def each_scenario(self) -> list[Scenario]:
        """List the scenarios; ``pure:all`` is fifteen.

        Raises:
            PlanError: A scenario is not valid.

        Example:
            >>> from midway.bench import Grid
            >>> scenarios = Grid.from_dict({"methods": "bn", "scenarios": "pure:all"}).each_scenario()
            >>> len(scenarios), str(scenarios[0])
            (15, 'pure:gaussian_noise')
        """
        scenarios: dict[Scenario, None] = {}
        for text in self.scenarios:
            for severity in self.severities:
                try:
                    scenarios |= dict.fromkeys(expand(text, severity=severity))
                except ValueError as error:
                    raise PlanError(str(error), "scenarios") from error
        return list(scenarios)

    def _resolved(self) -> tuple[str, str]:
        """Return the precision and device that ``"auto"`` stands for: a cell must not depend on where it runs."""
        device = self.device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            kind = torch.device(device)
        except RuntimeError as error:
            raise PlanError(f"device '{device}' is not known to torch: use cpu, cuda or auto.", "device") from error
        try:
            half = use_bf16(self.precision, kind)  # type: ignore[arg-type]
        except ValueError as error:
            raise PlanError(str(error), "precision") from error
        return "bf16" if half else "float32", device


class _Codes:
    """Digests of the code of cells, each distinct set of modules digested once."""

    def __init__(self, grid: Grid, folders: set[str | None]) -> None:
        self.networks = {network: frozenset(modules_of(network)) for network in grid.networks}
        self.methods = {entry.label: frozenset(modules_of_method(entry.name, entry.settings)) for entry in grid.methods}
        self.folders = {root: folder_digest(root) for root in folders if root is not None}
        self.digests: dict[frozenset[str], str] = {}

    def of(self, entry: Entry, network: str, scenario: Scenario, data: str, root: str | None) -> str:
        """Return the digest of a cell: its code and, for a folder of images, the files in it."""
        modules = self.methods[entry.label] | self.networks[network] | modules_of_stream(scenario, data) | {*MEASURING}
        if modules not in self.digests:
            self.digests[modules] = code_digest(modules)
        return self.digests[modules] + self.folders.get(root or "", "")


def _check_shifts(data: Sequence[str], scenarios: Sequence[Scenario]) -> None:
    """Refuse misspelt corruptions before anything runs; the domains of a data set are only known from its files."""
    if all(DATA_SETS[name].shifts == "domains" for name in data):
        return
    valid = (*corruption_names(), "clean")
    for scenario in scenarios:
        for shift in scenario.shifts:
            if shift not in valid:
                raise PlanError(f"{scenario}: {unknown('corruption', shift, valid)}", "scenarios")


def _check_unique(cells: Sequence[Cell]) -> None:
    """Refuse entries with the same label, and entries that would be run twice."""
    labels: dict[tuple[str, str], Cell] = {}
    keys: dict[str, Cell] = {}
    for cell in cells:
        stream = str((cell.network, cell.data, cell.root, cell.batch_size, cell.scenario, cell.seed))
        if (cell.label, stream) in labels:
            raise PlanError(f"two entries are called '{cell.label}': give each a label of its own.", "methods")
        if cell.key in keys:
            raise PlanError(
                f"'{keys[cell.key].label}' and '{cell.label}' have the same settings: leave one out.", "methods"
            )
        labels[cell.label, stream] = keys[cell.key] = cell


def _weights(network: str) -> str:
    try:
        return weights_of(network)
    except ValueError as error:
        raise PlanError(str(error), "networks") from error


def _data_set(text: str, root: str | None) -> tuple[str, str | None]:
    name, at, folder = text.partition("@")
    if name not in names():
        raise PlanError(unknown("data set", name, names()), "data")
    chosen = folder if at else root
    if chosen is None:
        return name, None
    path = Path(chosen).expanduser().resolve()
    if not path.is_dir():
        raise PlanError(f"there is no folder {path} for {name}.", "data" if at else "root")
    return name, str(path)
