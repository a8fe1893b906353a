"""Figures: each first builds plain data, then draws it."""

from midway.report.figures.bars import Bars, draw_bars, scenario_bars
from midway.report.figures.heat_map import HeatMap, corruption_map, draw_corruption_map
from midway.report.figures.motivation import Gains, draw_gains, gains_over_source
from midway.report.figures.over_time import OverTime, accuracy_over_time, draw_over_time
from midway.report.figures.pareto import AccuracyAndCost, accuracy_and_cost, draw_accuracy_and_cost
from midway.report.figures.stored import FIGURES, stored_figures
from midway.report.figures.style import looks, looks_of, save
from midway.report.figures.sweep import Sweep, Sweeps, draw_sweeps, ratio_sweeps

__all__ = [
    "FIGURES",
    "AccuracyAndCost",
    "Bars",
    "Gains",
    "HeatMap",
    "OverTime",
    "Sweep",
    "Sweeps",
    "accuracy_and_cost",
    "accuracy_over_time",
    "corruption_map",
    "draw_accuracy_and_cost",
    "draw_bars",
    "draw_corruption_map",
    "draw_gains",
    "draw_over_time",
    "draw_sweeps",
    "gains_over_source",
    "looks",
    "looks_of",
    "ratio_sweeps",
    "save",
    "scenario_bars",
    "stored_figures",
]
