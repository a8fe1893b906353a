"""One self-contained HTML page about a run, or two; every string is escaped, nothing is fetched."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from midway.bench import Comparison
from midway.report.html.changes import changes, changes_html
from midway.report.html.gallery import gallery, pictures_of
from midway.report.html.problems import Failed, environments, failures
from midway.report.html.search import search_html
from midway.report.html.section import Section, title_of
from midway.report.labels import tell_apart
from midway.report.stored_run import StoredRun, tell_runs_apart

MOST_COMMANDS = 6
"""That a page shows of a run."""


def write_report(run: StoredRun | Comparison, path: Path, *, against: StoredRun | Comparison | None = None) -> Path:
    """Write the page to a file, whole or not at all.

    Args:
        run: What to report.
        path: The file.
        against: An earlier run to compare it with.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from midway.bench import Comparison, Result
        >>> from midway.report import write_report
        >>> result = Result("bn", "bn", {}, "pure:fog", 4, 75.0, {"fog": 75.0}, {"fog": 4}, (70.0, 80.0), 0.125)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = write_report(Comparison("Fog", "midway run", {}, (result,)), Path(folder) / "report.html")
        ...     "75.00 %" in page.read_text()
        True
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(render(run, against=against), encoding="utf-8")
    return partial.replace(path)


def render(run: StoredRun | Comparison, *, against: StoredRun | Comparison | None = None) -> str:
    """Return the page as text."""
    runs = tell_runs_apart([_as_run(each) for each in (against, run) if each is not None])
    newest, several = runs[-1], len(runs) > 1
    sections = [
        Section.of(f"{each.name}: {comparison.title}" if several else comparison.title, comparison)
        for each in reversed(runs)
        for comparison in each.comparisons
        if comparison.results
    ]
    changed, alone = changes(runs[0], newest) if several else ([], [])
    pictures = [(each.name if several else "", *pictures_of(each)) for each in reversed(runs)]
    failed = [(each.name, failure) for each in runs for failure in failures(each.records)]
    title = f"{newest.name} against {runs[0].name}" if several else newest.name
    body = [
        changes_html(changed, alone, number=len(sections)) if several else "",
        *(search_html(each.search) for each in reversed(runs) if each.search is not None),
        _contents(sections) if len(sections) > 1 else "",
        *(section.html(number) for number, section in enumerate(sections)),
        "" if sections or any(each.search for each in runs) else "<p>There are no results yet.</p>",
        gallery([(name, shown) for name, found, _ in pictures for shown in found]),
        _reproduce(runs),
        _problems(runs, failed, [note for _, _, left_out in pictures for note in left_out]),
    ]
    data = [*(section.data for section in sections), *(change.data for change in changed)]
    style, script = _asset("report.css"), _asset("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{escape(title)} - Midway report</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the answer</a>
<header><div><p class="faint">Midway report</p><h1>{escape(title)}</h1></div>
<button type="button" id="theme" hidden>Theme</button></header>
<main id="main">
{"".join(body)}
</main>
<footer>Made by midway {escape(methods_version())}. This file needs no network and sends nothing.</footer>
<dialog aria-label="Enlarged picture"><form method="dialog"><button>Close</button></form>
<div class="whole" tabindex="0"><img alt=""></div></dialog>
<script type="application/json" id="data">{_json(data)}</script>
<script>{script}</script>
</body>
</html>
"""


def methods_version() -> str:
    """Return the version of this package."""
    from midway._version import __version__

    return __version__


def _as_run(run: StoredRun | Comparison) -> StoredRun:
    """Take a comparison for a run, and tell results of one label and different settings apart."""
    if isinstance(run, Comparison):
        run = StoredRun(run.title, None, (run,))
    apart = tuple(replace(each, results=tell_apart(each.results)) for each in run.comparisons)
    return replace(run, comparisons=apart)


def _asset(name: str) -> str:
    return (resources.files("midway.report.html") / "assets" / name).read_text(encoding="utf-8")


def _json(content: Any) -> str:
    """Write JSON that can stand within a page: no tag can begin in it, and there is no NaN."""
    return json.dumps(_finite(content), separators=(",", ":")).replace("<", "\\u003c")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def _contents(sections: Sequence[Section]) -> str:
    links = "".join(
        f'<li><a href="#comparison-{number}">{escape(section.name)}</a>: '
        f"{title_of(section.winner.best.label, section.looks)} {section.winner.best.accuracy:.2f} %</li>"
        for number, section in enumerate(sections)
    )
    return f'<nav aria-label="Comparisons"><ul>{links}</ul></nav>'


def _reproduce(runs: Sequence[StoredRun]) -> str:
    made = []
    for run in runs:
        commands = run.commands
        name = f"<h3>{escape(run.name)}</h3>" if len(runs) > 1 and commands else ""
        said = ["The results are of several commands, the newest last"] if len(commands) > 1 else []
        if (earlier := len(commands) - MOST_COMMANDS) > 0:
            said.append(f"{earlier} earlier ones are left out here, the store has them")
        shown = "".join(
            f'<div class="command"><pre><code>{escape(command)}</code></pre>'
            '<button type="button" class="copy" hidden>Copy</button></div>'
            for command in commands[-MOST_COMMANDS:]
        )
        made.append(name + (f"<p>{'; '.join(said)}.</p>" if said else "") + shown)
    return f'<section id="reproduce"><h2>Run it again</h2>{"".join(made)}</section>' if any(made) else ""


def _problems(runs: Sequence[StoredRun], failed: Sequence[tuple[str, Failed]], notes: Sequence[str]) -> str:
    remarks = [*notes, *(remark for run in runs for remark in environments(run.records))]
    if not failed and not remarks:
        return ""
    listed = "".join(f"<li>{escape(remark)}</li>" for remark in remarks)
    shown = "".join(
        f"<details><summary>{escape(f'{name}: ' if len(runs) > 1 else '')}{escape(failure.cell)}: "
        f"{escape(failure.error)}</summary><pre>{escape(failure.traceback) or 'no traceback'}</pre></details>"
        for name, failure in failed
    )
    heading = f"<p>{len(failed)} of the cells failed; the same command tries them again.</p>" if failed else ""
    return f'<section id="problems"><h2>Failures and remarks</h2><ul>{listed}</ul>{heading}{shown}</section>'
