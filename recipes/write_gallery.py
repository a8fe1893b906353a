"""Draw every figure from the stored runs in docs/results and write docs/gallery.md, with the command for each.

    python recipes/write_gallery.py                     # figures of stored results: seconds
    python recipes/write_gallery.py --pictures          # also those that need the network and images: minutes
    python recipes/write_gallery.py --screenshots       # also the report, with a headless Chromium

Figures, titles and captions come from the registry of figures. Figures whose run is not finished are left out,
and figures that are not drawn again stay as they are.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from write_results import finished

from midway.report.figures import FigureSpec, NetworkAndImages, PredictionPair, all_figures

PAGE = Path("docs/gallery.md")
FOLDER = Path("docs/images/gallery")
RUNS = Path("docs/results")
PROGRAM = "from midway.cli import main; main()"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")

ADDING = """\
## Add a figure

A figure is one file in `src/midway/report/figures`: a function that builds plain data, and one that draws it, with the
decorator `figure` (see its docstring for an example). The command, its help and this page follow from the registry.
Other packages register figures with an entry point of the group `midway.figures` that names their module.
"""

INTRODUCTION = """\
# Gallery

Figures that Midway draws from the stored runs behind [results.md](results.md). The command below a figure draws it
again, as SVG, PDF and PNG; `python recipes/write_gallery.py` writes this page. A method has the same colour in all
figures.
"""

PICTURES = ("--pictures", "--images", "1000")
OUTLIERS = ("--pictures", "--images", "10000", "--pair", "impulse_noise/gaussian_noise")  # one image in 200 is one


@dataclass(frozen=True)
class Origin:
    """Where a figure of the gallery comes from.

    Attributes:
        runs: The stored runs, drawn together.
        options: Further options of the command.
        remark: What these runs show.
        otherwise: Runs to draw from as long as the others are not all finished.
    """

    runs: tuple[str, ...] = ("mita",)
    options: tuple[str, ...] = ()
    remark: str = ""
    otherwise: tuple[str, ...] = ()

    @property
    def folders(self) -> list[Path]:
        """The folders of its runs."""
        runs = self.otherwise if self.otherwise and not all(map(finished, self.runs)) else self.runs
        return [RUNS / run for run in runs]


ORIGINS = {
    "motivation": Origin(
        ("outlier", "mixture"),
        remark="On images unlike the rest of their batch, methods with batch statistics gain less than half of what"
        " they gain on the rest, and in some pairs they fall below the unadapted network; MITA is no exception.",
        otherwise=("mita",),
    ),
    "outlier_ratio": Origin(
        ("sweep",),
        remark="The shares are 2 to 20 %, of 2,000 images; [results](results.md) has 0.5 and 50 % too. The times are"
        " those of a machine that also did other work.",
    ),
    "corruptions": Origin(("pure",)),
    "cost_seconds": Origin(("mixture",), remark="Mixtures, in bf16, on a machine that also did other work."),
    "cost_gflops": Origin(("pure",)),
    "samples": Origin(
        ("pure",),
        options=PICTURES,
        remark="MITA adapted to gaussian noise. No sample looks like an image: a classifier does not learn what images"
        " look like. Adaptation changes the energy of the samples: those of the source have lower energies than nearly"
        " every image, those of the adapted networks have energies like images (see the energies of images).",
    ),
    "image_changes": Origin(
        ("pure",),
        options=PICTURES,
        remark="MITA changes noise and the borders of blocks; images with defocus, motion or zoom blur and images"
        " of low contrast hardly change.",
    ),
    "corrections": Origin(
        ("pure",),
        options=OUTLIERS,
        remark="This is the pair in which MITA gains most; in the other five it is within three points of TENT.",
    ),
    "severities": Origin(("pure",), options=PICTURES),
    "energies": Origin(
        ("pure",),
        options=PICTURES,
        remark="Under the source, its own samples are more likely than nearly every image, and corrupted images are"
        " less likely than clean ones. Under the adapted network, samples are not more likely than clean"
        " images, and adapted images are more likely than clean ones.",
    ),
}
"""Figures that are not drawn from the default run, or that have a remark."""


def origin_of(spec: FigureSpec) -> Origin:
    """Return where a figure comes from; by default the run ``mita``."""
    computed = spec.source in (NetworkAndImages, PredictionPair)
    return ORIGINS.get(spec.name, Origin(options=PICTURES if computed else ()))


def command_of(spec: FigureSpec) -> tuple[str, ...]:
    """Return the command that draws a figure, without the folder to draw it into."""
    origin = origin_of(spec)
    return ("figures", *map(str, origin.folders), "--only", spec.name, *origin.options)


def file_of(name: str) -> Path:
    """Return the file of a picture of the page."""
    return FOLDER / f"{name}.png"


@dataclass(frozen=True)
class Screenshot:
    """A view of the report."""

    name: str
    title: str
    width: int
    height: int
    options: tuple[str, ...] = ()
    top: int = 0  # pixels of the page above it


SCREENSHOTS = (
    Screenshot("report_wide", "On a wide screen", 1280, 1600),
    Screenshot("report_figures", "Its figures", 1280, 650, top=2270),
    Screenshot(
        "report_dark", "In the dark", 1280, 1000, ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")
    ),
    Screenshot("report_phone", "On a phone", 390, 1400),
)
NARROWEST = 500
"""Width in pixels of the narrowest window of Chromium."""
FRAME = '<iframe src="{}" width="{}" height="{}" style="border: 0"></iframe>'
REPORT = ("report", str(RUNS / "mita"), "--out", "report.html")


def midway(*arguments: str) -> bool:
    """Run the command line in its own process, and tell whether it succeeded."""
    return subprocess.run([sys.executable, "-c", PROGRAM, *arguments], check=False).returncode == 0


def draw(spec: FigureSpec) -> None:
    """Draw one figure and store its PNG."""
    with tempfile.TemporaryDirectory() as folder:
        midway(*command_of(spec), "--out", folder)
        drawn = Path(folder) / f"{spec.name}.png"
        if drawn.exists():
            shutil.copyfile(drawn, file_of(spec.name))


def photograph() -> None:
    """Write the report of a stored run and take screenshots of it."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise SystemExit(f"Screenshots need a browser, one of {', '.join(BROWSERS)}; Debian: apt install chromium.")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        if not midway(*REPORT[:-1], str(page)):
            raise SystemExit("the report could not be written.")
        for shot in SCREENSHOTS:
            common = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}/p")
            below = shot.top + shot.height
            size = f"--window-size={max(shot.width, NARROWEST)},{below}"
            target = f"--screenshot={file_of(shot.name).resolve()}"
            frame = Path(folder) / "frame.html"  # the page at its own width, in a window that may be wider
            frame.write_text(f'<body style="margin: 0">{FRAME.format(page.name, shot.width, below)}</body>')
            subprocess.run([browser, *common, *shot.options, size, target, frame.as_uri()], check=True)
            with Image.open(file_of(shot.name)) as taken:
                taken.crop((0, shot.top, shot.width, below)).save(file_of(shot.name))


