"""Scenarios as values and as texts (``outlier:glass_blur/gaussian_noise@0.005#3``), and their streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from midway._suggest import unknown
from midway.data.corruptions import corruption_names
from midway.data.image_set import ImageSet
from midway.streams.registry import REGISTRY, SEVERITY, TEXT
from midway.streams.stream import Data, Stream

RATIOS = (0.005, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Shares of the first shift in the MITA paper's sweep."""

ROTTA = (
    "motion_blur snow fog shot_noise defocus_blur contrast zoom_blur brightness frost elastic_transform glass_blur"
    " gaussian_noise pixelate jpeg_compression impulse_noise"
)
"""The fifteen corruptions in RoTTA's order."""

SHORTHANDS: dict[str, Callable[[], tuple[str, ...]]] = {
    "all": lambda: corruption_names("benchmark"),
    "tuning": lambda: corruption_names("tuning"),
    "rotta": lambda: tuple(ROTTA.split()),
}
"""Words for several shifts -> the corruptions they stand for."""

Shifted = Callable[[str, int], ImageSet]
"""Returns the images of a shift at a severity; all its sets have the same images in the same order."""

N = TypeVar("N", int, float)


@dataclass(frozen=True)
class Scenario:
    """The recipe of a stream; ``str`` returns its text, ``parse`` reads it.

    Attributes:
        kind: A registered name, such as ``"pure"``, ``"outlier"`` or ``"continual"``.
        shifts: Names of corruptions, ``"clean"``, or domains of the data set.
        amount: The number after ``@``, for example the share of the first shift; None if the kind has none.
        severity: 1 to 5; the highest severity of a gradual scenario.

    Example:
        >>> from midway.streams import Scenario
        >>> Scenario.parse("outlier:glass_blur/gaussian_noise#3")
        Scenario(kind='outlier', shifts=('glass_blur', 'gaussian_noise'), amount=0.005, severity=3)
        >>> str(Scenario.parse("mixture:fog/snow")), Scenario.parse("gradual:fog#2").groups
        ('mixture:fog/snow@0.5', ('fog#1', 'fog#2'))
    """

    kind: str
    shifts: tuple[str, ...]
    amount: float | None = None
    severity: int = SEVERITY

    def __post_init__(self) -> None:
        kind = REGISTRY[self.kind]
        if self.amount is None:
            object.__setattr__(self, "amount", kind.default)
        kind.check(self.shifts, self.amount, self.severity)
        if self.shifts == ("clean",):
            object.__setattr__(self, "severity", SEVERITY)  # clean images have no severity

    @classmethod
    def parse(cls, text: str, *, severity: int = SEVERITY) -> Scenario:
        """Read one scenario.

        Args:
            text: ``kind:shift``, shifts joined by ``/`` (a fixed number) or ``+`` (any number), ``@`` and the share,
                the rounds or the concentration, ``#`` and the severity; the last two are optional. ``all`` stands for
                the fifteen corruptions of the benchmark, ``tuning`` for the four others, ``rotta`` for the
                fifteen in RoTTA's order.
            severity: The severity if the text has none.
        """
        scenarios = expand(text, severity=severity)
        if len(scenarios) > 1:
            raise ValueError(f"'{text}' stands for {len(scenarios)} scenarios where one is expected.")
        return scenarios[0]

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of the stream's images: the shifts, or each shift at each severity."""
        if not REGISTRY[self.kind].all_severities:
            return self.shifts
        return tuple(f"{shift}#{level}" for shift in self.shifts for level in range(1, self.severity + 1))

    def __str__(self) -> str:
        return scenario_text(self.kind, self.shifts, self.amount, self.severity)


def scenario_text(kind: str, shifts: Sequence[str], amount: float | None = None, severity: int = SEVERITY) -> str:
    """Return the text of a scenario; the severity only if it is not 5, and never for clean images alone."""
    number = "" if amount is None else f"@{int(amount) if float(amount).is_integer() else repr(float(amount))}"
    strength = "" if severity == SEVERITY or tuple(shifts) == ("clean",) else f"#{severity}"
    return f"{kind}:{REGISTRY[kind].joint.join(shifts)}{number}{strength}"


