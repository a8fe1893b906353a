from __future__ import annotations

from midway.report.figures.tuning import draw_history, draw_importance, history_of
from midway.tune import StudyResult, TrialRecord


def study() -> StudyResult:
    states = ["complete", "complete", "pruned", "failed", "complete", "complete"]
    values = [70.0, 68.0, 40.0, None, 72.0, 71.0]
    trials = tuple(
        TrialRecord(number, state, {"lr": number}, value)
        for number, (state, value) in enumerate(zip(states, values, strict=True))
    )
    return StudyResult("tent", "tent-0", {}, {"lr": 0}, trials, {"lr": 0.75, "steps": 0.25})


def test_history_holds_every_trial_and_where_the_best_rises() -> None:
    history = history_of(study())
    assert history.complete == ((0, 70.0), (1, 68.0), (4, 72.0), (5, 71.0))
    assert history.pruned == ((2, 40.0),)
    assert history.best == ((0, 70.0), (4, 72.0))
    assert history.default == 70.0


def test_the_drawing_shows_what_the_history_holds() -> None:
    (axes,) = draw_history(history_of(study())).axes
    lines = {line.get_label(): list(zip(*line.get_data(), strict=True)) for line in axes.get_lines()}
    assert lines["stopped early"] == [(2, 40.0)]
    assert lines["complete"] == [(0, 70.0), (1, 68.0), (4, 72.0), (5, 71.0)]
    assert lines["best so far"] == [(0, 70.0), (4, 72.0), (5, 72.0)]
    assert [height for _, height in lines["defaults"]] == [70.0, 70.0]


def test_importance_is_a_bar_each_with_the_largest_on_top() -> None:
    (axes,) = draw_importance(study().importance).axes
    assert [bar.get_width() for bar in axes.patches] == [75.0, 25.0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["lr", "steps"]
    assert axes.yaxis_inverted()
