"""Outliers that a baseline gets wrong and another method corrects, with both answers and how sure they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from midway.bench import Record, load_predictions
from midway.bench.material import Material
from midway.report.figures.style import FAINT, INK, PAGE, looks, new_figure, styled, title
from midway.report.figures.tiles import Picture, draw_tile, to_picture
from midway.report.labels import words
from midway.report.standings import kind_of
from midway.streams import Stream, to_tensor

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Case:
    """One image and two answers.

    Attributes:
        picture: The image as it arrived.
        truth: Name of its class.
        wrong: What the baseline said.
        wrong_confidence: With which probability.
        right_confidence: The probability that the other method gave the truth, which was its answer.
    """

    picture: Picture
    truth: str
    wrong: str
    wrong_confidence: float
    right_confidence: float


@dataclass(frozen=True)
class Corrections:
    """Cases of one stream.

    Attributes:
        stream: Its name.
        group: Which of its images were looked at.
        baseline: Label and method of who was wrong.
        method: Label and method of who was right.
        cases: The surest corrections first.
        corrected: How many there are in all.
        spoiled: How many it is the other way round.
        images: How many images the group has.
    """

    stream: str
    group: str
    baseline: tuple[str, str]
    method: tuple[str, str]
    cases: tuple[Case, ...]
    corrected: int
    spoiled: int
    images: int


def find_corrections(
    stream: Stream,
    baseline: Tensor,
    method: Tensor,
    class_names: Sequence[str],
    *,
    names: tuple[tuple[str, str], tuple[str, str]] = (("tent", "tent"), ("mita", "mita")),
    at_most: int = 12,
) -> Corrections:
    """Look for images of a stream's first group that only the second method knows.

    Args:
        stream: What was shown; its first group are the outliers.
        baseline: Logits of the first method, (N, C), in the order of the stream.
        method: Logits of the second.
        class_names: One name a class.
        names: Labels and methods of both.
        at_most: Cases to keep, the surest first.

    Example:
        >>> import numpy as np, torch
        >>> from midway.report.figures.corrections import find_corrections
        >>> from midway.streams import Stream
        >>> stream = Stream({"fog": np.zeros((2, 4, 4, 3), np.uint8)}, np.array([0, 1]), order=[0, 1], group=[0, 0])
        >>> wrong, right = torch.tensor([[0.0, 9.0], [0.0, 9.0]]), torch.tensor([[9.0, 0.0], [0.0, 9.0]])
        >>> found = find_corrections(stream, wrong, right, ["cat", "dog"])
        >>> found.corrected, found.cases[0].truth, found.cases[0].wrong
        (1, 'cat', 'dog')
    """
    labels = torch.from_numpy(stream.labels[stream.order])
    outlying = torch.from_numpy(stream.group) == 0
    sure_a, said_a = baseline.softmax(dim=1).max(dim=1)
    sure_b, said_b = method.softmax(dim=1).max(dim=1)
    corrected = outlying & (said_a != labels) & (said_b == labels)
    spoiled = outlying & (said_a == labels) & (said_b != labels)
    places = corrected.nonzero().flatten()
    chosen = places[sure_b[places].argsort(descending=True, stable=True)][:at_most]
    cases = tuple(
        Case(
            picture=to_picture(to_tensor(stream.pixels(place.view(1).numpy()))[0]),
            truth=class_names[int(labels[place])],
            wrong=class_names[int(said_a[place])],
            wrong_confidence=sure_a[place].item(),
            right_confidence=sure_b[place].item(),
        )
        for place in chosen
    )
    counts = (int(corrected.sum()), int(spoiled.sum()), int(outlying.sum()))
    return Corrections(stream.name, stream.groups[0], names[0], names[1], cases, *counts)


def stored_corrections(
    folder: Path, records: Sequence[Record], *, baseline: str = "tent", method: str = "mita", at_most: int = 12
) -> Corrections | None:
    """Look for corrections among the answers that a run kept (``--keep-predictions``).

    Args:
        folder: The store.
        records: What is in it.
        baseline: Label of the method that is to be corrected.
        method: Label of the method that corrects it.
        at_most: Cases to keep.

    Returns:
        Those of the outlier stream with the most corrections; None if there is no such stream with both answers.
    """
    kept: dict[tuple[object, ...], dict[str, Record]] = {}
    for record in records:
        if record.result is not None and record.predictions is not None and kind_of(record.cell.scenario) == "outlier":
            kept.setdefault((record.cell.network, *record.cell.stream_key), {})[record.cell.label] = record
    material = Material()
    found: list[Corrections] = []
    for both in kept.values():
        if baseline in both and method in both:
            first, second = both[baseline], both[method]
            logits, theirs = (torch.from_numpy(load_predictions(folder, each)["logits"]) for each in (second, first))
            names = ((baseline, first.cell.method), (method, second.cell.method))
            stream, classes = material.lazy_stream(first.cell), material.data_set(first.cell).class_names
            found.append(find_corrections(stream, theirs, logits, classes, names=names, at_most=at_most))
    return max(found, key=lambda corrections: corrections.corrected, default=None)


@styled
def draw_corrections(found: Corrections, *, across: int = 6) -> Figure:
    """Draw the cases, at least one: the image, its class, both answers and how sure they are, the right in colour."""
    baseline, method = title(*found.baseline), title(*found.method)
    colour = looks(dict((found.baseline, found.method)))[found.method[0]].colour
    tile = PAGE / across
    across = max(4, min(across, len(found.cases)))  # room for the heading
    down = -(-len(found.cases) // across)
    figure = new_figure(tile * across, down * (tile + 0.5) + 0.35, padding=(0.03, 0.03))
    grid = figure.add_gridspec(down, across)
    for number, case in enumerate(found.cases):
        axes = figure.add_subplot(grid[number // across, number % across])
        draw_tile(axes, case.picture)
        axes.set_title(case.truth, weight="bold", pad=3)
        said = ((case.wrong, case.wrong_confidence, FAINT, -4), (case.truth, case.right_confidence, colour, -14))
        for answer, confidence, ink, drop in said:
            note = axes.annotate(
                f"{answer} {confidence:.0%}",
                (0.5, 0),
                (0, drop),
                xycoords="axes fraction",
                textcoords="offset points",
                ha="center",
                va="top",
                fontsize=7,
                color=ink,
            )
            note.set_in_layout(False)
        axes.set_xlabel(" \n ", fontsize=7, labelpad=6)  # room for the two lines
    heading = (
        f"{words(found.group)} outliers: {baseline} says (grey), {method} says (in colour)\n"
        f"{method} corrects {found.corrected} of {found.images}, and spoils {found.spoiled}"
    )
    figure.suptitle(heading, fontsize=8, color=INK, x=0.01, ha="left")
    return figure
