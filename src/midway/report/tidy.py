"""Results as one tidy table: a row for each label, scenario, group, seed and metric; names and styles of labels."""

from __future__ import annotations

import colorsys
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from midway.bench import Cell, Record, read_records
from midway.data.corruptions.registry import shift_title
from midway.methods import METHODS
from midway.streams import SEVERITY, Scenario

if TYPE_CHECKING:
    import pandas

ALL = "all"
"""The group of all images of a stream."""

IMAGES = "images"
"""The metric that counts the images of a group."""

SPARE = (("#000000", "8"), ("#5f6b2d", "H"), ("#00797a", "8"), ("#a6261d", "H"), ("#7f5fa8", "8"))
"""Colours and markers of methods whose ``about`` declares none. Like the declared ones, they follow Okabe and Ito, and
Tol: colour-blind readers can distinguish them, and similar ones differ in marker."""

TINTS = (0.2, 0.27, 0.34, 0.41, 0.48)
"""Shares of white in the colours of variants of a method."""

PATTERNS: tuple[tuple[tuple[float, ...], str], ...] = (
    ((), ""),
    ((4.0, 1.5), "////"),
    ((1.5, 1.2), "...."),
    ((5.0, 1.5, 1.5, 1.5), "\\\\\\\\"),
    ((7.0, 2.0), "----"),
    ((1.5, 2.5), "xxxx"),
    ((7.0, 1.5, 1.5, 1.5, 1.5, 1.5), "||||"),
    ((3.0, 3.0), "++++"),
)
"""Dash and hatch: those of a method, then those of its variants."""


class Row(NamedTuple):
    """One number.

    Attributes:
        label: What tables call the method.
        scenario: Which images arrived when.
        group: The group of images that the number is about, or ``"all"``.
        seed: Seed of the stream and of the method.
        metric: Name of the metric, see ``midway.metrics.METRICS``; ``"images"`` is the number of images.
        value: The number.
    """

    label: str
    scenario: Scenario
    group: str
    seed: int
    metric: str
    value: float


class PlotStyle(NamedTuple):
    """How a method is named and drawn; marker and hatch have matplotlib's names."""

    title: str
    colour: str
    colour_on_dark: str
    marker: str
    dash: tuple[float, ...]  # lengths of dashes and gaps; empty for a solid line
    hatch: str


@dataclass(frozen=True, repr=False)
class Frame:
    """Rows of one comparison, in the order of the results.

    Attributes:
        rows: The rows.
        source: The label of the unadapted network; None if it was not run.
        methods: Label -> name of its method, for colours and titles.
        batch_accuracies: Label, scenario and seed -> accuracy of each batch in percent.

    Example:
        >>> from midway.report import Frame, Row
        >>> from midway.streams import Scenario
        >>> fog = Scenario.parse("pure:fog")
        >>> rows = (Row("bn", fog, "fog", 0, "accuracy", 70.0), Row("bn", fog, "fog", 0, "images", 200.0))
        >>> Frame(rows).where(metric="accuracy").rows[0].value
        70.0
        >>> Frame(rows)
        Frame(2 rows; labels: bn; streams: pure:fog; metrics: accuracy, images)
    """

    rows: tuple[Row, ...]
    source: str | None = None
    methods: Mapping[str, str] = field(default_factory=dict, hash=False)
    batch_accuracies: Mapping[tuple[str, Scenario, int], tuple[float, ...]] = field(default_factory=dict, hash=False)

    def __repr__(self) -> str:
        columns = {"labels": "label", "streams": "scenario", "metrics": "metric"}
        content = "; ".join(f"{title}: {', '.join(map(str, self.unique(name)))}" for title, name in columns.items())
        return f"Frame({len(self)} rows; {content})"

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def styles(self) -> dict[str, PlotStyle]:
        """Label -> its style; a label without a method counts as the name of one."""
        return plot_styles({label: self.methods.get(label, label) for label in self.unique("label")})

    def where(
        self,
        *,
        label: str | Collection[str] | None = None,
        scenario: Scenario | Collection[Scenario] | None = None,
        group: str | Collection[str] | None = None,
        seed: int | Collection[int] | None = None,
        metric: str | Collection[str] | None = None,
    ) -> Frame:
        """Return the rows whose columns have the given value or one of the given values."""
        rows: Iterable[Row] = self.rows
        for index, value in enumerate((label, scenario, group, seed, metric)):  # in the order of the fields of Row
            if value is not None:
                values = (value,) if isinstance(value, str | int | Scenario) else value
                rows = [row for row in rows if row[index] in values]
        return replace(self, rows=tuple(rows))

    def filter(self, condition: Callable[[Row], bool]) -> Frame:
        """Return the rows that meet a condition."""
        return replace(self, rows=tuple(filter(condition, self.rows)))

    def unique(self, column: str) -> list[Any]:
        """Return the distinct values of a column, a field of ``Row``, in the order in which they first appear."""
        index = Row._fields.index(column)
        return list(dict.fromkeys([row[index] for row in self.rows]))

    def common_seeds(self) -> Frame:
        """Keep, for each scenario, the seeds that all labels with that scenario share.

        Means over seeds are compared only where all methods have the same seeds. Where nothing is common to all
        labels, the labels with the fewest seeds are dropped from that scenario.
        """
        seeds: dict[Scenario, dict[str, set[int]]] = {}
        for row in self.rows:
            seeds.setdefault(row.scenario, {}).setdefault(row.label, set()).add(row.seed)
        shared: dict[tuple[Scenario, str], set[int]] = {}
        for scenario, by_label in seeds.items():
            labels, common = find_common(by_label)
            for label in labels:
                shared[scenario, label] = common
        rows = [row for row in self.rows if row.seed in shared.get((row.scenario, row.label), ())]
        return replace(self, rows=tuple(rows))

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a pandas DataFrame; scenarios become text.

        Raises:
            ImportError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError("a DataFrame needs pandas: pip install pandas.") from error
        return pandas.DataFrame([row._replace(scenario=str(row.scenario)) for row in self.rows], columns=Row._fields)  # type: ignore[arg-type]


