"""Write the results of the searches: the tuned settings of the package, and the tables of docs/tuning.md.

The searches are the ``study.json`` files of `midway tune`, stored as docs/tuning/METHOD.json; the gain on other
corruptions is computed from the stored runs in docs/results.

python recipes/write_tuning.py
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from write_results import finished

from midway import methods
from midway.report import frame
from midway.report.render import markdown_table
from midway.streams import Scenario
from midway.tune import StudyResult, to_toml

ROOT = Path(__file__).parents[1]
STUDIES = ROOT / "docs" / "tuning"
PAGE = ROOT / "docs" / "tuning.md"
SETTINGS = ROOT / "src" / "midway" / "adaptation" / "tuned.toml"
HELD_OUT = """\
Mean accuracy over the fifteen corruptions of the paper, which no search used, with 10,000 images of each, and the
number of corruptions on which the tuned settings are better or worse by more than 0.1 points, which the precision alone
can change (the defaults were measured in float32); [results.md](results.md) has every corruption:
"""
BEGIN, END = "<!-- written by recipes/write_tuning.py -->", "<!-- end -->"


def studies(folder: Path = STUDIES) -> list[StudyResult]:
    """Return the stored studies in the order of the methods."""
    results = [StudyResult.load(path) for path in folder.glob("*.json")]
    return sorted(results, key=lambda study: methods.names().index(study.method))


def settings_file(results: Sequence[StudyResult]) -> str:
    """Return the tuned settings as TOML: for each method the fixed settings and those of the best trial."""
    lines = [
        "# The best settings of a search on the tuning corruptions of CIFAR-10, see docs/tuning.md;",
        "# written by recipes/write_tuning.py.",
        "",
        "[source]  # has none",
    ]
    for study in results:
        settings = {**study.search["held"], **study.best.settings}
        lines += ["", f"[{study.method}]", *(f"{name} = {to_toml(value)}" for name, value in settings.items())]
    return "\n".join(lines) + "\n"


def search_table(results: Sequence[StudyResult]) -> str:
    """Return one row a method: trials, their cost, the defaults and the best, on the streams of the search."""
    head = ["method", "trials", "stopped early", "minutes", "defaults", "best", "gain", "best settings"]
    rows = []
    for study in results:
        default, gain = study.default, study.gain
        minutes = sum(trial.seconds or 0.0 for trial in study.trials) / 60
        settings = ", ".join(f"`{name}={_short(value)}`" for name, value in study.best.settings.items())
        rows.append(
            [
                methods.find(study.method).about.title,
                str(len(study.trials)),
                str(study.count("pruned")),
                f"{minutes:.0f}",
                "-" if default is None else f"{default.accuracy:.2f}",
                f"{study.best.accuracy:.2f}",
                "-" if gain is None else f"{gain:+.2f}",
                "the defaults" if default is not None and default.settings == study.best.settings else settings,
            ]
        )
    return markdown_table(head, rows, left=(0, 7))


LEVEL = 0.1
"""Differences in points that count as none."""

Accuracies = dict[tuple[str, Scenario], float]
"""Label and scenario -> accuracy in percent."""


def stored_accuracies(name: str, folder: Path = ROOT / "docs" / "results") -> Accuracies:
    """Return the accuracies of a stored run with the first seed; none if it is not finished."""
    if not finished(name, folder):
        return {}
    rows = frame(folder / name).where(metric="accuracy", group="all", seed=0)
    return {(row.label, row.scenario): row.value for row in rows}


def gain_table(results: Sequence[StudyResult], defaults: Accuracies, tuned: Accuracies) -> str:
    """Return the means of default and tuned settings on other corruptions, and how often the tuned ones are better."""
    streams = list(dict.fromkeys(stream for _, stream in tuned))
    head = ["method", "defaults", "tuned", "gain", "better on", "worse on"]
    rows = []
    for name in ["source", *(study.method for study in results)]:
        was = [defaults[name, stream] for stream in streams if (name, stream) in defaults]
        now = was if name == "source" else [tuned[name, stream] for stream in streams if (name, stream) in tuned]
        if not streams or not len(was) == len(now) == len(streams):  # the runs are not finished
            continue
        better = sum(after > before + LEVEL for before, after in zip(was, now, strict=True))
        worse = sum(after < before - LEVEL for before, after in zip(was, now, strict=True))
        means = [f"{fmean(was):.2f}", f"{fmean(now):.2f}", f"{fmean(now) - fmean(was):+.2f}"]
        rows.append([methods.find(name).about.title, *means, str(better), str(worse)])
    return markdown_table(head, rows)


def write(page: str, results: Sequence[StudyResult]) -> str:
    """Return the page with new tables."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    tuned = stored_accuracies("tuned")
    held_out = [HELD_OUT, gain_table(results, stored_accuracies("pure"), tuned)] if tuned else []
    tables = "\n".join(["Accuracy in percent on the stream of the search:\n", search_table(results), *held_out])
    return f"{before}{BEGIN}\n\n{tables}\n{END}{after}"


def _short(value: object) -> str:
    return f"{value:.2g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Write both files."""
    results = studies()
    SETTINGS.write_text(settings_file(results), encoding="utf-8")
    PAGE.write_text(write(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")


if __name__ == "__main__":
    main()
