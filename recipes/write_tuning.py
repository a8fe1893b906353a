"""Write what a search found: the tuned settings that come with the package, and the tables of docs/tuning.md.

The studies are the ``study.json`` files of `midway tune`, kept as docs/tuning/METHOD.json; the gain on other
corruptions is that of the stored runs in docs/results.

python recipes/write_tuning.py
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from midway import methods
from midway.bench import read_records
from midway.tune import StudyResult, to_toml

ROOT = Path(__file__).parents[1]
STUDIES = ROOT / "docs" / "tuning"
PAGE = ROOT / "docs" / "tuning.md"
SETTINGS = ROOT / "src" / "midway" / "adaptation" / "tuned.toml"
HELD_OUT = """\
Mean accuracy over the fifteen corruptions of the paper, which no search saw, 2,000 images of each, and on how many of
them the tuned settings are better; [results.md](results.md) has every corruption:
"""
BEGIN, END = "<!-- written by recipes/write_tuning.py -->", "<!-- end -->"


def studies(folder: Path = STUDIES) -> list[StudyResult]:
    """Return the stored studies in the order of the methods."""
    found = [StudyResult.load(path) for path in folder.glob("*.json")]
    return sorted(found, key=lambda study: methods.names().index(study.method))


def settings_file(found: Sequence[StudyResult]) -> str:
    """Return the tuned settings as TOML: for each method what was held and the best that was tried."""
    lines = [
        "# The best hyper-parameters that a search on tuning corruptions of CIFAR-10 found, see docs/tuning.md;",
        "# written by recipes/write_tuning.py.",
        "",
        "[source]  # has none",
    ]
    for study in found:
        settings = {**study.search["held"], **study.best.settings}
        lines += ["", f"[{study.method}]", *(f"{name} = {to_toml(value)}" for name, value in settings.items())]
    return "\n".join(lines) + "\n"


def search_table(found: Sequence[StudyResult]) -> str:
    """Return a row a method: trials, what they cost, the defaults and the best, on the streams of the search."""
    head = ["method", "trials", "stopped early", "minutes", "defaults", "best", "gain", "best settings"]
    rows = []
    for study in found:
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
    return _markdown(head, rows, words=(0, 7))


Accuracies = dict[tuple[str, str], float]
"""Label and stream -> accuracy in percent."""


def stored_accuracies(name: str, folder: Path = ROOT / "docs" / "results") -> Accuracies:
    """Return what a stored run has of the first seed."""
    return {
        (record.cell.label, record.cell.scenario): record.result.accuracy
        for record in read_records(folder / name)
        if record.result is not None and record.cell.seed == 0
    }


def gain_table(found: Sequence[StudyResult], defaults: Accuracies, tuned: Accuracies) -> str:
    """Return defaults and tuned on corruptions that no search saw: means, and on how many the tuned are better."""
    streams = list(dict.fromkeys(stream for _, stream in tuned))
    head = ["method", "defaults", "tuned", "gain", "better on", "worse on"]
    rows = []
    for name in ["source", *(study.method for study in found)]:
        was = [defaults[name, stream] for stream in streams if (name, stream) in defaults]
        now = was if name == "source" else [tuned[name, stream] for stream in streams if (name, stream) in tuned]
        if not streams or not len(was) == len(now) == len(streams):  # not all of it is run yet
            continue
        better = sum(after > before for before, after in zip(was, now, strict=True))
        worse = sum(after < before for before, after in zip(was, now, strict=True))
        means = [f"{fmean(was):.2f}", f"{fmean(now):.2f}", f"{fmean(now) - fmean(was):+.2f}"]
        rows.append([methods.find(name).about.title, *means, str(better), str(worse)])
    return _markdown(head, rows, words=(0,))


def write(page: str, found: Sequence[StudyResult]) -> str:
    """Return the page with its tables made anew."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    tables = "\n".join(
        [
            "Mean accuracy in percent over the three streams of the search:\n",
            search_table(found),
            HELD_OUT,
            gain_table(found, stored_accuracies("defaults"), stored_accuracies("tuned")),
        ]
    )
    return f"{before}{BEGIN}\n\n{tables}\n{END}{after}"


def _short(value: object) -> str:
    return f"{value:.2g}" if isinstance(value, float) else str(value)


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]], words: Sequence[int]) -> str:
    marks = ["---" if index in words else "---:" for index in range(len(head))]
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, marks, *rows))


def main() -> None:
    """Write both files."""
    found = studies()
    SETTINGS.write_text(settings_file(found), encoding="utf-8")
    PAGE.write_text(write(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main()