def find_common(sets: dict[str, set[Any]]) -> tuple[list[str], set[Any]]:
    """Return the labels that share something and what they share; labels with the fewest elements are dropped first."""
    labels = list(sets)
    while labels:
        common = set.intersection(*[sets[label] for label in labels])
        if common:
            return labels, common
        labels.remove(min(labels, key=lambda label: len(sets[label])))
    return [], set()


def frame(results: Iterable[Record] | str | Path) -> Frame:
    """Return results as a tidy table.

    Args:
        results: Records, or the folder of a run. Of several records of one cell the last counts, but a failed
            repetition does not hide a result. Failed cells have no rows.

    Example:
        >>> from midway.bench import Grid, LocalEngine
        >>> from midway.report import frame
        >>> cells = Grid.from_dict({"methods": "source,bn", "images": 100, "batch_sizes": 50}).cells()
        >>> rows = frame(LocalEngine().run(cells))
        >>> rows.unique("label"), rows.unique("group"), rows.source
        (['source', 'bn'], ['all', 'gaussian_noise'], 'source')
        >>> [row.value for row in rows.where(metric="images", label="bn", group="all")]
        [100]
    """
    records = keep_latest(read_records(results) if isinstance(results, str | Path) else results)
    done = [(record.cell, record.result) for record in records if record.result is not None]
    rows, source, methods, batch_accuracies = [], None, {}, {}
    for (cell, result), label in zip(done, distinct_labels([cell for cell, _ in done]), strict=True):
        methods[label] = cell.method
        batch_accuracies[label, cell.scenario, cell.seed] = result.batch_accuracies
        if source is None and cell.method == "source" and cell.settings.get("statistics") is None:
            source = label  # the network as it is
        for group, metrics in ({ALL: {IMAGES: result.images} | result.metrics} | result.groups).items():
            for metric, value in metrics.items():
                rows.append(Row(label, cell.scenario, group, cell.seed, metric, value))
    return Frame(tuple(rows), source, methods, batch_accuracies)


def keep_latest(records: Iterable[Record]) -> list[Record]:
    """Return the record that counts for each cell: the last one, but a failure never hides a result."""
    by_key: dict[str, Record] = {}
    for record in records:
        if record.replaces(by_key.get(record.cell.key)):
            by_key[record.cell.key] = record
    return list(by_key.values())


