"""Scenarios as text: ``outlier:glass_blur/gaussian_noise@0.005#3`` for plans, the command line and tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from midway.data.corruptions import corruption_names
from midway.data.corruptions.registry import Purpose
from midway.suggest import unknown

SEVERITY = 5
"""The severity of a scenario that names none."""

RATIOS = (0.005, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Shares of A in the MITA paper's sweep."""


SHORTHANDS: dict[str, Purpose] = {"all": "benchmark", "tuning": "tuning"}
"""Words for several shifts -> the purpose of the corruptions they stand for."""


@dataclass(frozen=True)
class _Kind:
    """How the text of a kind of scenario is written.

    Attributes:
        form: An example for error messages.
        least: Fewest shifts.
        most: Most shifts; None for any number.
        joint: What stands between shifts.
        amount: What the number after @ means; empty where there is none.
        default: That number where the text leaves it out.
        whole: The number must be whole and at least 1.
    """

    form: str
    least: int = 1
    most: int | None = 1
    joint: str = "+"
    amount: str = ""
    default: float | None = None
    whole: bool = False


KINDS: dict[str, _Kind] = {
    "pure": _Kind("pure:fog"),
    "outlier": _Kind("outlier:glass_blur/gaussian_noise@0.005", 2, 2, "/", "share of the first", 0.005),
    "mixture": _Kind("mixture:glass_blur/gaussian_noise@0.5", 2, 2, "/", "share of the first", 0.5),
    "continual": _Kind("continual:fog+snow", most=None),
    "recurring": _Kind("recurring:fog+snow@3", most=None, amount="number of rounds", default=2, whole=True),
    "gradual": _Kind("gradual:fog", most=None),
    "dirichlet": _Kind("dirichlet:fog@0.1", amount="concentration", default=0.1),
}
"""Every kind of scenario and how it is written."""

_FORM = re.compile(r"(?P<shifts>[^@#]*)(@(?P<amount>[^@#]*))?(#(?P<severity>[^@#]*))?")


@dataclass(frozen=True)
class Scenario:
    """Which images arrive when, as plain values; ``str`` gives the text, ``parse`` takes it back.

    Attributes:
        kind: ``"pure"``, ``"outlier"``, ``"mixture"``, ``"continual"``, ``"recurring"``, ``"gradual"`` or
            ``"dirichlet"``.
        shifts: Names of corruptions, ``"clean"``, or domains of a data set that has them.
        amount: The share of the first shift, the number of rounds or the concentration; None where there is none.
        severity: 1 to 5; the highest one of a gradual stream.

    Example:
        >>> from midway.streams import Scenario
        >>> Scenario.parse("outlier:glass_blur/gaussian_noise#3")
        Scenario(kind='outlier', shifts=('glass_blur', 'gaussian_noise'), amount=0.005, severity=3)
        >>> str(Scenario.parse("mixture:fog/snow"))
        'mixture:fog/snow@0.5'
    """

    kind: str
    shifts: tuple[str, ...]
    amount: float | None = None
    severity: int = SEVERITY

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(unknown("scenario", self.kind, KINDS))
        kind = KINDS[self.kind]
        if len(self.shifts) < kind.least or (kind.most is not None and len(self.shifts) > kind.most):
            wanted = f"{kind.least} or more" if kind.most is None else kind.least
            raise ValueError(f"{self.kind} takes {wanted} shifts, got {len(self.shifts)}: write it like {kind.form}.")
        for shift in self.shifts:
            if not re.fullmatch(r"[^\s@#/+,:]+", shift):
                raise ValueError(f"'{shift}' is no name of a shift: write {self.kind} like {kind.form}.")
        if len(set(self.shifts)) < len(self.shifts):
            raise ValueError(f"{self.kind}:{kind.joint.join(self.shifts)} names a shift twice: name each once.")
        self._check_amount(kind)
        if self.severity not in range(1, 6):
            raise ValueError(f"severity must be a whole number from 1 to 5, got {self.severity}.")
        if self.shifts == ("clean",):
            object.__setattr__(self, "severity", SEVERITY)  # there is only one kind of clean
        if self.kind == "gradual" and "clean" in self.shifts:
            raise ValueError("clean images have no severity that could rise: choose a corruption for gradual.")

    def _check_amount(self, kind: _Kind) -> None:
        if not kind.amount:
            if self.amount is not None:
                raise ValueError(f"{self.kind} takes no number after @, got {self.amount:g}: write {kind.form}.")
            return
        if self.amount is None:
            object.__setattr__(self, "amount", kind.default)
        assert self.amount is not None
        if kind.whole:
            good = self.amount >= 1 and float(self.amount).is_integer()
            wanted = "a whole number of at least 1"
        elif kind.most == 2:
            good, wanted = 0 < self.amount < 1, "between 0 and 1"
        else:
            good, wanted = 0 < self.amount < float("inf"), "above 0"
        if not good:
            raise ValueError(f"the {kind.amount} in {self.kind} must be {wanted}, got {self.amount:g}.")

    @classmethod
    def parse(cls, text: str, *, severity: int = SEVERITY) -> Scenario:
        """Read one scenario.

        Args:
            text: ``kind:shift``, shifts joined by ``/`` (A and B) or ``+`` (any number), ``@`` with the share, the
                rounds or the concentration, ``#`` with the severity; the last two may be left out. ``all`` stands
                for the fifteen corruptions, ``tuning`` for the four others.
            severity: Where the text names none.

        Raises:
            ValueError: With the part that is wrong and an example of how it is written.

        Example:
            >>> len(Scenario.parse("continual:all").shifts)
            15
        """
        found = expand(text, severity=severity)
        if len(found) > 1:
            raise ValueError(f"'{text}' stands for {len(found)} scenarios where one is expected.")
        return found[0]

    def __str__(self) -> str:
        return scenario_name(self.kind, self.shifts, self.amount, self.severity)


