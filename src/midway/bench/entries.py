"""Methods with settings as text: ``tent,tea(steps=4),mita(lr=1e-4, label="MITA, slow")``."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from torch import nn

from midway.adaptation.presets import with_preset
from midway.adaptation.registry import FOR_EVERY_METHOD, PRESET
from midway.bench.cell import as_tuple
from midway.methods import adapt, find, hyperparameters
from midway.suggest import unknown
from midway.testing import tiny_network


@dataclass(frozen=True)
class Entry:
    """One row of a comparison: a method, the settings that differ from its defaults, and a label.

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
        """Check the settings by creating the method on a tiny network; without a label the settings are the label.

        Raises:
            SettingError: The method or a setting is unknown, or the method rejects a value.
        """
        written = ", ".join(f"{key}={as_tuple(value)!r}" for key, value in settings.items() if _is_given(key, value))
        try:
            known = {*hyperparameters(name), *FOR_EVERY_METHOD}
        except ValueError as error:
            raise SettingError(str(error), "name") from error
        try:
            settings = with_preset(name, settings)
        except ValueError as error:
            raise SettingError(f"{name}: {error}", PRESET) from error
        settings = {key: as_tuple(value) for key, value in settings.items() if _is_given(key, value)}
        for setting in settings:
            if setting not in known:
                raise SettingError(unknown(f"hyper-parameter of {name}", setting, known), setting)
        layers = find(name).names_layers  # settings that name layers of the real network
        checked = {key: value for key, value in settings.items() if key not in layers}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                adapt(_trial_network(), name, **checked)
        except (TypeError, ValueError) as error:
            at_fault = next((setting for setting in settings if setting in str(error)), "name")
            raise SettingError(f"{name}: {error}", at_fault) from error
        return cls(name, settings, label or (f"{name}({written})" if written else name))

    def complete_settings(self, seed: int) -> dict[str, Any]:
        """Return every hyper-parameter; a method with a ``seed`` that is not set gets the seed of the cell."""
        defaults = hyperparameters(self.name)
        if "seed" in defaults:
            defaults["seed"] = seed
        return {key: as_tuple(value) for key, value in (defaults | self.settings).items()}


def _is_given(setting: str, value: Any) -> bool:
    """Tell whether a setting is given: those that every method takes are None by default."""
    return value is not None or setting not in FOR_EVERY_METHOD


@cache
def _trial_network() -> nn.Module:
    """Return the network on which settings are checked; methods copy it and never change it."""
    return tiny_network()


class SettingError(ValueError):
    """A method that cannot be created with the given settings.

    Attributes:
        setting: The setting at fault, or ``"name"``.
    """

    def __init__(self, message: str, setting: str) -> None:
        super().__init__(message)
        self.setting = setting


def parse_entries(text: str) -> list[Entry]:
    """Parse methods as they are written on the command line.

    Args:
        text: Names separated by commas, optionally with settings in parentheses; ``label=`` names the row.

    Raises:
        ValueError: The text cannot be parsed; the message has an example.

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
            raise ValueError(f"{node.func.id}: {keyword.arg}={written} is not a number or a quoted string.") from None
    label = settings.pop("label", None)
    if label is not None and not isinstance(label, str):
        raise ValueError(f"{node.func.id}: the label must be a quoted string, got {label!r}.")
    return Entry.make(node.func.id, settings, label)


def _not_understood(text: str) -> str:
    return f"methods '{text}' cannot be parsed: write them like tent,tea(steps=4),mita."