def distinct_labels(cells: Sequence[Cell]) -> list[str]:
    """Return the label of each cell; where one label has several settings, the settings that differ are added.

    A store may hold ``tent`` with two learning rates, from two plans, which are not two seeds of one method.
    """
    variants: dict[str, list[dict[str, Any]]] = {}
    settings: list[dict[str, Any]] = []
    for cell in cells:
        settings.append({"": cell.method, **cell.settings})
        settings[-1].pop("seed", None)  # differs on purpose
        known = variants.setdefault(cell.label, [])
        if settings[-1] not in known:
            known.append(settings[-1])
    labels = []
    for cell, mine in zip(cells, settings, strict=True):
        known, label = variants[cell.label], cell.label
        if len(known) > 1:
            names = dict.fromkeys(name for each in known for name in each)
            differing = [name for name in names if any(each.get(name) != known[0].get(name) for each in known)]
            added = [f"{name}={mine.get(name)}" if name else str(mine.get(name)) for name in differing]
            label = f"{label} ({', '.join(added)})"
        labels.append(label)
    return labels


def plot_styles(labels: Mapping[str, str]) -> dict[str, PlotStyle]:
    """Return the style of every label, given the name of its method, in the order of the listings of methods.

    A colour depends on the label and its method alone: a method has the colour and the marker that its ``about``
    declares, or else spare ones by its name, and its variants have tints of the colour. Labels with similar colours
    differ in dash and hatch.
    """
    methods = {name: METHODS.get(name) for name in sorted(set(labels.values()))}
    order = {name: (1,) if method is None else (0, *method.about.position) for name, method in methods.items()}
    used: dict[str, set[int]] = {}  # colour before tinting -> indices of patterns
    styles: dict[str, PlotStyle] = {}
    for label in sorted(labels, key=lambda label: (order[labels[label]], labels[label], label != labels[label], label)):
        name = labels[label]
        colour, marker = SPARE[_hash(name, len(SPARE))]
        if (method := methods[name]) is not None:
            colour, marker = method.about.colour or colour, method.about.marker or marker
        white, pattern = 0.0, 0
        if label != name:
            variant = _hash(label, len(TINTS))
            white, pattern = TINTS[variant], variant + 1
        taken = used.setdefault(colour, set())
        free = [each for each in (*range(pattern, len(PATTERNS)), *range(1, pattern)) if each not in taken]
        pattern = free[0] if free else pattern
        taken.add(pattern)
        dash, hatch = ((4.0, 2.0), "") if label == "source" else PATTERNS[pattern]
        styles[label] = PlotStyle(method_title(label, name), *_tints(colour, white), marker, dash, hatch)
    return styles


def method_title(label: str, name: str) -> str:
    """Return the title of a label: the title of its method and what the label adds."""
    method = METHODS.get(name)
    if method is None or not (label == name or label.startswith((f"{name}_", f"{name} (", f"{name}("))):
        return label
    added = label.removeprefix(name)
    return str(method.about.title) + (added.replace("_", " ") if added.startswith("_") else added)


def scenario_title(scenario: Scenario) -> str:
    """Return a scenario as plain words, such as ``"outlier: 0.5% glass blur in fog"``."""
    shifts = list(map(shift_title, scenario.shifts))
    severity = "" if scenario.severity == SEVERITY else f", severity {scenario.severity}"
    if scenario.kind in ("outlier", "mixture"):
        return f"{scenario.kind}: {100 * (scenario.amount or 0):.3g}% {shifts[0]} in {shifts[1]}{severity}"
    listed = ", ".join(shifts) if len(shifts) < 4 else f"{len(shifts)} shifts"
    amount = "" if scenario.amount is None else f" ({scenario.amount:g})"
    return f"{scenario.kind}: {listed}{amount}{severity}"


def _hash(text: str, below: int) -> int:
    """Return the same integer for the same text on every machine."""
    return (zlib.crc32(text.encode()) >> 16) % below


def _tints(colour: str, white: float) -> tuple[str, str]:
    """Return a colour mixed with white, and a light colour of the same hue: the darker the first, the lighter."""
    tint = _hex([value + (1 - value) * white for value in _rgb(colour)])
    hue, lightness, saturation = colorsys.rgb_to_hls(*_rgb(tint))
    return tint, _hex(colorsys.hls_to_rgb(hue, max(0.65, 1 - 0.8 * lightness, lightness), saturation))


def _rgb(colour: str) -> tuple[float, float, float]:
    return int(colour[1:3], 16) / 255, int(colour[3:5], 16) / 255, int(colour[5:7], 16) / 255


def _hex(values: Sequence[float]) -> str:
    return "#" + bytes([round(255 * value) for value in values]).hex()
