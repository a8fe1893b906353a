"""What cells run on: data sets, networks by their names in plans, and streams, each loaded once per process."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from midway._files import file_digest
from midway._suggest import unknown
from midway.adaptation.class_subset import select_classes
from midway.bench.record import Cell
from midway.data import CorruptedImages, ImageArray, ImageSet, data_home, load
from midway.data.datasets import REGISTRY as DATA_SETS
from midway.data.loaders.imagenet_variants import is_imagenet_subset
from midway.methods import AdaptiveClassifier, adapt, names
from midway.models import ARCHITECTURES, cards, create, logits_of
from midway.models import load as load_checkpoint
from midway.streams import Shifted, Stream, build

LARGEST_CACHE = 2**30
"""Bytes of a stream up to which its images are computed once and kept for the next method."""

FROM_FILES = "midway_networks_"
"""Prefix of the module names under which files with networks are imported."""


def load_network(name: str, classes: int) -> nn.Module:
    """Load a network by its name in a plan.

    The name is that of a card, a checkpoint file, ``architecture@file``, an architecture (with untrained weights that
    are the same every time), or a function without arguments that returns a classifier: ``module:function`` or
    ``path/to/file.py:function``. The number of classes is used if the name does not determine it.
    """
    if (function := _function(name)) is not None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            try:
                network = function()
            except Exception as error:
                raise ValueError(f"network {name}: calling it failed ({type(error).__name__}: {error}).") from error
        if not isinstance(network, nn.Module):
            raise ValueError(f"network {name}: it returned a {type(network).__name__}, not a torch.nn.Module.")
        if any(nn.parameter.is_lazy(parameter) for parameter in network.parameters()):
            raise ValueError(f"network {name}: it has lazy layers that have not seen an image: call it once.")
        return network.eval()
    architecture, at, file = name.partition("@")
    if at:
        return load_checkpoint(file, architecture=architecture)
    if name in ARCHITECTURES:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return create(name, classes=classes).eval()
    return load_checkpoint(name)


def weights_of(name: str) -> str:
    """Return an identifier of the weights of a network that does not depend on where they are stored."""
    if (card := {card.name: card for card in cards()}.get(name)) is not None:
        return card.sha256[:16]
    if _function(name) is not None:
        return weights_digest(load_network(name, 0))
    architecture, at, file = name.partition("@")
    if at and architecture not in ARCHITECTURES:
        raise ValueError(unknown("architecture", architecture, ARCHITECTURES))
    path = Path(file if at else name).expanduser()
    if path.suffix == ".py":
        raise ValueError(
            f"{name} names no function: write {name}:FUNCTION, with the function that returns the network."
        )
    if path.is_file():
        return file_digest(path)[:16]
    if at:
        raise ValueError(f"there is no file {path} for {name}: write {architecture}@FILE with a checkpoint.")
    if name in ARCHITECTURES:
        return "untrained"
    valid = [*(card.name for card in cards()), *ARCHITECTURES]
    raise ValueError(
        unknown("network", name, valid) + " There is no such file either; "
        "write your own network as module:function or path/to/file.py:function."
    )


def make_absolute(name: str) -> str:
    """Return the name with the full path of a checkpoint: a worker may run in another folder."""
    if name.rpartition(":")[0].endswith(".py"):
        return name
    architecture, at, file = name.partition("@")
    path = Path(file if at else name).expanduser()
    return f"{architecture}{at}{path.resolve()}" if at else str(path.resolve()) if path.is_file() else name


def _function(name: str) -> Callable[..., object] | None:
    """Return the function that a name refers to; None if the name is of another form."""
    before, colon, wanted = name.rpartition(":")
    in_file = before.endswith(".py")
    if not colon or not wanted.isidentifier() or (not in_file and ("@" in name or Path(name).expanduser().is_file())):
        return None
    try:
        module = _from_file(Path(before).expanduser()) if in_file else importlib.import_module(before)
    except (ImportError, TypeError) as error:  # TypeError: a path that looks like a relative import
        raise ValueError(
            f"network {name}: {before} cannot be imported ({error}). For a file, write path/to/file.py:function."
        ) from error
    function: object = getattr(module, wanted, None)
    if not callable(function):
        own = {key: value for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
        valid = [key for key, value in own.items() if callable(value) and not key.startswith("_")]
        raise ValueError(unknown(f"function of {before}", wanted, valid))
    return function


def _from_file(path: Path) -> ModuleType:
    """Import a file by its path, again if it changed; it can import files in its folder."""
    if not path.is_file():
        raise ValueError(f"there is no file {path} with networks: write path/to/file.py:function.")
    path = path.resolve()
    name = FROM_FILES + hashlib.sha256(f"{path} {file_digest(path)}".encode()).hexdigest()[:12]
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        sys.path.append(str(path.parent))
        try:
            spec.loader.exec_module(module)
        except BaseException as error:
            del sys.modules[name]
            if not isinstance(error, Exception):
                raise
            raise ValueError(f"{path} cannot be imported ({type(error).__name__}: {error}).") from error
    return sys.modules[name]


def modules_of(name: str) -> set[str]:
    """Return the names of the modules that define a network."""
    if (function := _function(name)) is not None:
        layers = {type(module).__module__ for module in load_network(name, 0).modules()}
        return {function.__module__} | {module for module in layers if module.partition(".")[0] != "torch"}
    architecture = name.partition("@")[0]
    card = {card.name: card for card in cards()}.get(name)
    known = ARCHITECTURES.get(card.architecture if card else architecture)
    return {known[0].__module__} if known else {kind.__module__ for kind, _ in ARCHITECTURES.values()}


def weights_digest(network: nn.Module) -> str:
    """Return a checksum over all weights and buffers and their names."""
    digest = hashlib.sha256()
    for name, tensor in [*network.named_parameters(), *network.named_buffers()]:
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


class ResourceCache:
    """Data and networks for cells, each loaded when it is first needed; the last stream is kept as well.

    Args:
        load_data: Loads a data set, as ``midway.data.load`` does.
        make_network: Loads a network by its name and the number of classes, as ``load_network`` does.

    Example:
        >>> from midway.bench import Grid, ResourceCache
        >>> cell = Grid.from_dict({"methods": "bn", "images": 400}).cells()[0]
        >>> ResourceCache().stream(cell)
        Stream('pure:gaussian_noise', 400 images in 2 batches)
    """

    def __init__(
        self, *, load_data: Callable[..., ImageSet] = load, make_network: Callable[[str, int], nn.Module] = load_network
    ) -> None:
        self._load_data, self._make_network = load_data, make_network
        self._sets: dict[tuple[Any, ...], ImageSet] = {}
        self._arranged: dict[tuple[Any, ...], ImageSet] = {}
        self._networks: dict[tuple[Any, ...], nn.Module] = {}
        self._stream: tuple[tuple[Any, ...], Stream] | None = None

    def stream(self, cell: Cell) -> Stream:
        """Return the stream of a cell, its images in memory if they fit."""
        if self._stream is None or self._stream[0] != cell.stream_key:
            self._stream = None  # two streams are never in memory at once
            stream = self.lazy_stream(cell)
            pixels = len(stream.order) * int(np.prod(next(iter(stream.sources.values())).shape[1:]))
            self._stream = (cell.stream_key, stream.cached() if pixels <= LARGEST_CACHE else stream)
        return self._stream[1]

    def lazy_stream(self, cell: Cell) -> Stream:
        """Return the stream of a cell; its images are computed when they are read."""
        return build(cell.scenario, self._shifted(cell), batch_size=cell.batch_size, seed=cell.seed)

    def network(self, cell: Cell) -> nn.Module:
        """Return the network of a cell on its device, in its precision."""
        data = self.data_set(cell)
        classes = len(data.class_names)
        key = (cell.network, cell.weights, classes, data.logits, cell.precision, cell.device)
        if key not in self._networks:
            network = self._make_network(cell.network, classes if data.logits is None else max(data.logits) + 1)
            if data.logits is not None:
                network = limit_classes(network, data.logits)
            self._networks[key] = (InBf16(network) if cell.precision == "bf16" else network).to(cell.device)
        return self._networks[key]

    def method(self, cell: Cell) -> AdaptiveClassifier:
        """Return the network of a cell wrapped in its method."""
        if cell.method not in names():
            importlib.import_module(cell.module)
        return adapt(self.network(cell), cell.method, **cell.settings)

    def data_set(self, cell: Cell) -> ImageSet:
        """Return the images of a cell under the first of its shifts."""
        return self._shifted(cell)(cell.scenario.shifts[0], cell.scenario.severity)

    def _shifted(self, cell: Cell) -> Shifted:
        """Return the function from a shift and a severity to the images of a cell."""
        shifts = DATA_SETS[cell.data].shifts

        def read(**which: Any) -> ImageSet:
            which |= {} if cell.classes is None else {"classes": cell.classes}
            key = (cell.data, cell.root, cell.size, *which.items())
            if key not in self._sets:
                self._sets[key] = self._load_data(cell.data, cell.root, size=cell.size, **which)
            part = (*key, cell.images, cell.seed)
            if part not in self._arranged:
                self._arranged[part] = arrange(self._sets[key], images=cell.images, seed=cell.seed)
            return self._arranged[part]

        def shifted(shift: str, severity: int) -> ImageSet:
            if shifts == "domains":
                return replace(read(domain=shift), name=shift)
            if shifts == "stored":
                return replace(read(corruption=shift, severity=severity), name=shift)
            clean = replace(read(), name=shift)
            if shift == "clean":
                return clean
            return replace(clean, images=CorruptedImages(clean.images, shift, severity=severity, seed=cell.seed))

        return shifted


def check_data(cells: Iterable[Cell], resources: ResourceCache | None) -> None:
    """Raise before a run begins if a data set is missing or damaged.

    Without resources of this process, data sets whose files exist are only opened if that reads no images.
    """
    for cell in {(cell.data, cell.root, cell.size, cell.classes): cell for cell in cells}.values():
        folder = data_home() / cell.data if cell.root is None else Path(cell.root)
        reads_lazily = bool({"corruption", "size"} & DATA_SETS[cell.data].arguments)
        if resources is not None or reads_lazily or not (folder.is_dir() and any(folder.iterdir())):
            data = (resources or ResourceCache()).data_set(cell)
            if not data.labelled:
                raise ValueError(
                    f"{folder} has no class folders, so its images have no labels and methods no accuracy: sort them "
                    "into one folder per class, or use midway.compare(model, folder), which needs no labels."
                )


def arrange(data: ImageSet, *, images: int | None, seed: int) -> ImageSet:
    """Return a set in the order of a test: shuffled by the seed if its images are sorted by class.

    Folders list one class after the other, so the first images would all be of one class. At most ``images`` are kept.
    """
    indices = np.arange(len(data))
    if len(data) > 1 and data.labels[0] != data.labels[-1] and (np.diff(data.labels) >= 0).all():
        indices = np.random.default_rng((seed, len(data))).permutation(indices)
    indices = indices[:images]
    if len(indices) == len(data) and (np.diff(indices) == 1).all():
        return data
    return replace(data, images=Picked(data.images, indices), labels=data.labels[indices])


def limit_classes(network: nn.Module, logits: Sequence[int]) -> nn.Module:
    """Return a network with some of its classes; one that was trained on just the classes of ImageNet-R as it is."""
    return select_classes(network, logits, or_just_these=is_imagenet_subset(logits))


class Picked:
    """Some images of an array in some order, read when they are asked for."""

    def __init__(self, images: ImageArray, indices: NDArray[np.int64]) -> None:
        self.images, self.indices = images, indices
        self.shape = (len(indices), *tuple(images.shape)[1:])

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: Any, /) -> Any:
        return self.images[self.indices[index]]


class InBf16(nn.Module):
    """A network that computes in bf16 and returns float32."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits."""
        with torch.autocast(images.device.type, torch.bfloat16):
            logits: Tensor = logits_of(self.network(images))
        return logits.float()
