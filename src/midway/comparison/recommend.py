"""``midway.recommend``: which method and settings for images without labels, or none."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from midway.adaptation.batch_norm.replacement import plain_batch_norms
from midway.adaptation.registry import VIEWS, WRAP
from midway.adaptation.wrappers import read_wrapper
from midway.bench.entries import Entry
from midway.comparison.pairwise import Predicted, evidence, family, standard_error
from midway.comparison.result import WIDTH, CompareResult
from midway.comparison.run import SOURCE, compare, read_entries
from midway.data.class_lists import Classes

CANDIDATES = "bn,bn(statistics='clustered'),tent,mita(statistics='clustered'),t3a,lame"
"""Methods of at most three passes that need nothing but the images."""
WITHOUT_BATCH_NORM = "tent,sar,mita,t3a,lame"
"""Those for networks without BatchNorm."""

FEWEST_CHANGES = 2.0
"""Percentage of predictions that a method must change to be recommended: it cannot be better by more."""
FEWEST_CLASSES = 60.0
"""Classes used for the last images, in percent of the source's: a method with fewer has collapsed."""
ONE_CLASS = 1.1
"""Classes used by a method that predicts nearly all images alike; it has collapsed, whatever the source does."""


@dataclass(frozen=True)
class Candidate:
    """One method of a recommendation.

    Attributes:
        label: Method and settings as on the command line.
        score: Points of information above the unadapted network, see ``midway.comparison.pairwise``; None if the
            method failed.
        error: Standard error of the score.
        cost: Seconds per batch relative to the unadapted network, measured in this run.
        reason: Why it has this rank, in words.
        rejected: It must not be used: it failed, or it has collapsed.
        code: What to type next.
    """

    label: str
    score: float | None
    error: float | None
    cost: float | None
    reason: str
    rejected: bool
    code: str


@dataclass(frozen=True, repr=False)
class Recommendation:
    """Methods ranked for images without labels: prints as a list with reasons, and says what to type next.

    Attributes:
        candidates: Every method, the recommended first, then by score; those that failed or have collapsed are last.
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
                "standard_error": each.error,
                "cost": each.cost,
                "recommended": each is self.best,
                "rejected": each.rejected,
                "reason": each.reason,
                "code": each.code,
            }
            for each in self.candidates
        ]

    @property
    def note(self) -> str:
        """A doubt about the images or the network; empty if there is none."""
        if self.comparison[self.best.label].metrics["mirror_information"] > 0:
            return ""
        return (
            "The predictions for images and their mirror images are unrelated, or all images have the same prediction. "
            "Is the network trained, and are the images prepared as in its training (size, normalisation)? With many "
            "classes, give more images."
        )

    def __str__(self) -> str:
        images = self.comparison[SOURCE].images
        lines = _wrapped(
            f"{images:,} images. Scores are points above the network as it is, ± standard error.", indent=0
        )
        for rank, each in enumerate(self.candidates, start=1):
            mark = "-" if each.rejected else f"{rank}."
            numbers = (
                "" if each.score is None else f"  {each.score:+.1f} ± {each.error:.1f}, {each.cost:.1f} x the time"
            )
            numbers = "  0" if each.label == SOURCE else numbers
            lines += [f"{mark:3}{each.label}{numbers}", *_wrapped(each.reason)]
        if self.leave:
            advice = "Leave the network as it is: no method is better."
            advice = "Leave the network as it is." if self.note else advice
        else:
            advice = f"Use {self.best.label}:\n    adapted = {self.best.code}"
        doubt = ["", *_wrapped(f"Note: {self.note}", indent=0)] if self.note else []
        return "\n".join([*lines, *doubt, "", advice])

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
    size: int | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    progress: bool = True,
) -> Recommendation:
    """Rank methods and settings for a network on images without labels, or advise to leave it as it is.

    Every method adapts to the images, starting from the source, and predicts every batch twice: as it is, and mirrored.
    Two methods are compared on the images that they predict differently. A method gains if its predictions for these
    are more stable under mirroring and contain more classes. The score is the mean gain over all candidates
    (``midway.comparison.pairwise``). The highest score wins, but if it does not exceed that of the source by more than
    the standard error of the difference, the network stays as it is. A method that uses far fewer classes than the
    source for the last images has collapsed and is never recommended. ``docs/recommend.md`` says how far this can be
    trusted. Labels, if there are any, are not used. Do not use it where mirroring changes the class (digits, text, left
    and right).

    Args:
        model: Any classifier from images in [0, 1] to logits. It is copied, never changed.
        data: Images as ``midway.compare`` takes them: a loader, arrays, a folder, a data set or a stream. Give them in
            the order and in batches of the size in which they will come: both matter to methods.
        methods: Candidates as on the command line, such as ``"tent,tea(steps=4)"``, or a list of them.
        batch_size: Images per batch, where the data do not determine it. None: 200, or 64 for sides of 128 pixels.
        images: Use at most this many images; None for all.
        classes: Which logit each class folder is, for a folder; see ``midway.data.load``.
        size: Side in pixels to which images in files are resized and cropped, for a folder or the name of a data set.
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
    if methods == CANDIDATES and isinstance(model, nn.Module) and not plain_batch_norms(model):
        methods = WITHOUT_BATCH_NORM
    entries = read_entries(methods)
    if seen := [entry.label for entry in entries if _averages_mirrored_views(entry.settings)]:
        raise ValueError(
            f"{seen[0]} cannot be ranked, its answers to mirrored images are the same: leave the mirrored views "
            "out, and add them to the method that is recommended."
        )
    comparison = compare(
        model,
        data,
        methods,
        batch_size=batch_size,
        images=images,
        classes=classes,
        size=size,
        seed=seed,
        labels=False,
        scores=True,
        out=out,
        progress=progress,
    )
    if "mirror_information" not in comparison[SOURCE].metrics:
        raise ValueError("methods are ranked by their answers to mirrored images, and these inputs are no images.")
    working = {record.cell.label: record for record in comparison.records if record.result}
    rejected = {label for label in working if label != SOURCE and has_collapsed(comparison[label].metrics)}
    by_label = {entry.label: entry for entry in entries}
    predicted = {
        label: Predicted(
            torch.from_numpy(record.arrays["predictions"]),
            torch.from_numpy(record.arrays["mirrored"]),
            family(by_label[label]),
        )
        for label, record in working.items()
    }
    found = evidence(predicted, int(working[SOURCE].arrays["classes"]), rejected)
    able = [label for label in found if comparison[label].metrics["changed"] >= FEWEST_CHANGES]
    order, best = rank(found, rejected, able)
    if comparison[best].metrics["mirror_information"] <= 0:  # no prediction is informative, so no choice is
        order, best = [SOURCE, *(label for label in order if label != SOURCE)], SOURCE
    order += [label for label in by_label if label not in working]
    candidates = {label: _candidate(entry, comparison, found) for label, entry in by_label.items()}
    if found[best].mean().item() < max(found[label].mean().item() for label in {*able, SOURCE} - rejected):
        reason = f"{candidates[best].reason}; no score is higher by more than its standard error"
        candidates[best] = replace(candidates[best], reason=reason)
    return Recommendation(tuple(candidates[label] for label in order), candidates[best], comparison)