def expand(text: str, *, severity: int = SEVERITY) -> list[Scenario]:
    """Read a text that may stand for several scenarios.

    ``pure:all`` is fifteen pure streams, ``sweep:glass_blur/gaussian_noise`` the mixtures of the paper's ratio sweep,
    ``sweep:fog/snow@0.1+0.2`` those of other ratios; everything else is one scenario.

    Args:
        text: As for ``Scenario.parse``.
        severity: Where the text names none.

    Example:
        >>> from midway.streams import expand
        >>> [str(scenario) for scenario in expand("sweep:fog/snow@0.01+0.1#2")]
        ['mixture:fog/snow@0.01#2', 'mixture:fog/snow@0.1#2']
    """
    kind, colon, rest = text.strip().partition(":")
    if kind not in (*KINDS, "sweep"):
        raise ValueError(unknown("scenario", kind, (*KINDS, "sweep")))
    form = "sweep:glass_blur/gaussian_noise@0.01+0.1" if kind == "sweep" else KINDS[kind].form
    match = _FORM.fullmatch(rest)
    if not colon or match is None or not match["shifts"]:
        raise ValueError(f"'{text}' is not understood: write {kind} like {form}.")
    if match["severity"] is not None:
        if match["shifts"] == "clean":
            raise ValueError(f"'{text}': clean images have no severity, leave out #{match['severity']}.")
        severity = int(_number(match["severity"], text, form, whole=True))
    if kind == "sweep":
        amounts = match["amount"].split("+") if match["amount"] is not None else list(map(str, RATIOS))
        shifts = tuple(match["shifts"].split("/"))
        return ratio_sweep(*_pair(shifts, text, form), [_number(a, text, form) for a in amounts], severity=severity)
    amount = None if match["amount"] is None else _number(match["amount"], text, form)
    several = SHORTHANDS.get(match["shifts"])
    shifts = corruption_names(several) if several else tuple(match["shifts"].split(KINDS[kind].joint))
    if len(shifts) > 1 and KINDS[kind].most == 1 and several:
        return [Scenario(kind, (shift,), amount, severity) for shift in shifts]
    return [Scenario(kind, shifts, amount, severity)]


def ratio_sweep(
    shift_a: str, shift_b: str, ratios: Sequence[float] = RATIOS, *, severity: int = SEVERITY
) -> list[Scenario]:
    """List the mixtures of two shifts from a rare outlier to half and half.

    Example:
        >>> from midway.streams import ratio_sweep
        >>> [scenario.amount for scenario in ratio_sweep("glass_blur", "gaussian_noise")]
        [0.005, 0.02, 0.05, 0.1, 0.2, 0.5]
    """
    whole = Scenario("mixture", (shift_a, shift_b), severity=severity)
    return [replace(whole, amount=ratio) for ratio in ratios]


def scenario_name(kind: str, shifts: Sequence[str], amount: float | None = None, severity: int = SEVERITY) -> str:
    """Write a scenario as text; the severity only where it is not 5, and never of clean images alone.

    Example:
        >>> from midway.streams.scenario import scenario_name
        >>> scenario_name("outlier", ["glass_blur", "gaussian_noise"], 0.005, severity=3)
        'outlier:glass_blur/gaussian_noise@0.005#3'
    """
    number = "" if amount is None else f"@{int(amount) if float(amount).is_integer() else repr(float(amount))}"
    strength = "" if severity == SEVERITY or tuple(shifts) == ("clean",) else f"#{severity}"
    return f"{kind}:{KINDS[kind].joint.join(shifts)}{number}{strength}"


def _pair(shifts: tuple[str, ...], text: str, form: str) -> tuple[str, str]:
    if len(shifts) != 2:
        raise ValueError(f"'{text}' names {len(shifts)} shifts where two are needed: write it like {form}.")
    return shifts[0], shifts[1]


def _number(part: str, text: str, form: str, *, whole: bool = False) -> float:
    try:
        return int(part) if whole else float(part)
    except ValueError:
        kind = "whole number" if whole else "number"
        raise ValueError(f"'{text}': '{part}' is no {kind}; write it like {form}.") from None
