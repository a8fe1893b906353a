"""Figures: each first builds plain data, then draws it."""

from midway.report.figures.drawing import new_figure, save
from midway.report.figures.registry import (
    FIGURES,
    SOURCES,
    FigureSpec,
    NetworkAndImages,
    PredictionPair,
    all_figures,
    draw_figures,
    figure,
)

__all__ = [
    "FIGURES",
    "SOURCES",
    "FigureSpec",
    "NetworkAndImages",
    "PredictionPair",
    "all_figures",
    "draw_figures",
    "figure",
    "new_figure",
    "save",
]
