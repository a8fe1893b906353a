"""A package of somebody else's: files and entry points as ``pip install`` leaves them, for acceptance tests."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from midway._registry import Registry

CORRUPTION_AND_SCENARIO = '''
import numpy as np
from midway.data import corruption
from midway.streams import Stream, labels_of, scenario, source_of


@corruption(strengths=[0.9, 0.7, 0.5, 0.3, 0.1])
def darkness(images, strength, draws):
    """Scale all values."""
    return (images * strength[0]).astype(np.uint8)


@scenario("alternating:fog/snow@8", amount="count")
def alternating(data, shift_a, shift_b, *, period=8, severity=5, batch_size=200, seed=0):
    """Two shifts in turn, a fixed number of images each."""
    labels = labels_of(data)
    order = np.arange(len(labels))
    sources = dict(source_of(data, shift, severity, seed) for shift in (shift_a, shift_b))
    return Stream(sources, labels, order=order, group=order // period % 2, batch_size=batch_size)
'''
"""The source of a package with the corruption ``darkness`` and the scenario ``alternating``."""

ENTRY_POINTS = {"midway.corruptions": "darkness", "midway.scenarios": "alternating"}


def write_package(
    folder: Path,
    name: str = "foreign_midway",
    source: str = CORRUPTION_AND_SCENARIO,
    entry_points: Mapping[str, str] = ENTRY_POINTS,
) -> Path:
    """Write a package with metadata into a folder; with the folder on the path, it counts as installed.

    Args:
        folder: The folder; created if it does not exist.
        name: Name of the package and of its distribution.
        source: Source of the module.
        entry_points: Entry-point group -> name of the entry point, which is also the attribute of the module.
    """
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(source)
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"[{group}]\n{attribute} = {name}:{attribute}\n" for group, attribute in entry_points.items()]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    return folder


def environment(folder: Path) -> dict[str, str]:
    """Return the variables of a process in which the packages of a folder are installed, beside this project."""
    parts = [str(folder), str(Path(__file__).parents[1] / "src"), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, parts))}


@contextmanager
def installed(folder: Path, *registries: Registry[object], name: str = "foreign_midway") -> Iterator[None]:
    """Install the packages of a folder in this process and let registries discover them; undone at the end."""
    before = [(dict(registry), registry) for registry in registries]
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        for registry in registries:
            registry._discovered = False
        yield
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop(name, None)
        for objects, registry in before:
            registry._objects = objects
