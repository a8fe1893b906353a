"""Search spaces: the values that a search may try for a hyper-parameter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Uniform:
    """Numbers between two bounds: shares, thresholds.

    Example:
        >>> from midway.methods import Uniform
        >>> 0.3 in Uniform(0, 0.5), str(Uniform(0, 0.5))
        (True, '0 to 0.5')
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not -math.inf < self.low < self.high < math.inf:
            raise ValueError(f"{type(self).__name__} needs low < high, got {self.low} and {self.high}.")

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class LogUniform(Uniform):
    """Numbers between two positive bounds, uniform on a logarithmic scale: step sizes, noise.

    Example:
        >>> from midway.methods import LogUniform
        >>> str(LogUniform(1e-4, 1e-2))
        '0.0001 to 0.01, logarithmic'
    """

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high < math.inf:
            raise ValueError(f"LogUniform needs 0 < low < high, got {self.low} and {self.high}.")

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}, logarithmic"


@dataclass(frozen=True)
class Integers:
    """Integers between two bounds, both included: numbers of steps. With ``log``, uniform on a logarithmic scale.

    Example:
        >>> from midway.methods import Integers
        >>> 4 in Integers(1, 4), 5 in Integers(1, 4)
        (True, False)
    """

    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        if not self.low < self.high or (self.log and self.low < 1):
            raise ValueError(
                f"Integers needs low < high, and low of at least 1 with log, got {self.low} and {self.high}."
            )

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.low} to {self.high}, integer{', logarithmic' if self.log else ''}"


@dataclass(frozen=True, init=False)
class Choice:
    """One of a few values: strings, numbers, None.

    Example:
        >>> from midway.methods import Choice
        >>> "norm" in Choice("norm", "body", None)
        True
    """

    values: tuple[Any, ...]

    def __init__(self, *values: Any) -> None:
        if len(values) < 2 or any(value in values[:index] for index, value in enumerate(values)):
            raise ValueError(f"Choice needs two or more different values, got {values}.")
        object.__setattr__(self, "values", values)

    def __contains__(self, value: object) -> bool:
        return any(value == each and type(value) is type(each) for each in self.values)

    def __str__(self) -> str:
        shown = [str(value) for value in self.values]
        return f"{', '.join(shown[:-1])} or {shown[-1]}"


Space = LogUniform | Uniform | Integers | Choice
SearchSpace = Mapping[str, Space]


def search_over(**spaces: Space) -> SearchSpace:
    """Return a read-only search space, for the body of a method's class.

    Example:
        >>> from midway.methods import Integers, LogUniform, search_over
        >>> list(search_over(lr=LogUniform(1e-4, 1e-2), steps=Integers(1, 4)))
        ['lr', 'steps']
    """
    return MappingProxyType(spaces)


def preset_values(**hyperparameters: Any) -> Mapping[str, Any]:
    """Return the read-only hyper-parameters of a preset, for the body of a method's class.

    Example:
        >>> from midway.adaptation.space import preset_values
        >>> dict(preset_values(lr=1e-3))
        {'lr': 0.001}
    """
    return MappingProxyType(hyperparameters)
