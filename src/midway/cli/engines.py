"""Engines on the command line: their names and options follow from the registry."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from midway.bench import ENGINES, Engine

ENGINE_HELP = f"Where it runs: {', '.join(ENGINES)}."


def create_engine(name: str, options: Mapping[str, Any], *, jobs: int) -> Engine:
    """Create an engine with the options that were given.

    Args:
        name: Name of the engine.
        options: Option -> value; None if it was not given.
        jobs: Number of jobs if none was given, for engines that have this option.

    Raises:
        ValueError: The engine is unknown, or does not have an option.

    Example:
        >>> from midway.cli.engines import create_engine
        >>> create_engine("local", {"jobs": None, "address": None}, jobs=2).jobs
        2
        >>> create_engine("local", {"address": "auto"}, jobs=2)
        Traceback (most recent call last):
        ValueError: --address is not an option of the engine local; it is one of ray.
    """
    accepted = inspect.signature(ENGINES[name]).parameters
    given = {option: value for option, value in options.items() if value is not None}
    for option in given:
        if option not in accepted:
            others = [other for other, kind in ENGINES.items() if option in inspect.signature(kind).parameters]
            hint = f"; it is one of {', '.join(others)}" if others else f": it has {', '.join(accepted)}"
            raise ValueError(f"--{option.replace('_', '-')} is not an option of the engine {name}{hint}.")
    return ENGINES[name](**({"jobs": jobs} if "jobs" in accepted else {}) | given)


def read_options(texts: Sequence[str]) -> dict[str, Any]:
    """Parse options of an engine that have no flag of their own.

    Example:
        >>> from midway.cli.engines import read_options
        >>> read_options(["retries=5", "partition=gpu"])
        {'retries': 5, 'partition': 'gpu'}
    """
    options: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.isidentifier():
            raise ValueError(f"--engine-option '{text}' cannot be parsed: write NAME=VALUE.")
        try:
            options[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            options[name] = value
    return options