def rank(
    found: Mapping[str, Tensor],
    collapsed: Collection[str] = (),
    able: Collection[str] | None = None,
) -> tuple[list[str], str]:
    """Return the labels of methods, the recommended first, and the one to use, from the evidence of each image.

    The highest score wins, but the source is used if the difference from it is less than its standard error. Methods
    that have collapsed are last. Only those that are ``able`` to be better, and the source, are recommended.
    """
    scores = {label: values.mean().item() for label, values in found.items()}
    order = sorted(found, key=lambda label: (label in collapsed, -scores[label], label != SOURCE))
    usable = [label for label in order if label not in collapsed and (able is None or label in {*able, SOURCE})]
    best = usable[0]
    if scores[best] - scores[SOURCE] < standard_error(found[best], found[SOURCE]):
        best = SOURCE
    return [best, *(label for label in order if label != best)], best


def has_collapsed(scores: Mapping[str, float]) -> bool:
    """Return whether a method uses one class, or far fewer classes than the source for the last images."""
    return scores["late_classes"] < FEWEST_CLASSES or scores.get("classes_used", ONE_CLASS) < ONE_CLASS


def _averages_mirrored_views(settings: Mapping[str, Any]) -> bool:
    """Return whether predictions are averages over an image and its mirror image, and so the same for both."""
    wrapper = settings.get(WRAP)
    return settings.get(VIEWS) == "mirror" or (wrapper is not None and read_wrapper(wrapper)[0] == "mirrored")


def _candidate(entry: Entry, comparison: CompareResult, found: Mapping[str, Tensor]) -> Candidate:
    """Describe one method of a comparison."""
    record = next(each for each in comparison.records if each.cell.label == entry.label)
    code = _code(entry)
    if record.result is None:
        failure = record.failure.error if record.failure else "unknown"
        return Candidate(entry.label, None, None, None, f"failed: {failure}", True, code)
    metrics, source = record.result.metrics, comparison[SOURCE].metrics
    classes = metrics["classes_used"]
    agreement = f"agrees with mirrored views in {metrics['mirror_agreement']:.0f} %"
    if entry.label == SOURCE:
        reason = f"the network as it is: {agreement}, uses {classes:.1f} classes"
        return Candidate(entry.label, 0.0, 0.0, 1.0, reason, False, code)
    rejected = has_collapsed(metrics)
    guard = (
        f"has collapsed: it uses {classes:.1f} classes, for the last images {metrics['late_classes']:.0f} % as many as "
        "the source"
        if rejected
        else f"uses {classes:.1f} classes (source {source['classes_used']:.1f}): not collapsed"
    )
    changes = f"changes {metrics['changed']:.0f} % of the answers"
    cost = metrics["seconds_per_batch"] / source["seconds_per_batch"]
    score = (found[entry.label] - found[SOURCE]).mean().item()
    error = standard_error(found[entry.label], found[SOURCE])
    return Candidate(entry.label, score, error, cost, f"{changes}, {agreement}, {guard}", rejected, code)


def _code(entry: Entry) -> str:
    if entry.name == SOURCE:
        return "model"
    settings = "".join(f", {key}={value!r}" for key, value in entry.settings.items())
    return f"midway.adapt(model, {entry.name!r}{settings})"


def _wrapped(text: str, *, indent: int = 3) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=" " * indent, subsequent_indent=" " * indent)
