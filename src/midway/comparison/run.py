"""``midway.compare``: several methods on the same images, measured with labels or scored without."""

from __future__ import annotations

import logging
import math
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from midway._errors import describe_error
from midway.adaptation.about import About
from midway.adaptation.adapt import adapt
from midway.adaptation.base import Method
from midway.adaptation.classifier import AdaptiveClassifier
from midway.adaptation.copies import without_parallel
from midway.adaptation.registry import METHODS, find
from midway.bench import Cell, Failure, Record, Store, load_predictions
from midway.bench.batches import Replayed, Unlabelled, as_stream, is_repeatable
from midway.bench.engines.base import make_record
from midway.bench.entries import Entry, parse_entries
from midway.bench.measure import AnyStream, measure, predict
from midway.bench.resources import limit_classes
from midway.comparison.cells import create_cell, describe_comparison, digest_batches
from midway.comparison.result import CompareResult, title
from midway.data.class_lists import Classes, plain_classes
from midway.metrics import Predictions, compute
from midway.streams import Stream

DEFAULT_METHODS = "source,bn,tent,eata,sar,t3a,lame"
"""Methods of at most two forward and two backward passes that need nothing but the images."""

SOURCE = "source"
KEPT = ("predictions", "mirrored", "classes")
"""Arrays that the records of a result keep: the predicted classes of the images and of the mirrored images, and the
number of classes."""
logger = logging.getLogger("midway")


def compare(
    model: nn.Module,
    data: Any,
    methods: str | type[Method] | Sequence[str | type[Method]] = DEFAULT_METHODS,
    *,
    batch_size: int | None = None,
    images: int | None = None,
    classes: Classes | None = None,
    size: int | None = None,
    seed: int = 0,
    labels: bool = True,
    scores: bool | None = None,
    out: str | Path | None = None,
    progress: bool = True,
) -> CompareResult:
    """Run several methods on the same images, each from the source, and measure their predictions.

    With labels the result has accuracies. Without labels, it has label-free scores (``midway.metrics.METRICS``): the
    share of predictions that differ from the source's, the mean entropy, the number of predicted classes, the share of
    predictions that stay the same if the images are mirrored, and the information that both predictions share.
    ``midway.recommend`` ranks methods. A method that the network does not support is listed with the reason.

    Args:
        model: Any classifier from images in [0, 1] to logits. It is copied, never changed.
        data: A torch DataLoader or any iterable of batches (pairs, tuples with more fields, dictionaries, images
            alone); arrays, ``images`` or ``(images, labels)``, or a ``.npz`` file with these; a folder with or without
            class folders; the name of a data set, also with a corruption or domain and with its folder
            (``"cifar10-mini:fog"``, ``"cifar10-c:fog@/data/CIFAR-10-C"``); an ``ImageSet``; a torch or Hugging Face
            data set of single images; or a stream. Batches that cannot be read again in the same order, those of
            generators and shuffled loaders, are kept in memory.
        methods: Methods as on the command line, such as ``"tent,tea(steps=4)"``, registered classes, or a list of
            these. The source is always among them.
        batch_size: Images per batch, where the data do not determine it. None: 200, or 64 for sides of 128 pixels.
        images: Use at most this many images; needed for endless sources.
        classes: Which logit each class folder is, for a folder; see ``midway.data.load``.
        size: Side in pixels to which images in files are resized and cropped, for a folder or the name of a data set.
        seed: Seed of the methods, and of the order of images that are sorted by class.
        labels: Use the labels, if the data have any. False: class folders need no ``classes``.
        scores: Compute all label-free scores, at the cost of predicting every batch twice. None: if there are no
            labels.
        out: A folder for the results: methods that are already in it, for the same network and images, are not run
            again. All images and labels are read once to tell whether they are the same, batch by batch. With labels
            ``midway report`` reads it.
        progress: Show a bar on a terminal. Each finished method is logged under the name ``midway``.

    Example:
        >>> import midway
        >>> model = midway.models.load("wrn16_2.cifar10")
        >>> images = midway.data.load("cifar10-mini", corruption="gaussian_noise").first(200).images
        >>> result = midway.compare(model, images, "bn,tent", progress=False)
        >>> [row["method"] for row in result.rows()], result.labelled
        (['source', 'bn', 'tent'], False)
        >>> result["source"].metrics["changed"], result["bn"].metrics["changed"] > 20
        (0.0, True)
    """
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"model must be a torch.nn.Module, got {type(model).__name__}: see midway.models.load for names."
        )
    if isinstance(model, AdaptiveClassifier):
        raise TypeError(f"model is already adapted by {type(model).__name__}: give the network that you adapted.")
    entries = read_entries(methods)
    source_stream, logits = as_stream(data, batch_size=batch_size, images=images, classes=classes, size=size, seed=seed)
    network = without_parallel(model) if logits is None else limit_classes(without_parallel(model), logits)
    stream: AnyStream = source_stream if is_repeatable(source_stream) else Replayed(source_stream)
    stream = stream if labels else Unlabelled(stream)
    first = next(iter(stream), None)
    if first is None:
        raise ValueError(f"{stream.name} has no batches: there are no images to compare methods on.")
    labelled = bool((first.labels >= 0).any())
    mirrored = first.images.ndim == 4 and (not labelled if scores is None else scores)
    digest = digest_batches(stream if out is not None else [first], mirrored=mirrored)
    shared = describe_comparison(network, data, stream.name, len(first))
    shared = replace(
        shared, seed=seed, images=images, size=size, classes=None if classes is None else plain_classes(classes)
    )
    cells = [create_cell(entry, shared, digest) for entry in entries]
    records: list[Record] = []
    source: Tensor | None = None
    with ExitStack() as stack:
        store = None if out is None else stack.enter_context(Store(Path(out)))
        show = stack.enter_context(_progress(stream, len(cells), shown=progress))
        stack.enter_context(_counted_if_stopped(records, len(cells), out))
        for cell in cells:
            record = None if store is None else _stored(store, cell)
            if record is None:
                record = _run(network, cell, stream, source, mirrored=mirrored, show=show)
                logger.info("%s: %s", cell.label, _summary(record))
                if store is not None:
                    store.add(record, command=f"midway.compare(..., {cell.label!r})")
            if cell.method == SOURCE and record.arrays:
                source = torch.from_numpy(record.arrays["logits"])
            kept = {name: array for name, array in record.arrays.items() if name in KEPT}
            records.append(replace(record, arrays=kept))
    return CompareResult(tuple(records), labelled)