def section(spec: FigureSpec) -> str:
    """Return a figure as a section of the page."""
    text = " ".join(filter(None, (spec.caption, origin_of(spec).remark)))
    shown = file_of(spec.name).relative_to(PAGE.parent)
    return f"## {spec.title}\n\n{text}\n\n![{spec.title}]({shown})\n\n    midway {' '.join(command_of(spec))}\n"


def main() -> None:
    """Draw the figures of finished runs and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", action="store_true", help="also those that need the network and images")
    parser.add_argument("--screenshots", action="store_true", help="also the report, in a browser")
    parser.add_argument("--only", default="", help="draw only these, separated by commas")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    only = {name.strip() for name in options.only.split(",") if name.strip()}
    for spec in all_figures():
        wanted = spec.name in only if only else options.pictures or not origin_of(spec).options
        if wanted and all(finished(folder.name) for folder in origin_of(spec).folders):
            draw(spec)
    if options.screenshots:
        photograph()
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the page with all figures that are drawn."""
    parts = [INTRODUCTION, *(section(spec) for spec in all_figures() if file_of(spec.name).exists())]
    if shots := [shot for shot in SCREENSHOTS if file_of(shot.name).exists()]:
        parts.append("## The report\n\n    midway " + " ".join(REPORT) + "\n")
        parts.append("`python recipes/write_gallery.py --screenshots` takes its pictures.\n")
        parts += [
            f"{shot.title}:\n\n![{shot.title}]({file_of(shot.name).relative_to(PAGE.parent)})\n" for shot in shots
        ]
    return "\n".join([*parts, ADDING])


if __name__ == "__main__":
    main()
