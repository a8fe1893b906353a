"""The registry of scenarios: one decorated function each, which builds the stream."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from midway._registry import Registered, Registry
from midway.data.corrupted import check_severity
from midway.streams.stream import Stream

SEVERITY = 5
"""The default severity."""

TEXT = re.compile(r"(?P<shifts>[^@#]*)(@(?P<amount>[^@#]*))?(#(?P<severity>[^@#]*))?")
"""The part of a text after the colon."""

AmountKind = Literal["share", "count", "positive", "nonnegative"]
_VALID_AMOUNTS: dict[AmountKind, tuple[str, Callable[[float], bool]]] = {
    "share": ("between 0 and 1", lambda amount: 0 < amount < 1),
    "count": ("an integer of at least 1", lambda amount: amount >= 1 and float(amount).is_integer()),
    "positive": ("above 0", lambda amount: 0 < amount < float("inf")),
    "nonnegative": ("0 or more", lambda amount: 0 <= amount < float("inf")),
}
_SHIFT = re.compile(r"[^\s@#/+,:]+")
_OPTIONS = {"severity", "batch_size", "seed"}

F = TypeVar("F", bound=Callable[..., Stream])


@dataclass(eq=False)
class ScenarioKind(Registered):
    """A registered kind of scenario: its function, the arguments of ``scenario``, and facts derived from them."""

    example: str
    joint: str  # between shifts
    count: int | None  # of shifts; None for any number
    amount: str | None  # the function's argument for the number after @, if there is one
    default: float | None  # of that argument
    amount_kind: AmountKind | None
    all_severities: bool

    def check_amount(self, amount: float) -> None:
        """Raise ValueError if the number after ``@`` is not valid for this kind."""
        if self.amount_kind is None:
            raise ValueError(f"{self.name} takes no number after @, got {amount:g}: write {self.example}.")
        expected, is_valid = _VALID_AMOUNTS[self.amount_kind]
        if not is_valid(amount):
            raise ValueError(f"the {self.amount} in {self.name} must be {expected}, got {amount:g}.")

    def check(self, shifts: tuple[str, ...], amount: float | None, severity: int) -> None:
        """Raise ValueError if a scenario of this kind cannot have these values."""
        if len(shifts) != (self.count or max(1, len(shifts))):
            expected = self.count or "1 or more"
            raise ValueError(f"{self.name} takes {expected} shifts, got {len(shifts)}: write it like {self.example}.")
        for shift in shifts:
            if not _SHIFT.fullmatch(shift):
                raise ValueError(f"'{shift}' is not the name of a shift: write {self.name} like {self.example}.")
        if len(set(shifts)) < len(shifts):
            raise ValueError(f"{self.name}:{self.joint.join(shifts)} names a shift twice: name each once.")
        if amount is not None:
            self.check_amount(amount)
        check_severity(severity)
        if self.all_severities and "clean" in shifts:
            raise ValueError(f"clean images have no severity that could rise: choose a corruption for {self.name}.")


REGISTRY: Registry[ScenarioKind] = Registry("scenario", group="scenarios", package="midway.streams")


def scenario(example: str, *, amount: AmountKind | None = None, all_severities: bool = False) -> Callable[[F], F]:
    """Register a function that builds streams as a kind of scenario; other packages list it in ``midway.scenarios``.

    How its texts are written follows from the example and the function's signature. The function takes the data and
    the shifts (as one sequence if the example joins them by ``+``), and the keyword arguments ``severity``,
    ``batch_size``, ``seed`` and, if there is one, the amount, with a default.

    Args:
        example: A text, such as ``"outlier:glass_blur/gaussian_noise@0.005"``. Shifts joined by ``/`` are a fixed
            number, shifts joined by ``+`` any number.
        amount: The valid values of the number after ``@``: ``"share"`` is between 0 and 1, ``"count"`` is an integer
            of at least 1, ``"positive"`` is above 0, ``"nonnegative"`` 0 or more. None if there is no such number.
        all_severities: Each shift occurs at all severities from 1 to that of the scenario; the function takes the
            name of a shift or its sets from severity 1 on.

    Example:
        >>> import midway
        >>> @midway.streams.scenario("alternating:fog/snow@8", amount="count")
        ... def alternating(data, shift_a, shift_b, *, period=8, severity=5, batch_size=200, seed=0):
        ...     return midway.streams.mixture(data, shift_a, shift_b, batch_size=batch_size)  # for brevity
        >>> str(midway.streams.Scenario.parse("alternating:frost/fog"))
        'alternating:frost/fog@8'
        >>> from midway.streams.registry import REGISTRY
        >>> REGISTRY.remove("alternating")
    """
    name, _, rest = example.partition(":")
    match = TEXT.fullmatch(rest)
    if match is None or not name or not match["shifts"]:
        form = "outlier:glass_blur/gaussian_noise@0.005"
        raise ValueError(f"the example of a scenario must be like '{form}', got '{example}'.")
    joint = "/" if "/" in match["shifts"] else "+"
    shifts = tuple(match["shifts"].split(joint))
    count = None if "+" in match["shifts"] else len(shifts)

    def register(function: F) -> F:
        signature = inspect.signature(function)
        keywords = {each.name: each.default for each in signature.parameters.values() if each.kind is each.KEYWORD_ONLY}
        amounts = {key: default for key, default in keywords.items() if key not in _OPTIONS}
        if (
            len(signature.parameters) - len(keywords) != 1 + (count or 1)
            or not keywords.keys() >= _OPTIONS
            or not (amount is not None) == bool(amounts) == (match["amount"] is not None)
            or not all(isinstance(default, int | float) for default in amounts.values())
        ):
            arguments = ["data", *(["shifts"] if count is None else ["shift"] * count), "*"]
            arguments += ["AMOUNT=NUMBER"] * (amount is not None) + ["severity", "batch_size", "seed"]
            raise ValueError(f"the scenario {example} needs a function of ({', '.join(arguments)}), got {signature}.")
        argument, default = next(iter(amounts.items()), (None, None))
        kind = ScenarioKind(name, function, example, joint, count, argument, default, amount, all_severities)
        kind.check(shifts, default, SEVERITY)
        REGISTRY.add(name, kind)
        return function

    return register
