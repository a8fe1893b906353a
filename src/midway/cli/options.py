"""Options that several commands have, and how their texts are read."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from midway.bench import ENGINES, Engine

Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
ENGINE_HELP = f"Where it runs: {', '.join(ENGINES)}."
Address = Annotated[str | None, typer.Option(help="Address of a running Ray cluster, or auto (default: start one).")]
EngineOption = Annotated[
    list[str] | None, typer.Option(help="NAME=VALUE for another option of the engine; repeatable.")
]
Import = Annotated[str | None, typer.Option("--import", help="Modules that register methods, scenarios and so on.")]
Classes = Annotated[
    str | None,
    typer.Option(
        help="Which logit each class folder is: names, indices or name=index separated by commas, a file, or a "
        "list such as imagenet-r."
    ),
]
Network = Annotated[
    str, typer.Argument(help="A name, a checkpoint, architecture@checkpoint, or file.py:function for your own network.")
]
BatchSize = Annotated[int | None, typer.Option(min=1, help="Images per batch (default: 200, large ones 64).")]
Size = Annotated[
    int | None, typer.Option(min=1, help="Side in pixels to which images in files are resized and cropped.")
]
Device = Annotated[str, typer.Option(help="cpu, cuda or auto.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the methods and of the order.")]
Out = Annotated[Path | None, typer.Option(help="Folder for the results; run it again to resume.")]


def split_commas(text: str | None) -> list[str] | None:
    """Split names separated by commas."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def parse_integers(flag: str, text: str) -> list[int]:
    """Parse integers and ranges, such as 0-2,7."""
    return _read_ranges(text, f"--{flag} '{text}' cannot be parsed: write integers, such as 1, 1-4 or 1,7.")


def parse_severities(text: str) -> tuple[int, ...]:
    """Parse a list of severities such as ``1-3,5``."""
    severities = set(_read_ranges(text, f"severity '{text}' is not understood: write 5, 1-5 or 1,3,5."))
    if not severities or not severities <= {1, 2, 3, 4, 5}:
        raise ValueError(f"severity '{text}' is not understood: severities are 1 to 5.")
    return tuple(sorted(severities))


def _read_ranges(text: str, remedy: str) -> list[int]:
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        if not first.isdecimal() or not last.isdecimal():
            raise ValueError(remedy)
        numbers += range(int(first), int(last) + 1)
    return numbers


def create_engine(name: str, options: Mapping[str, Any], texts: Sequence[str] | None, *, jobs: int) -> Engine:
    """Create an engine with the options that were given: those that are not None, and ``texts`` as NAME=VALUE.

    ``jobs`` is used if the engine has this option and no number was given.
    """
    accepted = inspect.signature(ENGINES[name]).parameters
    given = {option: value for option, value in options.items() if value is not None} | _read_options(texts or ())
    for option in given:
        if option not in accepted:
            others = [other for other, kind in ENGINES.items() if option in inspect.signature(kind).parameters]
            hint = f"; it is one of {', '.join(others)}" if others else f": it has {', '.join(accepted)}"
            raise ValueError(f"--{option.replace('_', '-')} is not an option of the engine {name}{hint}.")
    return ENGINES[name](**({"jobs": jobs} if "jobs" in accepted else {}) | given)


def _read_options(texts: Sequence[str]) -> dict[str, Any]:
    """Parse options of an engine that have no flag of their own; what is not a plain value is text."""
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
