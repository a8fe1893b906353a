"""Outliers that a baseline misclassifies and another method classifies correctly, with both confidences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from midway.bench import Record, ResourceCache, load_predictions
from midway.bench.measure import predict
from midway.data.corruptions.registry import shift_title
from midway.methods import adapt, hyperparameters
from midway.report.figures.drawing import GREY, INK, PAGE, Picture, annotate, draw_tile, new_figure, to_picture
from midway.report.figures.registry import NetworkAndImages, PredictionPair, figure
from midway.report.tidy import method_title, plot_styles
from midway.streams import Stream, outlier, to_tensor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_SHOWN = 12
"""Corrections that are drawn."""


class Correction(NamedTuple):
    """One image as it arrived, the name of its class, and the predictions of two methods with their confidences."""

    picture: Picture
    label: str
    wrong: str  # the class that the baseline predicts
    wrong_confidence: float
    right_confidence: float


class Corrections(NamedTuple):
    """Corrections of one stream."""

    group: str  # the group of images that was compared
    baseline: tuple[str, str]  # label and name
    method: tuple[str, str]
    shown: tuple[Correction, ...]  # the most confident first
    corrected: int
    spoiled: int  # number of images that only the baseline classifies correctly
    images: int


def compare_predictions(
    stream: Stream,
    logits: Sequence[Tensor],
    class_names: Sequence[str],
    *,
    names: Sequence[tuple[str, str]] = (("tent", "tent"), ("mita", "mita")),
) -> Corrections:
    """Compare two methods, given by label and name, on the outliers, which are the stream's first group.

    The logits of both, (N, C) each, are in the order of the stream; the most confident corrections are shown.
    """
    labels = torch.from_numpy(stream.labels[stream.order])
    outliers = torch.from_numpy(stream.group) == 0
    (wrong_confidence, wrong), (right_confidence, right) = (each.softmax(dim=1).max(dim=1) for each in logits)
    corrected = outliers & (wrong != labels) & (right == labels)
    indices = corrected.nonzero().flatten()
    most_confident = indices[right_confidence[indices].argsort(descending=True, stable=True)][:MOST_SHOWN]
    return Corrections(
        group=stream.groups[0],
        baseline=names[0],
        method=names[1],
        shown=tuple(
            Correction(
                picture=to_picture(to_tensor(stream.pixels(index.view(1).numpy()))[0]),
                label=class_names[int(labels[index])],
                wrong=class_names[int(wrong[index])],
                wrong_confidence=wrong_confidence[index].item(),
                right_confidence=right_confidence[index].item(),
            )
            for index in most_confident
        ),
        corrected=int(corrected.sum()),
        spoiled=int((outliers & (wrong == labels) & (right != labels)).sum()),
        images=int(outliers.sum()),
    )


def corrections_of(predictions: PredictionPair) -> Corrections | None:
    """Return the corrections of the stored stream with most of them; they are computed if none has any."""
    stored = [each for folder, records in predictions.runs for each in _stored(folder, records, predictions)]
    best = max(stored, key=lambda each: each.corrected, default=None)
    if (best is None or not best.shown) and predictions.compute is not None:
        return computed_corrections(predictions.compute())
    return best


def _stored(folder: Path, records: Sequence[Record], predictions: PredictionPair) -> Iterator[Corrections]:
    """Compare the stored predictions of both methods on every outlier stream."""
    streams: dict[tuple[object, ...], dict[str, Record]] = {}
    for record in records:
        if record.predictions is not None and record.cell.scenario.kind == "outlier":
            streams.setdefault((record.cell.network, *record.cell.stream_key), {})[record.cell.label] = record
    cache = ResourceCache()
    for by_label in streams.values():
        both = [by_label[label] for label in (predictions.baseline, predictions.method) if label in by_label]
        arrays = [load_predictions(folder, record) for record in both]
        if len(both) == 2 and all("logits" in each for each in arrays):  # midway.compare stores classes alone
            cell = both[0].cell
            logits = [torch.from_numpy(each["logits"]) for each in arrays]
            names = [(record.cell.label, record.cell.method) for record in both]
            yield compare_predictions(cache.lazy_stream(cell), logits, cache.data_set(cell).class_names, names=names)


def computed_corrections(given: NetworkAndImages) -> Corrections:
    """Adapt both methods to a stream with one outlier in 200 images, at least one per batch, and compare them."""
    ratio, settings = max(0.005, 1 / given.batch_size), {"batch_size": given.batch_size, "seed": given.seed}
    stream = outlier(given.data, given.outliers, given.shift, ratio=ratio, **settings).cached()
    entries, logits = (given.baseline, given.method), []
    for entry in entries:
        seed = {"seed": given.seed} if "seed" in hyperparameters(entry.name) else {}
        logits.append(predict(adapt(given.model, entry.name, **entry.settings | seed), stream).logits)
    names = [(entry.label, entry.name) for entry in entries]
    return compare_predictions(stream, logits, given.data.class_names, names=names)


@figure(
    "corrections",
    title="Corrected outliers",
    caption="Outliers that the baseline misclassifies and the other method classifies correctly, with both"
    " predictions and their confidences.",
    source=PredictionPair,
    build=corrections_of,
    enough=lambda corrections: corrections is not None and len(corrections.shown) > 0,
    requires="an outlier that the baseline misclassifies and the method classifies correctly, among stored predictions"
    " (midway run --keep-predictions) or with --pictures; more --images have more outliers, another --pair has others",
)
def draw_corrections(corrections: Corrections | None) -> Figure:
    """Draw the images, at least one, with their class, both predictions and confidences, the correct one in colour."""
    assert corrections is not None
    baseline, method = method_title(*corrections.baseline), method_title(*corrections.method)
    colour = plot_styles(dict((corrections.baseline, corrections.method)))[corrections.method[0]].colour
    tile = PAGE / 6
    across = max(4, min(6, len(corrections.shown)))  # the heading needs four
    down = -(-len(corrections.shown) // across)
    figure = new_figure(tile * across, down * (tile + 0.5) + 0.35, padding=(0.03, 0.03))
    grid = figure.add_gridspec(down, across)
    for number, each in enumerate(corrections.shown):
        axes = figure.add_subplot(grid[number // across, number % across])
        draw_tile(axes, each.picture)
        axes.set_title(each.label, weight="bold", pad=3)
        lines = ((each.wrong, each.wrong_confidence, GREY, -4), (each.label, each.right_confidence, colour, -14))
        for predicted, confidence, ink, drop in lines:
            more = {"xycoords": "axes fraction", "ha": "center", "va": "top", "color": ink}
            annotate(axes, f"{predicted} {confidence:.0%}", (0.5, 0), (0, drop), **more).set_in_layout(False)
        axes.set_xlabel(" \n ", fontsize=7, labelpad=6)  # space for the two lines
    heading = (
        f"{shift_title(corrections.group)} outliers: {baseline} (grey) and {method} (in colour)\n"
        f"{method} corrects {corrections.corrected} of {corrections.images}, and spoils {corrections.spoiled}"
    )
    figure.suptitle(heading, fontsize=8, color=INK, x=0.01, ha="left")
    return figure
