"""The tables of the MITA paper and the demo: methods, settings and streams, and the measured cost of methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from midway._suggest import unknown
from midway.bench import paper
from midway.bench.entries import Entry, parse_entries
from midway.bench.plan import Grid
from midway.cost import PAPER_FORWARD_PASSES, Cost, measure_cost, paper_gflops
from midway.data import corruption_names
from midway.methods import adapt, hyperparameters, preset
from midway.streams import Scenario
from midway.streams.parsing import RATIOS

EQUAL_BUDGET = "tea_equal_budget"
"""TEA with as many updates per batch as all models of MITA together: a fair rival, which the paper lacks."""

DEMO_NETWORK, DEMO_DATA = "wrn16_2.cifar10", "cifar10-mini"
DEMO_REQUIRED = ("source", "bn", "mita", "bn_clustered", "mita_clustered")
"""Rows that always run in the demo: BN and MITA, with and without clustered statistics."""

DEMO_METHODS = (
    "source, bn, tent, eata, roid, mita"
    ', bn(statistics="clustered", label="bn_clustered"), tent(statistics="clustered", label="tent_clustered")'
    ', mita(statistics="clustered", label="mita_clustered")'
)
"""Rows of the demo."""

DEMO_IMAGES = 2000
"""Images of the demo, all embedded ones: one in twenty is an outlier, so these are a hundred."""

DEMO_STREAMS = ("outlier:glass_blur/gaussian_noise@0.05", "mixture:glass_blur/gaussian_noise@0.5")
"""Streams of the demo; the first always runs."""


@dataclass(frozen=True)
class Suite:
    """A table of the paper: every entry on every stream; labels of entries are the keys of the paper's numbers."""

    name: str
    title: str
    entries: tuple[Entry, ...]
    scenarios: tuple[Scenario, ...]


def suite(name: str, *, only: Sequence[str] = (), shifts: Sequence[str] = ()) -> Suite:
    """Return a table of the paper by name: outlier, mixture, pure, sweep or ablation.

    ``only`` names rows besides Source, ``shifts`` corruptions or pairs a/b; all by default. MITA and entries that
    depend on it have the defaults of this library.
    """
    if name not in SUITES:
        raise ValueError(unknown("table of the paper", name, SUITES))
    title, entries_of, scenarios = SUITES[name]
    rows = {entry.label: entry for entry in entries_of()}
    columns = {scenario: "/".join(scenario.shifts) for scenario in scenarios}
    for kind, wanted, known in (("row", only, rows), ("column", shifts, columns.values())):
        for text in wanted:
            if text not in known:
                raise ValueError(unknown(f"{kind} of the {name} table", text, {*known}))
    entries = tuple(entry for label, entry in rows.items() if not only or label in ("source", *only))
    return Suite(name, title, entries, tuple(each for each, pair in columns.items() if not shifts or pair in shifts))


def equal_budget_tea() -> Entry:
    """Return TEA with as many updates as MITA, and with MITA's values of the settings of the samples.

    The step size remains TEA's: MITA's is that of a model which is pulled back to the source.
    """
    mita, tea = hyperparameters("mita"), hyperparameters("tea")
    shared = {name: value for name, value in mita.items() if name in tea and value != tea[name] and name != "lr"}
    of_both = {
        "single": mita["data_model_steps"],
        "persistent": mita["predictor_steps"] + mita["data_model_steps"],
        "fresh": mita["data_model_steps"],  # continues from the predictor
        "same": mita["predictor_steps"],
    }
    steps = of_both[mita["data_model"]]
    return Entry("tea", {"steps": steps, **shared}, EQUAL_BUDGET)


def create_entries(*, without: Sequence[str] = ()) -> tuple[Entry, ...]:
    """Create the entries of the methods of the paper, in its order; TEA with the budget of MITA follows TEA."""
    entries = [Entry(name, {}, name) for name in paper.METHODS if name not in without]
    index = [entry.label for entry in entries].index("tea") + 1
    return (*entries[:index], equal_budget_tea(), *entries[index:])


def _streams(kind: str, *amounts: float) -> tuple[Scenario, ...]:
    return tuple(Scenario(kind, pair, amount) for pair in paper.PAIRS for amount in amounts)


def _variants() -> tuple[Entry, ...]:
    return (
        Entry("source", {}, "source"),
        Entry("mita", {"adapt_data": False}, "mita_without_data"),
        Entry("mita", {"adapt_model": False}, "mita_without_model"),
        Entry("mita", {"data_model": "same"}, "mita_same"),
        equal_budget_tea(),
        Entry("mita", {}, "mita"),
    )


_PURE = tuple(Scenario("pure", (corruption,)) for corruption in corruption_names("benchmark"))
_NOISES = ("impulse_noise", "gaussian_noise")
_ABLATED = (
    *(Scenario("pure", (corruption,)) for corruption in _NOISES),
    Scenario("outlier", _NOISES, 0.005),
    Scenario("mixture", _NOISES, 0.5),
)

