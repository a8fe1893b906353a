"""Methods with settings as text: ``tent,tea(steps=4),mita(lr=1e-4, label="MITA, slow")``."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass, field
from typing import Any

from midway import methods
from midway.adaptation.presets import with_preset
from midway.adaptation.registry import FOR_EVERY_METHOD, PRESET
from midway.bench.cell import as_tuple
from midway.suggest import unknown
from midway.testing import tiny_network


@dataclass(frozen=True)
class Entry:
    """One row of a comparison: a method, what is set differently from its defaults, and its label.

    Example:
        >>> from midway.bench.entries import Entry
        >>> Entry.make("tea", {"steps": 4}).label
        'tea(steps=4)'
    """

    name: str
    settings: dict[str, Any] = field(hash=False)
    label: str

    @classmethod
    def make(cls, name: str, settings: dict[str, Any], label: str | None = None) -> Entry:
        """Check the settings against the method, and name the entry by them if it has no label.

        Raises:
            SettingError: The method or a setting is unknown, or the method refuses a value.
        """
        written = ", ".join(f"{key}={as_tuple(value)!r}" for key, value in settings.items() if _says(key, value))
        try:
            known = {*methods.hyperparameters(name), *FOR_EVERY_METHOD}
        except ValueError as error:
            raise SettingError(str(error), "name") from error
        try:
            settings = with_preset(name, settings)
        except ValueError as error:
            raise SettingError(f"{name}: {error}", PRESET) from error
        settings = {key: as_tuple(value) for key, value in settings.items() if _says(key, value)}
        for setting in settings:
            if setting not in known:
                raise SettingError(unknown(f"hyper-parameter of {name}", setting, known), setting)
        elsewhere = methods.find(name).names_layers  # of the network to come
        tried = {key: value for key, value in settings.items() if key not in elsewhere}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                methods.adapt(tiny_network(), name, **tried)
        except (TypeError, ValueError) as error:
            guilty = next((setting for setting in settings if setting in str(error)), "name")
            raise SettingError(f"{name}: {error}", guilty) from error
        return cls(name, settings, label or (f"{name}({written})" if written else name))

    def complete_settings(self, seed: int) -> dict[str, Any]:
        """Return every hyper-parameter; the seed of the cell goes to a method that has one and was given none."""
        defaults = methods.hyperparameters(self.name)
        if "seed" in defaults:
            defaults["seed"] = seed
        return {key: as_tuple(value) for key, value in (defaults | self.settings).items()}


def _says(setting: str, value: Any) -> bool:
    """Whether a setting is more than the None of those that every method takes."""
    return value is not None or setting not in FOR_EVERY_METHOD


class SettingError(ValueError):
    """A method that cannot be set up as it is written.

    Attributes:
        setting: The guilty setting, or ``"name"``.
    """

    def __init__(self, message: str, setting: str) -> None:
        super().__init__(message)
        self.setting = setting


def parse_entries(text: str) -> list[Entry]:
    """Read methods as the command line has them.

    Args:
        text: Names with commas between them, each with settings in brackets if need be; ``label=`` names the row.

    Raises:
        ValueError: What is not understood, with an example.

    Example:
        >>> from midway.bench.entries import parse_entries
        >>> [(entry.name, entry.settings, entry.label) for entry in parse_entries('bn, tent(lr=1e-4, label="slow")')]
        [('bn', {}, 'bn'), ('tent', {'lr': 0.0001}, 'slow')]
    """
    try:
        parsed = ast.parse(f"[{text}]", mode="eval").body
    except SyntaxError:
        raise ValueError(_not_understood(text)) from None
    if not isinstance(parsed, ast.List):
        raise ValueError(_not_understood(text))
    return [_entry(node, text) for node in parsed.elts]


def _entry(node: ast.expr, text: str) -> Entry:
    if isinstance(node, ast.Name):
        return Entry.make(node.id, {})
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.args:
        raise ValueError(_not_understood(text))
    settings: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ValueError(_not_understood(text))
        if keyword.arg in settings:
            raise ValueError(f"{node.func.id}: {keyword.arg} is given twice.")
        try:
            settings[keyword.arg] = ast.literal_eval(keyword.value)
        except (ValueError, TypeError):
            written = ast.unparse(keyword.value)
            raise ValueError(f"{node.func.id}: {keyword.arg}={written} is no plain value; quote words.") from None
    label = settings.pop("label", None)
    if label is not None and not isinstance(label, str):
        raise ValueError(f"{node.func.id}: the label must be a word in quotes, got {label!r}.")
    return Entry.make(node.func.id, settings, label)


def _not_understood(text: str) -> str:
    return f"methods '{text}' are not understood: write them like tent,tea(steps=4),mita."
