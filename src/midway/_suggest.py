"""Errors for a name that is not there: the valid ones, and the one that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

SYNONYMS = {"learning_rate": "lr", "step_size": "lr", "num_steps": "steps", "n_steps": "steps", "device": ""}
"""Names that other libraries have -> the name here; empty if there is none, and the nearest name would mislead."""


def unknown(kind: str, given: str, valid: Iterable[str]) -> str:
    """Say that a name is unknown, guess what was meant, and list what there is.

    Example:
        >>> unknown("method", "tnet", ["source", "bn", "tent"])
        "unknown method 'tnet': did you mean 'tent'? Valid names: bn, source, tent."
    """
    names = sorted(valid)
    nearest = difflib.get_close_matches(given.lower(), names, n=1, cutoff=0.5)
    meant = SYNONYMS.get(given.lower(), nearest[0] if nearest else "")
    guess = f": did you mean '{meant}'?" if meant in names else "."
    return f"unknown {kind} '{given}'{guess} Valid names: {', '.join(names) or 'none'}."
