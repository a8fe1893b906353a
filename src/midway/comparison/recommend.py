"""``midway.recommend``: which method and settings for images without labels, or none."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from midway.adaptation.registry import STATISTICS, VIEWS
from midway.bench.entries import Entry
from midway.comparison.result import CompareResult
from midway.comparison.run import SOURCE, compare, read_entries
from midway.data.class_lists import Classes

CANDIDATES = "bn,bn(statistics='clustered'),tent,tent(statistics='clustered'),eata,t3a,lame"
"""Methods of at most two passes that need nothing but the images."""

RANKED_BY = "mirror_information"
CLUSTERED_BONUS = 2.0
"""Points that clustered statistics are given beyond the score: about its standard error for 1,000 images. Where the
scores of two methods do not tell them apart, clustered statistics are right more often."""
FEWEST_CHANGES = 2.0
"""Percentage of answers that a method must change to be recommended: it cannot be better by more."""
FEWEST_CLASSES = 60.0
"""Classes used for the last images, in percent of the source's: a method with fewer has collapsed."""


@dataclass(frozen=True)
class Candidate:
    """One method of a recommendation.

    Attributes:
        label: Method and settings as on the command line.
        score: The score that candidates are ranked by (``mirror_information``); None if the method failed.
        cost: Seconds per batch relative to the unadapted network, measured in this run.
        reason: Why it has this rank, in words.
        rejected: It must not be used: it failed, or it has collapsed.
        code: What to type next.
    """

    label: str
    score: float | None
    cost: float | None
    reason: str
    rejected: bool
    code: str


@dataclass(frozen=True, repr=False)
class Recommendation:
    """Methods ranked for images without labels: prints as a list with reasons, and says what to type next.

    Attributes:
        candidates: Every method, the best first; those that failed or have collapsed are last.
        best: The recommended method; the source if the network should stay as it is.
        comparison: What was measured: ``comparison.frame()`` has every score.
    """

    candidates: tuple[Candidate, ...]
    best: Candidate
    comparison: CompareResult

    @property
    def leave(self) -> bool:
        """No method is better than the network as it is."""
        return self.best.label == SOURCE

    def rows(self) -> list[dict[str, float | str | bool | None]]:
        """Return one row per method, the best first, as ``midway recommend --json`` prints them."""
        return [
            {
                "method": each.label,
                "score": each.score,
                "cost": each.cost,
                "recommended": each is self.best,
                "rejected": each.rejected,
                "reason": each.reason,
                "code": each.code,
            }
            for each in self.candidates
        ]

    def __str__(self) -> str:
        lines = []
        for rank, each in enumerate(self.candidates, start=1):
            mark = "-" if each.rejected else f"{rank}."
            numbers = "" if each.score is None else f"  information {each.score:.1f} %"
            numbers += "" if each.cost is None else f", {each.cost:.1f} x the time"
            lines += [f"{mark:3}{each.label}{numbers}", *_wrapped(each.reason)]
        if self.leave:
            advice = "Leave the network as it is: no method is better."
        else:
            advice = f"Use {self.best.label}:\n    adapted = {self.best.code}"
        return "\n".join([*lines, "", advice])

    def __repr__(self) -> str:
        return str(self)