def expand(text: str, *, severity: int = SEVERITY) -> list[Scenario]:
    """Read a text that may describe several scenarios.

    ``pure:all`` is fifteen pure scenarios, ``sweep:glass_blur/gaussian_noise`` the mixtures of the paper's ratio sweep,
    ``sweep:fog/snow@0.1+0.2`` those of other ratios; every other text is one scenario, as for ``Scenario.parse``.

    Example:
        >>> from midway.streams import expand
        >>> [str(scenario) for scenario in expand("sweep:fog/snow@0.01+0.1#2")]
        ['mixture:fog/snow@0.01#2', 'mixture:fog/snow@0.1#2']
    """
    name, colon, rest = text.strip().partition(":")
    is_sweep = name == "sweep"
    try:
        kind = REGISTRY["mixture" if is_sweep else name]
    except ValueError:
        joined = f" Join corruptions of one scenario by +, as in fog+{name}." if name in corruption_names() else ""
        raise ValueError(unknown("scenario", name, (*REGISTRY, "sweep")) + joined) from None
    example = "sweep:glass_blur/gaussian_noise@0.01+0.1" if is_sweep else kind.example
    match = TEXT.fullmatch(rest)
    if not colon or match is None or not match["shifts"]:
        raise ValueError(f"'{text}' is not understood: write {name} like {example}.")
    if match["severity"] is not None:
        if match["shifts"] == "clean":
            raise ValueError(f"'{text}': clean images have no severity, leave out #{match['severity']}.")
        severity = _number(match["severity"], text, example, int)
    shorthand = SHORTHANDS.get(match["shifts"])
    shifts = shorthand() if shorthand else tuple(match["shifts"].split(kind.joint))
    if is_sweep and len(shifts) != 2:
        raise ValueError(f"'{text}' names {len(shifts)} shifts, two are needed: write it like {example}.")
    amounts: Sequence[float | None] = RATIOS if is_sweep else [None]
    if match["amount"] is not None:
        parts = match["amount"].split("+") if is_sweep else [match["amount"]]
        amounts = [_number(part, text, example, float) for part in parts]
    sets = [(shift,) for shift in shifts] if shorthand and kind.count == 1 else [shifts]
    return [Scenario(kind.name, each, amount, severity) for each in sets for amount in amounts]


def _number(part: str, text: str, example: str, kind: type[N]) -> N:
    try:
        return kind(part)
    except ValueError:
        noun = "an integer" if kind is int else "a number"
        raise ValueError(f"'{text}': '{part}' is not {noun}; write it like {example}.") from None


def build(scenario: Scenario | str, data: Data | Shifted, *, batch_size: int = 200, seed: int = 0) -> Stream:
    """Build the stream of a scenario.

    Args:
        scenario: A scenario or its text.
        data: Clean images, which are corrupted when they are read; or a function from the name of a shift and a
            severity to shifted images, such as those of CIFAR-10-C or of a domain.
        batch_size: Images per batch.
        seed: Seed of orders, positions and corruptions.

    Example:
        >>> import midway
        >>> data = midway.data.load("cifar10-mini").first(400)
        >>> midway.streams.build("mixture:glass_blur/gaussian_noise#3", data)
        Stream('mixture:glass_blur/gaussian_noise@0.5#3', 400 images in 2 batches)
    """
    if isinstance(scenario, str):
        scenario = Scenario.parse(scenario)
    kind, severity = REGISTRY[scenario.kind], scenario.severity
    base: Any = data
    shifts: list[Any] = list(scenario.shifts)
    if callable(data) and kind.all_severities:
        shifts = [[data(shift, level) for level in range(1, severity + 1)] for shift in scenario.shifts]
        base = shifts[0][0]
    elif callable(data):
        shifts = [data(shift, severity) for shift in scenario.shifts]
        base = shifts[0]
    options: dict[str, Any] = {"severity": severity, "batch_size": batch_size, "seed": seed}
    if kind.amount is not None and scenario.amount is not None:
        options[kind.amount] = int(scenario.amount) if kind.amount_kind == "count" else scenario.amount
    stream: Stream = kind.function(base, *(shifts if kind.count else [shifts]), **options)
    stream.name = str(scenario)
    return stream
