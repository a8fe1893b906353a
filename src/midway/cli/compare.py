"""`midway compare`: methods on a network and images of your own, with labels or without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import nn

from midway.bench.batches import check_folder
from midway.bench.entries import READERS, import_plugins
from midway.bench.plan import resolve_device
from midway.bench.resources import load_network, make_absolute, weights_of
from midway.cli.options import BatchSize, Classes, Device, Import, Json, Network, Out, Seed, Size, split_commas
from midway.cli.run import NO_GPU
from midway.cli.signals import create_exit
from midway.cli.terminal import print_json, terminal
from midway.comparison import compare as compare_methods
from midway.comparison.result import check_report
from midway.comparison.run import DEFAULT_METHODS
from midway.models import ARCHITECTURES


def compare(
    network: Network,
    data: Annotated[str, typer.Argument(help="A folder with or without class folders, or the name of a data set.")],
    methods: Annotated[str, typer.Option(help='Such as "tent,tea(steps=4),mita".')] = DEFAULT_METHODS,
    classes: Classes = None,
    batch_size: BatchSize = None,
    images: Annotated[int | None, typer.Option(min=1, help="Use at most this many images (default: all).")] = None,
    size: Size = None,
    device: Device = "auto",
    seed: Seed = 0,
    out: Out = None,
    report: Annotated[Path | None, typer.Option(help="Write the table to a .html, .md or .csv file.")] = None,
    as_json: Json = False,
    import_: Import = None,
) -> None:
    """Compare methods on images of your own: accuracies for class folders, label-free scores for other folders.

    The exit code is 1 if a method of --methods failed, or if all default methods failed.
    """
    import_plugins(split_commas(import_) or [])
    check_folder(data)
    if report is not None:
        check_report(report)
    known = None if classes is None else READERS["classes"]("classes", classes)
    with in_order_if_stopped():
        result = compare_methods(
            trained_network(network, device),
            data,
            methods,
            batch_size=batch_size,
            images=images,
            classes=known,
            size=size,
            seed=seed,
            out=out,
        )
    if as_json:
        print_json({"labelled": result.labelled, "methods": result.rows()})
    else:
        print(result)
    if report is not None:
        terminal(stderr=True).print(f"Report: {result.report(report)}", highlight=False, soft_wrap=True)
    failed = [record.failure is not None for record in result.records[1:]]  # the first is the source, which cannot fail
    if all(failed) if methods == DEFAULT_METHODS else any(failed):
        raise typer.Exit(1)


@contextmanager
def in_order_if_stopped() -> Iterator[None]:
    """Say how much is done if a signal interrupts the block, and end the command with the status of the signal."""
    try:
        yield
    except KeyboardInterrupt as stop:
        if str(stop):
            terminal(stderr=True).print(f"Stopped: {stop}", highlight=False, soft_wrap=True, markup=False)
        raise create_exit() from stop


def trained_network(name: str, device: str) -> nn.Module:
    """Load a network with trained weights by its name in plans, and move it to a device."""
    device = resolve_device(device)
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"{NO_GPU}.")
    if name in ARCHITECTURES:
        raise ValueError(f"{name} is an architecture without weights: write {name}@FILE with a checkpoint.")
    weights_of(name)  # names the nearest match of an unknown name
    return load_network(make_absolute(name), 0).to(device)