def recommend(
    model: nn.Module,
    data: Any,
    methods: str | Sequence[str] = CANDIDATES,
    *,
    batch_size: int | None = None,
    images: int | None = 1000,
    classes: Classes | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    progress: bool = True,
) -> Recommendation:
    """Rank methods and settings for a network on images without labels, or advise to leave it as it is.

    Every method adapts to the images from the source on, and answers every batch twice: as it is, and mirrored. The
    score is a lower bound of the information that one answer has of the other (``midway.metrics.SCORES``): high if the
    answers stay the same and are of many classes. A method that uses far fewer classes than the source for the last
    images has collapsed and is never recommended. ``docs/recommend.md`` says how far this can be trusted. Labels, if
    there are any, are not used. Do not use it where mirroring changes the class (digits, text, left and right).

    Args:
        model: Any classifier from images in [0, 1] to logits. It is copied, never changed.
        data: Images as ``midway.compare`` takes them: a loader, arrays, a folder, a data set or a stream. Give them in
            the order and in batches of the size in which they will come: both matter to methods.
        methods: Candidates as on the command line, such as ``"tent,tea(steps=4)"``, or a list of them.
        batch_size: Images per batch, where the data do not determine it. None: 200, or 64 for sides of 128 pixels.
        images: Use at most this many images; None for all.
        classes: Which logit each class folder is, for a folder; see ``midway.data.load``.
        seed: Seed of the methods, and of the order of images that are sorted by class.
        out: A folder for the results, from which a second call continues; see ``midway.compare``.
        progress: Show a bar on a terminal.

    Example:
        >>> import midway
        >>> model = midway.models.load("wrn16_2.cifar10")
        >>> images = midway.data.load("cifar10-mini", corruption="gaussian_noise").first(200).images
        >>> advice = midway.recommend(model, images, "bn,lame", progress=False)
        >>> advice.best.label, advice.best.code
        ('bn', "midway.adapt(model, 'bn')")
        >>> [each.label for each in advice.candidates]
        ['bn', 'source', 'lame']
    """
    entries = read_entries(methods)
    if seen := [entry.label for entry in entries if entry.settings.get(VIEWS) == "mirror"]:
        raise ValueError(
            f"{seen[0]} cannot be ranked, its answers to mirrored images are the same: leave views out, and add it to "
            "the method that is recommended."
        )
    comparison = compare(
        model,
        data,
        methods,
        batch_size=batch_size,
        images=images,
        classes=classes,
        seed=seed,
        labels=False,
        scores=True,
        out=out,
        progress=progress,
    )
    if RANKED_BY not in comparison[SOURCE].metrics:
        raise ValueError("methods are ranked by their answers to mirrored images, and these inputs are no images.")
    candidates = {entry.label: _candidate(entry, comparison) for entry in entries}
    working = {record.cell.label: record.result.metrics for record in comparison.records if record.result}
    order, best = rank(working, [entry.label for entry in entries if entry.settings.get(STATISTICS) == "clustered"])
    order += [label for label in candidates if label not in working]
    return Recommendation(tuple(candidates[label] for label in order), candidates[best], comparison)


def rank(scores: Mapping[str, Mapping[str, float]], clustered: Collection[str] = ()) -> tuple[list[str], str]:
    """Return the labels of methods by their scores, the best first, and the one to use.

    Methods that have collapsed are last. The source is to be used unless a method has a higher score and changes enough
    answers. ``clustered`` are the labels of methods with clustered statistics.
    """
    source = scores[SOURCE]

    def position(label: str) -> tuple[bool, float, bool]:
        bonus = CLUSTERED_BONUS if label in clustered else 0.0
        return collapsed(scores[label]), -scores[label][RANKED_BY] - bonus, label != SOURCE

    order = sorted(scores, key=position)
    for label in order:
        own = scores[label]
        if own[RANKED_BY] > source[RANKED_BY] and own["changed"] >= FEWEST_CHANGES and not collapsed(own):
            return order, label
    return order, SOURCE


def collapsed(scores: Mapping[str, float]) -> bool:
    """Return whether a method uses far fewer classes than the source for the last images."""
    return scores["late_classes"] < FEWEST_CLASSES


def _candidate(entry: Entry, comparison: CompareResult) -> Candidate:
    """Describe one method of a comparison."""
    record = next(each for each in comparison.records if each.cell.label == entry.label)
    code = _code(entry)
    if record.result is None:
        error = record.failure.error if record.failure else "unknown"
        return Candidate(entry.label, None, None, f"failed: {error}", True, code)
    metrics, source = record.result.metrics, comparison[SOURCE].metrics
    classes = metrics["classes_used"]
    agreement = f"agrees with mirrored views in {metrics['mirror_agreement']:.0f} %"
    if entry.label == SOURCE:
        reason = f"the network as it is: {agreement}, uses {classes:.1f} classes"
        return Candidate(entry.label, metrics[RANKED_BY], 1.0, reason, False, code)
    rejected = collapsed(metrics)
    guard = (
        f"has collapsed: it uses {metrics['late_classes']:.0f} % as many classes as the source for the last images"
        if rejected
        else f"uses {classes:.1f} classes (source {source['classes_used']:.1f}): not collapsed"
    )
    changes = f"changes {metrics['changed']:.0f} % of the answers"
    cost = metrics["seconds_per_batch"] / source["seconds_per_batch"]
    return Candidate(entry.label, metrics[RANKED_BY], cost, f"{changes}, {agreement}, {guard}", rejected, code)


def _code(entry: Entry) -> str:
    if entry.name == SOURCE:
        return "model"
    settings = "".join(f", {key}={value!r}" for key, value in entry.settings.items())
    return f"midway.adapt(model, {entry.name!r}{settings})"


def _wrapped(text: str, width: int = 80) -> list[str]:
    return textwrap.wrap(text, width, initial_indent="   ", subsequent_indent="   ")
