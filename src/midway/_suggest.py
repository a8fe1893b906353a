"""Errors for a name that is not there: the valid ones, and the one that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

SYNONYMS = {"learning_rate": "lr", "step_size": "lr", "ckpt": "checkpoint", "num_steps": "steps", "n_steps": "steps"}
"""Names that other libraries have -> the name here."""


def unknown(kind: str, given: str, valid: Iterable[str]) -> str:
    """Say that a name is unknown, guess what was meant, and list what there is.

    Example:
        >>> unknown("method", "tnet", ["source", "bn", "tent"])
        "unknown method 'tnet': did you mean 'tent'? Valid names: bn, source, tent."
    """
    names = sorted(valid)
    meant = SYNONYMS.get(given.lower(), "")
    nearest = [meant] if meant in names else difflib.get_close_matches(given.lower(), names, n=1, cutoff=0.55)
    guess = f": did you mean '{nearest[0]}'?" if nearest else "."
    return f"unknown {kind} '{given}'{guess} Valid names: {', '.join(names) or 'none'}."
