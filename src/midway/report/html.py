"""One self-contained HTML page about a comparison; every string is escaped, nothing is fetched."""

from __future__ import annotations

from html import escape
from pathlib import Path

from midway.bench import Comparison
from midway.report.figures import draw_bars, scenario_bars, to_svg
from midway.report.tables import accuracy_table, to_html

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .7rem; text-align: right; border-bottom: 1px solid #8884; }
th:first-child { text-align: left; }
.best { font-weight: 700; color: light-dark(#00694a, #5fd7a8); }
.below { color: light-dark(#b3261e, #ff8a80); }
figure { margin: 1.5rem 0; background: white; border-radius: .5rem; padding: .5rem; }
figure svg { width: 100%; height: auto; }
ul, small { color: GrayText; }
code { background: #8883; padding: .1rem .35rem; border-radius: .25rem; }
"""


def render(comparison: Comparison) -> str:
    """Return the page as text."""
    settings = "".join(
        f"<tr><th>{escape(str(key))}</th><td>{escape(str(value))}</td></tr>"
        for key, value in comparison.settings.items()
    )
    seconds = "".join(
        f"<tr><th>{escape(result.label)}</th><td>{escape(result.stream)}</td>"
        f"<td>{result.seconds_per_batch:.3f}</td></tr>"
        for result in comparison.results
    )
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(comparison.title)}</title><style>{STYLE}</style>
<h1>{escape(comparison.title)}</h1>
<p>{escape(summary(comparison))}</p>
<figure>{to_svg(draw_bars(scenario_bars(comparison)))}</figure>
<h2>Accuracy</h2>{to_html(accuracy_table(comparison))}
<h2>Time</h2><div class=scroll><table>
<tr><th>method</th><th>stream</th><th>seconds a batch</th></tr>{seconds}</table></div>
<h2>Settings</h2><div class=scroll><table>{settings}</table></div>
<p>Made by <code>{escape(comparison.command)}</code></p>
</html>
"""


def summary(comparison: Comparison) -> str:
    """Say in one sentence what won on each stream, and by how much over Source."""
    parts = []
    for stream in dict.fromkeys(result.stream for result in comparison.results):
        here = [result for result in comparison.results if result.stream == stream]
        best = max(here, key=lambda result: result.accuracy)
        source = next((result for result in here if result.label == "source"), None)
        gain = f" ({best.accuracy - source.accuracy:+.1f} over Source)" if source else ""
        parts.append(f"{stream}: {best.label} {best.accuracy:.1f} %{gain}")
    return "Best on all images. " + "; ".join(parts) + "."


def write_report(comparison: Comparison, path: Path) -> None:
    """Write the page to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(comparison), encoding="utf-8")
