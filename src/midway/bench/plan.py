"""Plans: a grid of methods, networks, data, scenarios and seeds becomes a list of cells."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import midway
from midway.adaptation.precision import use_bf16
from midway.adaptation.registry import WRAPPERS
from midway.bench.cell import Cell
from midway.bench.code import code_digest, folder_digest
from midway.bench.entries import Entry, SettingError, parse_entries
from midway.bench.networks import absolute, modules_of, weights_of
from midway.data import corruption_names
from midway.data.corruptions import REGISTRY as CORRUPTIONS
from midway.data.datasets import REGISTRY
from midway.streams import Scenario, expand
from midway.streams.registry import REGISTRY as SCENARIOS
from midway.suggest import unknown

LARGEST_BATCH = 500


class PlanError(ValueError):
    """A plan that cannot be run as it is written.

    Attributes:
        where: The place in the plan: a key, or ``"method"``, the number of the entry and its setting.
    """

    def __init__(self, message: str, *where: str | int) -> None:
        super().__init__(message)
        self.where = where


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What to compare; every combination is a cell.

    Attributes:
        methods: The rows.
        networks: See ``Cell.network``.
        data: Names of data sets, each with its folder after an ``@`` if it has one of its own.
        root: Folder of data sets that name none.
        scenarios: Texts of scenarios, see ``midway.streams.expand``.
        severities: For scenarios that name none.
        seeds: Of streams and methods.
        batch_sizes: Images a batch, 1 to 500.
        images: Use at most this many images of a data set; None for all.
        size: Side in pixels of images in files.
        precision: ``"float32"``, ``"bf16"``, or ``"auto"``: what this machine is fast at.
        device: ``"cpu"``, ``"cuda"``, ..., or ``"auto"``: a GPU if there is one.
        threads: Threads a cell uses.

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
        """Check a plan of plain values, as it stands in a TOML file or comes from the command line.

        Args:
            content: The keys are those of this class; lists of one may be written as the one. ``methods`` is text,
                ``method`` a list of tables with ``name``, ``label`` and settings. ``import`` names modules that
                register methods of their own.

        Raises:
            PlanError: With what is wrong, what to do, and the place in the plan.
        """
        for key in content:
            if key not in _READERS:
                raise PlanError(unknown("key", key, _READERS), key)
        import_methods(_READERS["import"]("import", content.get("import", [])))
        read = {key: _READERS[key](key, value) for key, value in content.items() if key != "import"}
        read["methods"] = (*read.get("methods", ()), *read.pop("method", ()))
        if "scenarios" not in read and any(text.partition("@")[0] == "folder" for text in read.get("data", ())):
            raise PlanError(
                'what shall be done to the images of the folder is not said: scenarios = "pure:clean" takes them as '
                'they are, "pure:fog" adds fog.',
                "data",
            )
        if not read["methods"]:
            raise PlanError(f"there are no methods: name some of {', '.join(midway.methods.names())}.", "methods")
        return cls(**read)

    def cells(self) -> list[Cell]:
        """List the cells; those that share a stream stand together.

        Raises:
            PlanError: A name is unknown, a file is missing, or two entries are the same.
        """
        scenarios = self.each_scenario()
        weights = {network: _weights(network) for network in self.networks}
        sets = [_data_set(text, self.root) for text in self.data]
        self._check_shifts([name for name, _ in sets], scenarios)
        precision, device = self._resolved()
        folders = {root: folder_digest(root) for name, root in sets if name == "folder" and root is not None}
        modules = {network: modules_of(network) for network in self.networks}
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
                module=midway.methods.find(entry.name).__module__,
                code=code_digest({*modules_of_method(entry), *modules[network], *modules_of_stream(scenario)})
                + folders.get(root or "", ""),
            )
            for network, (name, root), batch_size, scenario, seed, entry in itertools.product(
                self.networks, sets, self.batch_sizes, scenarios, self.seeds, self.methods
            )
        ]
        _refuse_twins(cells)
        return cells

    def each_scenario(self) -> list[Scenario]:
        """List the scenarios one by one, ``pure:all`` as fifteen.

        Raises:
            PlanError: One makes no sense.

        Example:
            >>> from midway.bench import Grid
            >>> scenarios = Grid.from_dict({"methods": "bn", "scenarios": "pure:all"}).each_scenario()
            >>> len(scenarios), str(scenarios[0])
            (15, 'pure:gaussian_noise')
        """
        found: dict[Scenario, None] = {}
        for text in self.scenarios:
            for severity in self.severities:
                try:
                    found |= dict.fromkeys(expand(text, severity=severity))
                except ValueError as error:
                    raise PlanError(str(error), "scenarios") from error
        return list(found)

    def _check_shifts(self, names: Sequence[str], scenarios: Sequence[Scenario]) -> None:
        """Find misspelt corruptions before anything runs; domains are only known where the data lie."""
        if all(REGISTRY[name].shifts == "domains" for name in names):
            return
        valid = (*corruption_names(), "clean")
        for scenario in scenarios:
            for shift in scenario.shifts:
                if shift not in valid:
                    raise PlanError(f"{scenario}: {unknown('corruption', shift, valid)}", "scenarios")

    def _resolved(self) -> tuple[str, str]:
        """Say what ``"auto"`` means here: a cell must not depend on where it is run."""
        device = self.device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            kind = torch.device(device)
        except RuntimeError as error:
            raise PlanError(f"device '{device}' is unknown to torch: use cpu, cuda or auto.", "device") from error
        try:
            half = use_bf16(self.precision, kind)  # type: ignore[arg-type]
        except ValueError as error:
            raise PlanError(str(error), "precision") from error
        return "bf16" if half else "float32", device


def modules_of_method(entry: Entry) -> set[str]:
    """Return the modules that define a method with its wrapper and its statistics."""
    modules = {midway.methods.find(entry.name).__module__}
    if (wrap := entry.settings.get("wrap")) is not None:
        modules.add(WRAPPERS[wrap].__module__)
    if entry.settings.get("statistics") is not None:
        modules.add("midway.adaptation.clustered")
    return modules


def modules_of_stream(scenario: Scenario) -> set[str]:
    """Return the modules that make the images of a scenario and measure the answers to them."""
    corruptions = {CORRUPTIONS[shift].__module__ for shift in scenario.shifts if shift in CORRUPTIONS}
    return corruptions | {
        "midway.data.datasets",
        SCENARIOS[scenario.kind].__module__,
        "midway.bench.measure",
        "midway.metrics.classification",
    }


def _refuse_twins(cells: Sequence[Cell]) -> None:
    """Refuse entries that no table could tell apart, and those that would be run twice."""
    labels: dict[tuple[str, str], Cell] = {}
    keys: dict[str, Cell] = {}
    for cell in cells:
        place = (cell.label, str((cell.network, cell.data, cell.root, cell.batch_size, cell.scenario, cell.seed)))
        if place in labels:
            raise PlanError(f"two entries are called '{cell.label}': give each a label of its own.", "methods")
        if cell.key in keys:
            raise PlanError(f"'{keys[cell.key].label}' and '{cell.label}' are set alike: leave one out.", "methods")
        labels[place] = keys[cell.key] = cell


def _weights(network: str) -> str:
    try:
        return weights_of(network)
    except ValueError as error:
        raise PlanError(str(error), "networks") from error


def _data_set(text: str, root: str | None) -> tuple[str, str | None]:
    name, at, folder = text.partition("@")
    if name not in midway.data.names():
        raise PlanError(unknown("data set", name, midway.data.names()), "data")
    chosen = folder if at else root
    if chosen is None:
        return name, None
    path = Path(chosen).expanduser().resolve()
    if not path.is_dir():
        raise PlanError(f"there is no folder {path} for {name}.", "data" if at else "root")
    return name, str(path)


# ---- reading plain values --------------------------------------------------------------------------------------------


def _texts(key: str, value: Any) -> tuple[str, ...]:
    found = (value,) if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not all(isinstance(each, str) and each for each in found):
        raise PlanError(f'{key} must be text or a list of texts, such as {key} = ["..."], got {value!r}.', key)
    return _some(key, tuple(found))


def _names(key: str, value: Any) -> tuple[str, ...]:
    return _texts(key, [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value)


def _wholes(key: str, value: Any, least: int, most: int | None = None) -> tuple[int, ...]:
    found = value if isinstance(value, list | tuple) else (value,)
    return _some(key, tuple(_whole(key, each, least, most) for each in found))


def import_methods(modules: Iterable[str]) -> None:
    """Import modules that register methods of their own; those in the working directory are found as well.

    Raises:
        PlanError: One cannot be imported.

    Example:
        >>> from midway.bench.plan import import_methods
        >>> import_methods(["my_methods.py"])
        Traceback (most recent call last):
        midway.bench.plan.PlanError: import: my_methods.py is no name of a module: write my_methods.
    """
    for module in modules:
        if (here := str(Path.cwd())) not in sys.path:
            sys.path.append(here)
        if module.endswith(".py") or not all(part.isidentifier() for part in module.split(".")):
            right = Path(module).stem.lstrip(".")
            raise PlanError(f"import: {module} is no name of a module: write {right}.", "import")
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise PlanError(f"import: {error}: install it, or name a module that is there.", "import") from error
        except Exception as error:  # whatever the code of somebody else raises
            said = f"{type(error).__name__}: {error}"
            raise PlanError(f"import: {module} cannot be imported ({said}): mend it.", "import") from error


def _whole(key: str, value: Any, least: int, most: int | None = None) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least or (most is not None and value > most):
        limits = f"at least {least}" if most is None else f"from {least} to {most}"
        raise PlanError(f"{key} must be whole, {limits}, got {value!r}.", key)
    return value


def _some(key: str, found: tuple[Any, ...]) -> tuple[Any, ...]:
    if not found and key != "import":
        raise PlanError(f"{key} is empty: name at least one, or leave the key out.", key)
    twice = next((each for place, each in enumerate(found) if each in found[:place]), None)
    if twice is not None:
        raise PlanError(f"{key} has {twice!r} twice.", key)
    return found


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise PlanError(f"{key} must be text, got {value!r}.", key)
    return value


def _methods(key: str, value: Any) -> tuple[Entry, ...]:
    try:
        return tuple(entry for text in _texts(key, value) for entry in parse_entries(text))
    except PlanError:
        raise
    except ValueError as error:
        raise PlanError(str(error), key) from error


def _method_tables(key: str, value: Any) -> tuple[Entry, ...]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise PlanError("method must be tables: write [[method]] above each one's name and settings.", key)
    entries = []
    for number, table in enumerate(value):
        settings = dict(table)
        name, label = settings.pop("name", None), settings.pop("label", None)
        if not isinstance(name, str):
            raise PlanError('a method needs its name, such as name = "tent".', key, number)
        if label is not None and (not isinstance(label, str) or not label):
            raise PlanError(f"the label of {name} must be text, got {label!r}.", key, number, "label")
        try:
            entries.append(Entry.make(name, settings, label))
        except SettingError as error:
            raise PlanError(str(error), key, number, error.setting) from error
    return tuple(entries)


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "methods": _methods,
    "method": _method_tables,
    "networks": _names,
    "data": _names,
    "root": _text,
    "scenarios": _names,
    "severities": lambda key, value: _wholes(key, value, 1, 5),
    "seeds": lambda key, value: _wholes(key, value, 0),
    "batch_sizes": lambda key, value: _wholes(key, value, 1, LARGEST_BATCH),
    "images": lambda key, value: _whole(key, value, 1),
    "size": lambda key, value: _whole(key, value, 1),
    "precision": _text,
    "device": _text,
    "threads": lambda key, value: _whole(key, value, 1),
    "import": _names,
}
