"""The tables of the MITA paper as data: methods, settings and streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from midway.bench import paper
from midway.bench.entries import Entry
from midway.data import corruption_names
from midway.methods import hyperparameters
from midway.streams import Scenario
from midway.suggest import unknown

EQUAL_BUDGET = "tea_equal_budget"
"""TEA with as many updates per batch as both models of MITA together: a fair rival, which the paper lacks."""


@dataclass(frozen=True)
class Suite:
    """A table of the paper: every entry on every stream.

    Attributes:
        name: Its name on the command line.
        title: Its title.
        entries: The rows; their labels are the keys of the paper's numbers.
        scenarios: The streams.
    """

    name: str
    title: str
    entries: tuple[Entry, ...]
    scenarios: tuple[Scenario, ...]


def suite(name: str, *, only: Sequence[str] = ()) -> Suite:
    """Return a table of the paper by name: outlier, mixture, pure, sweep or ablation.

    MITA and entries that depend on it have the defaults of this library.

    Args:
        name: The table.
        only: Labels of the rows to keep besides Source; all by default.

    Example:
        >>> from midway.bench.suites import suite
        >>> outlier = suite("outlier", only=["tent", "mita"])
        >>> [entry.label for entry in outlier.entries]
        ['source', 'tent', 'mita']
        >>> str(outlier.scenarios[0])
        'outlier:glass_blur/gaussian_noise@0.005'
    """
    if name not in SUITES:
        raise ValueError(unknown("table of the paper", name, SUITES))
    whole = SUITES[name]()
    labels = [entry.label for entry in whole.entries]
    for label in only:
        if label not in labels:
            raise ValueError(unknown(f"row of the {name} table", label, labels))
    entries = tuple(entry for entry in whole.entries if not only or entry.label in ("source", *only))
    return replace(whole, entries=entries)


def equal_budget_tea() -> Entry:
    """Return TEA with as many updates as MITA, and with MITA's values of the settings that both have.

    Example:
        >>> from midway.bench.suites import equal_budget_tea
        >>> from midway.methods import hyperparameters
        >>> equal_budget_tea().settings["langevin_steps"] == hyperparameters("mita")["langevin_steps"]
        True
    """
    mita, tea = hyperparameters("mita"), hyperparameters("tea")
    shared = {name: value for name, value in mita.items() if name in tea and value != tea[name]}
    of_both = {
        "persistent": mita["predictor_steps"] + mita["data_model_steps"],
        "fresh": mita["data_model_steps"],  # continues from the predictor
        "same": mita["predictor_steps"],
    }
    steps = of_both[mita["data_model"]]
    return Entry("tea", {"steps": steps, **shared}, EQUAL_BUDGET)


def compared(*, without: Sequence[str] = ()) -> tuple[Entry, ...]:
    """Return the methods of the paper in its order; TEA with the budget of MITA follows TEA.

    Example:
        >>> from midway.bench.suites import compared
        >>> [entry.label for entry in compared()][-4:]
        ['tea', 'tea_equal_budget', 'memo', 'mita']
    """
    entries = [Entry(name, {}, name) for name in paper.METHODS if name not in without]
    index = [entry.label for entry in entries].index("tea") + 1
    return (*entries[:index], equal_budget_tea(), *entries[index:])


def _outlier() -> Suite:
    streams = tuple(Scenario("outlier", pair, 0.005) for pair in paper.PAIRS)
    return Suite("outlier", "Outliers: one image in 200 from another distribution", compared(), streams)


def _mixture() -> Suite:
    streams = tuple(Scenario("mixture", pair, 0.5) for pair in paper.PAIRS)
    return Suite("mixture", "Mixtures: two distributions in equal shares", compared(), streams)


def _pure() -> Suite:
    streams = tuple(Scenario("pure", (corruption,)) for corruption in corruption_names("benchmark"))
    return Suite("pure", "Pure: one corruption at a time", compared(), streams)


def _sweep() -> Suite:
    streams = tuple(Scenario("mixture", pair, ratio) for pair in paper.PAIRS for ratio in paper.RATIOS)
    return Suite("sweep", "Sweep: from rare outliers to equal shares", compared(without=["memo"]), streams)


def _ablation() -> Suite:
    pair = ("impulse_noise", "gaussian_noise")
    entries = (
        Entry("source", {}, "source"),
        Entry("mita", {"adapt_data": False}, "mita_without_data"),
        Entry("mita", {"adapt_model": False}, "mita_without_model"),
        Entry("mita", {"data_model": "same"}, "mita_same"),
        equal_budget_tea(),
        Entry("mita", {}, "mita"),
    )
    streams = (
        *(Scenario("pure", (corruption,)) for corruption in pair),
        Scenario("outlier", pair, 0.005),
        Scenario("mixture", pair, 0.5),
    )
    return Suite("ablation", "Ablation: the contribution of each part of MITA", entries, streams)


SUITES: dict[str, Callable[[], Suite]] = {
    "outlier": _outlier,
    "mixture": _mixture,
    "pure": _pure,
    "sweep": _sweep,
    "ablation": _ablation,
}
"""Name -> function that creates the table."""