SUITES: dict[str, tuple[str, Callable[[], tuple[Entry, ...]], tuple[Scenario, ...]]] = {
    "outlier": ("Outliers: one image in 200 from another distribution", create_entries, _streams("outlier", 0.005)),
    "mixture": ("Mixtures: two distributions in equal shares", create_entries, _streams("mixture", 0.5)),
    "pure": ("Pure: one corruption at a time", create_entries, _PURE),
    "sweep": (
        "Sweep: from rare outliers to equal shares",
        lambda: create_entries(without=["memo"]),
        _streams("mixture", *RATIOS),
    ),
    "ablation": ("Ablation: the contribution of each part of MITA", _variants, _ABLATED),
}
"""Name of a table -> its title, function that creates its entries, streams."""


def demo_grids(methods: Sequence[str] = (), *, images: int | None = None, seed: int = 0) -> list[Grid]:
    """Return the plans of ``midway demo`` from the largest to the smallest; the first that fits the time is run.

    Both streams, the outlier stream alone, and, unless the number of images is given, that one on fewer images.
    """
    both = demo_grid(methods, images=images or DEMO_IMAGES, seed=seed)
    outliers = replace(both, scenarios=DEMO_STREAMS[:1])
    return [both, outliers, *([] if images else [replace(outliers, images=None)])]


def demo_grid(methods: Sequence[str] = (), *, images: int | None = None, seed: int = 0) -> Grid:
    """Return the plan of ``midway demo``: an outlier and a mixed stream of corrupted CIFAR-10 images.

    A choice of methods by default, some with clustered statistics too, and Source in any case.
    """
    return Grid(
        methods=tuple(parse_entries(", ".join(dict.fromkeys(["source", *methods])) if methods else DEMO_METHODS)),
        networks=(DEMO_NETWORK,),
        data=(DEMO_DATA,),
        scenarios=DEMO_STREAMS,
        seeds=(seed,),
        images=images,
    )


@dataclass(frozen=True)
class ComplexityRow:
    """A row of the complexity table: by the rule of the paper for this network, in the paper (WRN-28-10), measured."""

    label: str
    gflops_as_published: float | None
    published: paper.Complexity | None
    cost: Cost | None


def complexity_entries() -> dict[str, Entry]:
    """Return what to measure: the rows of the paper with its settings, then the methods with their defaults, and DDA.

    The paper discusses DDA's cost without a number: the embedded denoiser, and as many steps as published.
    """
    entries = [Entry(row.method, _settings(row), row.label) for row in paper.complexity()]
    known = {entry.label for entry in entries}
    ours = [Entry(e.name, e.settings, f"{e.label}, default" if e.label in known else e.label) for e in create_entries()]
    ours += [Entry("dda", {}, "dda"), Entry("dda", preset("dda", "published"), "dda_published")]
    alike = {(entry.name, repr(entry.settings)) for entry in entries}
    return {e.label: e for e in (*entries, *(e for e in ours if (e.name, repr(e.settings)) not in alike))}


def _settings(row: paper.Complexity) -> dict[str, Any]:
    if row.views is not None:
        return {"views": row.views}
    if row.langevin_steps is None:
        return {}
    published = preset("mita", "published") if row.method == "mita" else {}
    return {**published, "langevin_steps": row.langevin_steps, "shared_pass": False}


def measure_complexity(
    network: nn.Module,
    images: Tensor,
    *,
    only: Sequence[str] = (),
    repeats: int = 1,
    on_entry: Callable[[str, int, int], None] | None = None,
) -> list[ComplexityRow]:
    """Measure the cost of one batch for each method on a network, beside the count of the paper.

    Rows that are not in ``only``, if it is given, have only the count of the paper. The paper's batch has 200 images
    of CIFAR-10-C, gaussian noise.
    """
    entries = complexity_entries()
    for label in only:
        if label not in entries:
            raise ValueError(unknown("row of the complexity table", label, entries))
    rows = {row.label: row for row in paper.complexity()}
    running = [entry.label for entry in entries.values() if not only or entry.label in only]
    channels, height, width = images.shape[1:]
    source = paper_gflops(network, "source", image_shape=(channels, height, width))
    lines = []
    for label, entry in entries.items():
        cost = None
        if label in running:
            if on_entry is not None:
                on_entry(label, running.index(label), len(running))
            cost = measure_cost(adapt(network, entry.name, **entry.settings), images, repeats=repeats)
        row, gflops = rows.get(label), None
        if row is not None:
            gflops = PAPER_FORWARD_PASSES[row.method](row.langevin_steps or 1, row.views or 1) * source
        if row is not None or cost is not None:
            lines.append(ComplexityRow(label, gflops, row, cost))
    return lines
