"""The figures that a stored run allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from midway.bench import Comparison, Result
from midway.report.figures.bars import draw_bars, scenario_bars
from midway.report.figures.heat_map import corruption_map, draw_corruption_map
from midway.report.figures.motivation import draw_gains, gains_over_source
from midway.report.figures.over_time import accuracy_over_time, draw_over_time
from midway.report.figures.pareto import accuracy_and_cost, draw_accuracy_and_cost
from midway.report.figures.style import looks_of
from midway.report.figures.sweep import FEWEST_RATIOS, draw_sweeps, ratio_sweeps
from midway.report.standings import CostKind

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEW_BARS = 60


def stored_figures(comparison: Comparison, *, only: Sequence[str] = ()) -> dict[str, Figure]:
    """Draw every figure that the results of a comparison are enough for, by name.

    Args:
        comparison: The results.
        only: Names of the wanted ones, others are passed over; all if left out.

    Example:
        >>> from midway.bench import Comparison, Result
        >>> from midway.report.figures import stored_figures
        >>> result = Result("bn", "bn", {}, "pure:fog", 4, 75.0, {"fog": 75.0}, {"fog": 4}, (70.0, 80.0), 0.125)
        >>> list(stored_figures(Comparison("Fog", "midway run", {}, (result,))))
        ['scenarios', 'over_time']
    """
    drawn = {name: each.draw(comparison) for name, each in FIGURES.items() if not only or name in only}
    return {name: figure for name, figure in drawn.items() if figure is not None}


def _scenarios(comparison: Comparison) -> Figure | None:
    bars = scenario_bars(comparison)
    return draw_bars(bars) if 0 < len(bars.clusters) * len(bars.methods) <= FEW_BARS else None


def _motivation(comparison: Comparison) -> Figure | None:
    gains = gains_over_source(comparison.results)
    return draw_gains(gains) if gains.scenarios else None


def _sweep(comparison: Comparison) -> Figure | None:
    sweeps = ratio_sweeps(comparison.results)
    return draw_sweeps(sweeps) if sweeps.sweeps else None


def _over_time(comparison: Comparison) -> Figure | None:
    streams = accuracy_over_time(one_of_each_kind(comparison.results))
    return draw_over_time(streams, looks_of(comparison.results)) if streams else None


def _corruptions(comparison: Comparison) -> Figure | None:
    found = corruption_map(comparison.results)
    return draw_corruption_map(found) if len(found.shifts) > 1 else None


def _cost(kind: CostKind) -> Callable[[Comparison], Figure | None]:
    def draw(comparison: Comparison) -> Figure | None:
        found = accuracy_and_cost(comparison.results, kind=kind)
        return draw_accuracy_and_cost(found) if len(found.points) > 1 else None

    return draw


def one_of_each_kind(results: Sequence[Result], *, at_most: int = 6) -> list[Result]:
    """Keep the results of a few streams: the first of each kind, then the second of each, and so on.

    Example:
        >>> from midway.bench import Result
        >>> from midway.report.figures.stored import one_of_each_kind
        >>> names = ("pure:fog", "pure:snow", "mixture:fog/snow@0.5")
        >>> made = [Result("bn", "bn", {}, name, 8, 60.0, {}, {}, (), 0.1) for name in names]
        >>> [result.stream for result in one_of_each_kind(made, at_most=2)]
        ['pure:fog', 'mixture:fog/snow@0.5']
    """
    turns: dict[str, int] = {}
    seen: dict[str, int] = {}
    for stream in dict.fromkeys(result.stream for result in results):
        kind = stream.partition(":")[0]
        turns[stream] = seen[kind] = seen.get(kind, 0) + 1
    chosen = sorted(turns, key=lambda stream: turns[stream])[:at_most]
    return [result for stream in chosen for result in results if result.stream == stream]


@dataclass(frozen=True)
class Stored:
    """A figure of stored results.

    Attributes:
        draw: Returns None where the results are not enough.
        needs: What is enough.
        run: Options of `midway run` that give it.
    """

    draw: Callable[[Comparison], Figure | None]
    needs: str
    run: str


_PAIR = "glass_blur/gaussian_noise"
FIGURES = {
    "scenarios": Stored(_scenarios, f"1 to {FEW_BARS} bars, methods times streams", "--scenarios pure:fog"),
    "motivation": Stored(
        _motivation,
        "Source and another method on the same streams: pure, outlier, or half-and-half mixtures",
        f"--methods source,tent,mita --scenarios outlier:{_PAIR}@0.005,mixture:{_PAIR}@0.5",
    ),
    "outlier_ratio": Stored(
        _sweep,
        f"a pair of distributions at {FEWEST_RATIOS} ratios or more",
        "--scenarios " + ",".join(f"mixture:{_PAIR}@{ratio}" for ratio in (0.005, 0.1, 0.5)),
    ),
    "over_time": Stored(_over_time, "a stream of several batches", "--scenarios pure:fog --batch-sizes 200"),
    "corruptions": Stored(_corruptions, "two pure streams or more", "--scenarios pure:fog,pure:snow"),
    "cost_seconds": Stored(_cost("seconds"), "two methods on the same stream", "--methods bn,tent"),
    "cost_gflops": Stored(_cost("gflops"), "two methods on the same stream, with their cost", "--methods bn,tent"),
}
"""Name -> how the figure is drawn, and what it takes."""
