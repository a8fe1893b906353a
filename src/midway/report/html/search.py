"""The part of the page about a search: what was found, how it went, every trial."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING, Any

from midway.report.figures.style import looks, styled
from midway.report.figures.tuning import draw_history, draw_importance, history_of
from midway.report.html import gallery
from midway.report.html.section import shown as written
from midway.report.html.tables import Fact, cards, facts, show_number
from midway.tune.findings import Findings, TrialRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS = 200
"""An inch, of the pictures."""


def search_html(found: Findings) -> str:
    """Write what a search found: the best settings and their gain, pictures, and every trial in a table that sorts.

    Example:
        >>> from midway.report.html.search import search_html
        >>> from midway.tune import Findings, TrialRecord
        >>> trials = (TrialRecord(0, "complete", {"lr": 0.1}, 70.0), TrialRecord(1, "complete", {"lr": 0.2}, 71.5))
        >>> "+1.50 points" in search_html(Findings("tent", "tent-0", {}, {"lr": 0.1}, trials, {}))
        True
    """
    title = escape(looks({found.method: found.method})[found.method].title)
    heading = f'<section id="search"><h2>The search: {title}</h2>'
    if not found.complete:
        return f"{heading}<p>No trial is complete yet.</p>{_trials(found)}</section>"
    return f"{heading}{_answer(found, title)}{_pictures(found)}<h3>Trials</h3>{_trials(found)}{_on(found)}</section>"


def _answer(found: Findings, title: str) -> str:
    best, gain, settings = found.best, found.gain, _settings(found.best.settings)
    reached = f"<b>{title}</b> reaches <b>{best.accuracy:.2f} %</b> on the streams of the search"
    against = "" if gain is None else f", {gain:.2f} points above its defaults" if gain else ", with its defaults"
    states = ("complete", "pruned", "failed", "running")
    counted = ", ".join(f"{number} {state}" for state in states if (number := found.count(state)))
    figures = [
        ("Best", f"{best.accuracy:.2f} %", f"trial {best.number}"),
        ("Gain", "-" if gain is None else f"{gain:+.2f} points", "over the defaults, where the search looked"),
        ("Trials", str(len(found.trials)), counted),
    ]
    if found.importance:
        name, share = next(iter(found.importance.items()))
        figures.append(("What mattered", escape(name), f"{100 * share:.0f} % of what parts the better trials"))
    return f'<p class="answer">{reached}{against}: <code>{settings}</code>.</p>{cards(figures)}'


def _settings(settings: Mapping[str, Any]) -> str:
    return escape(", ".join(f"{name}={_value(value)}" for name, value in settings.items()))


def _value(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _pictures(found: Findings) -> str:
    shown = [_picture("history", "Every trial, the best so far, and the defaults.", draw_history(history_of(found)))]
    if found.importance:
        about = "Which hyper-parameters part the better trials from the rest."
        shown.append(_picture("importance", about, draw_importance(found.importance)))
    return gallery.figures([("", picture) for picture in shown])


@styled
def _picture(name: str, caption: str, figure: Figure) -> gallery.Shown:
    file = BytesIO()
    figure.savefig(file, format="png", dpi=DOTS, metadata={"Software": None})
    width, height = (round(DOTS * inches) for inches in figure.get_size_inches())
    return gallery.Shown(name, caption, width, height, gallery.address(file.getvalue()))


def _trials(found: Findings) -> str:
    names = list(dict.fromkeys(name for trial in found.trials for name in trial.settings))
    rows = [_row(trial, names) for trial in found.trials]
    heads = [escape(name).replace("_", "_<wbr>") for name in names]  # long names may break there
    return facts("Trials", ["trial", "state", "accuracy", "seconds", *heads], rows)


def _row(trial: TrialRecord, names: list[str]) -> list[Fact]:
    said = f"{trial.state}: {trial.failure}" if trial.failure else trial.state
    row: list[Fact] = [str(trial.number), escape(said)]
    row.append(None if trial.accuracy is None else (trial.accuracy, f"{trial.accuracy:.2f}"))
    row.append(None if trial.seconds is None else (trial.seconds, show_number(trial.seconds)))
    for value in (trial.settings.get(name) for name in names):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        row.append(None if value is None else (value, _value(value)) if number else escape(_value(value)))
    return row


def _on(found: Findings) -> str:
    kept = [[escape(key), _shown(value)] for key, value in found.search.items() if value not in (None, {})]
    return f"<h3>What was searched on</h3>{facts('What was searched on', ['setting', 'value'], kept)}" if kept else ""


def _shown(value: Any) -> str:
    return _settings(value) if isinstance(value, Mapping) else escape(written(value))
