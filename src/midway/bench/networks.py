"""Networks by the names of plans: cards, checkpoints, architectures, and functions of your own."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import torch
from torch import nn

from midway.files import file_digest
from midway.models import ARCHITECTURES, cards, create, load
from midway.suggest import unknown

FROM_FILES = "midway_networks_"
"""Prefix of the module names under which files with networks are imported."""


def load_network(name: str, classes: int) -> nn.Module:
    """Load a network by its name in a plan.

    Args:
        name: The name of a card, a checkpoint file, ``architecture@file``, an architecture (with untrained weights that
            are the same every time), or a function without arguments that returns a classifier: ``module:function``
            or ``path/to/file.py:function``.
        classes: Number of classes, if the name does not determine it.

    Example:
        >>> from midway.bench.networks import load_network
        >>> type(load_network("resnet20", 10)).__name__, type(load_network("midway.testing:tiny_network", 10)).__name__
        ('CifarResNet', 'Sequential')
    """
    if (function := _function(name)) is not None:
        with _fixed_seed():
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
        return load(file, architecture=architecture, classes=classes)
    if name in ARCHITECTURES:
        with _fixed_seed():
            return create(name, classes=classes).eval()
    return load(name)


def weights_of(name: str) -> str:
    """Return an identifier of the weights of a network that does not depend on where they are stored.

    Raises:
        ValueError: The network does not exist.

    Example:
        >>> from midway.bench.networks import weights_of
        >>> weights_of("resnet20"), len(weights_of("wrn16_2.cifar10"))
        ('untrained', 16)
    """
    if (card := {card.name: card for card in cards()}.get(name)) is not None:
        return card.sha256[:16]
    if _function(name) is not None:
        return _digest(load_network(name, 0))
    architecture, at, file = name.partition("@")
    if at and architecture not in ARCHITECTURES:
        raise ValueError(unknown("architecture", architecture, ARCHITECTURES))
    path = Path(file if at else name).expanduser()
    if path.is_file():
        return file_digest(path)[:16]
    if at:
        raise ValueError(f"there is no file {path} for {name}.")
    if name in ARCHITECTURES:
        return "untrained"
    valid = [*(card.name for card in cards()), *ARCHITECTURES]
    raise ValueError(
        unknown("network", name, valid) + " There is no such file either; "
        "write your own network as module:function or path/to/file.py:function."
    )


def absolute(name: str) -> str:
    """Return the name with the full path of a checkpoint: a worker may run in another folder.

    Example:
        >>> from midway.bench.networks import absolute
        >>> absolute("wrn16_2.cifar10")
        'wrn16_2.cifar10'
    """
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
    module = _from_file(Path(before).expanduser()) if in_file else _imported(before, name)
    function: object = getattr(module, wanted, None)
    if not callable(function):
        own = {key: value for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
        valid = [key for key, value in own.items() if callable(value) and not key.startswith("_")]
        raise ValueError(unknown(f"function of {before}", wanted, valid))
    return function


def _imported(module: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except (ImportError, TypeError) as error:  # TypeError: a path that looks like a relative import
        raise ValueError(
            f"network {name}: {module} cannot be imported ({error}). For a file, write path/to/file.py:function."
        ) from error


def _from_file(path: Path) -> ModuleType:
    """Import a file by its path, again if it changed; it can import files in its folder."""
    if not path.is_file():
        raise ValueError(f"there is no file {path} with networks.")
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
    """Return the names of the modules that define a network.

    Example:
        >>> from midway.bench.networks import modules_of
        >>> modules_of("wrn16_2.cifar10")
        {'midway.models.wide_resnet'}
    """
    if (function := _function(name)) is not None:
        layers = {type(module).__module__ for module in load_network(name, 0).modules()}
        return {function.__module__} | {module for module in layers if module.partition(".")[0] != "torch"}
    architecture = name.partition("@")[0]
    card = {card.name: card for card in cards()}.get(name)
    known = ARCHITECTURES.get(card.architecture if card else architecture)
    return {known[0].__module__} if known else {kind.__module__ for kind, _ in ARCHITECTURES.values()}


def _digest(network: nn.Module) -> str:
    """Return a checksum over all weights and buffers and their names."""
    digest = hashlib.sha256()
    for name, tensor in [*network.named_parameters(), *network.named_buffers()]:
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


@contextmanager
def _fixed_seed() -> Iterator[None]:
    """Draw the same random numbers within the block every time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