@contextmanager
def _counted_if_stopped(records: Sequence[Record], count: int, out: str | Path | None) -> Iterator[None]:
    """Let an interrupt say how many methods are finished, and what happens to them."""
    try:
        yield
    except KeyboardInterrupt as stop:
        done = f"{len(records)} of {count} methods"
        kept = "are finished, and nothing is stored" if out is None else f"are in {out}"
        remedy = "give out= (--out) to keep them" if out is None else "run the same command to continue"
        raise KeyboardInterrupt(f"{done} {kept}: {remedy}.") from stop


def _stored(store: Store, cell: Cell) -> Record | None:
    """Return the stored record of a cell with its predictions; None without them, or if they are of other images.

    The file of the predictions has the cell's key, which images of the same number share.
    """
    record = store.find(cell)
    if record is None or record.result is None or not store.has(cell, predictions=True):
        return None
    arrays = load_predictions(store.folder, record)
    return replace(record, arrays=arrays) if str(arrays.get("code")) == cell.code else None


def read_entries(methods: str | type[Method] | Sequence[str | type[Method]]) -> list[Entry]:
    """Parse the methods; the plain source comes first."""
    texts = [_name_of_method(each) for each in ([methods] if isinstance(methods, str | type) else methods)]
    entries = [entry for text in texts for entry in parse_entries(text)]
    labels = [entry.label for entry in entries]
    if repeated := [label for label in labels if labels.count(label) > 1]:
        raise ValueError(f"two methods are called '{repeated[0]}': give each a label of its own, (label='...').")
    return [Entry.make(SOURCE, {}), *(entry for entry in entries if entry.label != SOURCE)]


def _name_of_method(method: object) -> str:
    """Return a method as it is written: a text as it is, a registered class by its name."""
    if isinstance(method, str):
        return method
    about = getattr(method, "about", None)
    if isinstance(method, type) and isinstance(about, About) and about.name in METHODS and find(about.name) is method:
        return about.name
    raise TypeError(
        "methods are given as text, such as 'tent(lr=0.001)', or as classes with @midway.methods.register, got "
        f"{method!r}."
    )


def _run(
    network: nn.Module,
    cell: Cell,
    stream: AnyStream,
    source: Tensor | None,
    *,
    mirrored: bool,
    show: Callable[[str, float], None],
) -> Record:
    """Run one method; an error of the method becomes a failed record, but the source must work."""
    started = time.perf_counter()
    result, failure = None, None
    kept: dict[str, Tensor] = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if cell.method == SOURCE else "default")
            method = adapt(network, cell.method, **cell.settings)
            predictions = predict(method, stream, on_batch=lambda value: show(cell.label, value), mirrored=mirrored)
        kept = {"predictions": predictions.predicted, "classes": torch.tensor(predictions.logits.shape[1])}
        if predictions.mirrored is not None:
            kept["mirrored"] = predictions.mirrored.argmax(dim=1)
        if cell.method == SOURCE:
            kept |= {"logits": predictions.logits, "labels": predictions.labels, "group": predictions.group}
            source = predictions.logits
        result = measure(method, stream, predictions)
        result = replace(result, metrics=result.metrics | compute(_beside(predictions, source), label_free=True))
    except Exception as error:
        if cell.method == SOURCE:
            raise
        failure = Failure(describe_error(error), traceback.format_exc())
    arrays = {name: tensor.numpy() for name, tensor in kept.items()} if result else {}
    if arrays:
        arrays["code"] = np.array(cell.code)
    return make_record(cell, result, failure, time.perf_counter() - started, arrays)


def _beside(predictions: Predictions, source: Tensor | None) -> Predictions:
    """Return predictions with those of the source, which must be as many: the data must give the same images again."""
    if source is not None and len(source) != len(predictions.logits):
        raise ValueError(f"the data gave {len(predictions.logits)} images, and {len(source)} to the source.")
    return replace(predictions, source=source)


@contextmanager
def _progress(stream: AnyStream, methods: int, *, shown: bool) -> Iterator[Callable[[str, float], None]]:
    """Yield a function that is told the method and the accuracy so far after every batch; a bar on a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    length = len(stream) if isinstance(stream, Stream) else None
    with Progress(console=console, transient=True, disable=not (shown and console.is_terminal)) as bar:
        task = bar.add_task("comparing", total=None if length is None else length * methods)

        def show(label: str, accuracy: float) -> None:
            so_far = "" if math.isnan(accuracy) else f", {accuracy:.1f} % so far"
            bar.update(task, advance=1, description=f"{label}{so_far}")

        yield show


def _summary(record: Record) -> str:
    if record.result is None:
        return f"failed, {record.failure.error if record.failure else 'unknown'}"
    names = ("accuracy", "changed", "mirror_agreement")
    known = {name: record.result.metrics[name] for name in names if name in record.result.metrics}
    return ", ".join(f"{title(name)} {value:.1f}" for name, value in known.items()) + f" ({record.seconds:.1f} s)"
