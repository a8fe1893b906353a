"""Metrics over several streams, which tables compute from the accuracies of a run."""

from __future__ import annotations

from midway.metrics.registry import Answers, metric


@metric("mean accuracy", unit="%", better="higher", digits=2)
def mean_accuracy(answers: Answers) -> None:
    """Mean accuracy over corruptions and severities; see ``midway.metrics.average_accuracy``."""


@metric("mCE", unit="%", better="lower", digits=2)
def mce(answers: Answers) -> None:
    """Mean corruption error relative to Source; see ``midway.metrics.mean_corruption_error``."""
