"""Draw every figure from the stored runs in docs/results and write docs/gallery.md, with the command for each.

    python recipes/write_gallery.py                     # figures of stored results: seconds
    python recipes/write_gallery.py --pictures          # also those that need the network and images: minutes
    python recipes/write_gallery.py --screenshots       # also the report, by a headless Chromium

A figure whose run is not stored yet is left out; one that is not drawn again stays as it is.
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

PAGE = Path("docs/gallery.md")
FOLDER = Path("docs/images/gallery")
RUNS = Path("docs/results")
PROGRAM = "from midway.cli import main; main()"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")

INTRODUCTION = """\
# Gallery

What Midway draws from the stored runs behind [results.md](results.md). The command below a figure draws
it again, as SVG, PDF and PNG; `python recipes/write_gallery.py` makes this page. A method has the same colour
everywhere.
"""


@dataclass(frozen=True)
class Picture:
    """A figure of stored runs.

    Attributes:
        name: Its file.
        title: Its heading.
        says: What to see in it.
        runs: The stored runs, drawn together.
        figure: What `midway figures` calls it.
        options: What else the command needs.
        otherwise: What it is drawn from as long as these runs are not all finished.
    """

    name: str
    title: str
    says: str
    runs: tuple[str, ...]
    figure: str
    options: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()

    @property
    def folders(self) -> list[Path]:
        """Where its runs lie."""
        chosen = [RUNS / run for run in self.runs]
        if self.otherwise and not all(map(finished, self.runs)):
            chosen = [RUNS / run for run in self.otherwise]
        return chosen

    @property
    def command(self) -> tuple[str, ...]:
        """What draws it, without where to."""
        return ("figures", *map(str, self.folders), "--only", self.figure, *self.options)

    @property
    def file(self) -> Path:
        """Where the page has it from."""
        return FOLDER / f"{self.name}.png"


PICTURES = ("--pictures", "--images", "1000")
OUTLIERS = ("--pictures", "--images", "10000", "--pair", "impulse_noise/gaussian_noise")  # one image in 200 is one

GALLERY = (
    Picture(
        "motivation",
        "Why batches are not enough",
        "The gain over the unadapted network: bars are means, dots are streams. On images unlike the rest of their"
        " batch methods with batch statistics gain less than half of what they gain on the rest, and in some pairs"
        " they fall below the unadapted network; MITA is no exception there.",
        ("outlier", "mixture"),
        "motivation",
        otherwise=("mita",),
    ),
    Picture("scenarios", "Three scenarios", "Accuracy by method and stream.", ("mita",), "scenarios"),
    Picture(
        "outlier_ratio",
        "From a rare outlier to half and half",
        "Accuracy on the images of the first distribution against their share of the stream, and the time a batch"
        " takes, on a machine with other work.",
        ("sweep",),
        "outlier_ratio",
    ),
    Picture(
        "corruptions",
        "Methods by corruptions",
        "One corruption at a time.",
        ("pure",),
        "corruptions",
        otherwise=("defaults",),
    ),
    Picture(
        "over_time",
        "Accuracy over a stream",
        "Batch by batch, smoothed; methods far below the others are only noted.",
        ("mita",),
        "over_time",
    ),
    Picture(
        "cost_seconds",
        "Accuracy against time",
        "The line joins those that nothing beats in both; their names are bold.",
        ("pure",),
        "cost_seconds",
        otherwise=("defaults",),
    ),
    Picture(
        "cost_gflops",
        "Accuracy against arithmetic",
        "The same, counted instead of timed.",
        ("pure",),
        "cost_gflops",
        otherwise=("defaults",),
    ),
    Picture(
        "samples",
        "What the network takes for data",
        "Langevin samples from the energy of the source network and of the two that MITA adapted to gaussian noise."
        " None is a picture: a classifier never learnt what images look like. What adaptation changes is their energy:"
        " the chains of the source end below nearly every image, those of the adapted networks among the images (see"
        " the last figure).",
        ("mita",),
        "samples",
        PICTURES,
    ),
    Picture(
        "moves",
        "What data adaptation does to an image",
        "Original, adapted, and the difference, enlarged, for each corruption. What moves is noise and the borders of"
        " blocks; images that are blurred or of low contrast hardly move.",
        ("mita",),
        "moves",
        PICTURES,
    ),
    Picture(
        "severities",
        "Fifteen corruptions, five severities",
        "And what data adaptation makes of each.",
        ("mita",),
        "severities",
        PICTURES,
    ),
    Picture(
        "corrections",
        "Outliers put right",
        "The baseline is wrong, MITA right: both answers and how sure they are.",
        ("mita",),
        "corrections",
        OUTLIERS,
    ),
    Picture(
        "energies",
        "Energies",
        "Of clean, corrupted, sampled and adapted images, before and after the network adapted; lines are means. To the"
        " source, its own samples are likelier than any image, and corrupted images less likely than clean ones. To the"
        " adapted network the samples are no likelier than clean images, and images that were moved are likelier than"
        " these.",
        ("mita",),
        "energies",
        PICTURES,
    ),
)


@dataclass(frozen=True)
class Screenshot:
    """A view of the report."""

    name: str
    title: str
    width: int
    height: int
    options: tuple[str, ...] = ()
    top: int = 0  # pixels of the page above it

    @property
    def file(self) -> Path:
        """Where the page has it from."""
        return FOLDER / f"{self.name}.png"


SCREENSHOTS = (
    Screenshot("report_wide", "On a wide screen", 1280, 1600),
    Screenshot("report_figures", "Its figures", 1280, 650, top=2270),
    Screenshot(
        "report_dark", "In the dark", 1280, 1000, ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")
    ),
    Screenshot("report_phone", "On a phone", 390, 1400),
)
NARROWEST = 500
"""Pixels: Chromium has no narrower window."""
FRAME = '<iframe src="{}" width="{}" height="{}" style="border: 0"></iframe>'
REPORT = ("report", str(RUNS / "mita"), "--out", "report.html")


def midway(*arguments: str) -> bool:
    """Run the command line in a process of its own, and tell whether it did what it was asked for."""
    return subprocess.run([sys.executable, "-c", PROGRAM, *arguments], check=False).returncode == 0


def draw(picture: Picture) -> None:
    """Draw one figure and keep its PNG; what its runs are not enough for is said and left out."""
    with tempfile.TemporaryDirectory() as place:
        midway(*picture.command, "--out", place)
        drawn = Path(place) / f"{picture.figure}.png"
        if drawn.exists():
            shutil.copyfile(drawn, picture.file)


def photograph() -> None:
    """Write the report of a stored run and take pictures of it."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        raise SystemExit(f"Screenshots need a browser, one of {', '.join(BROWSERS)}; Debian: apt install chromium.")
    with tempfile.TemporaryDirectory() as place:
        page = Path(place) / "report.html"
        if not midway(*REPORT[:-1], str(page)):
            raise SystemExit("there is no report to take pictures of.")
        for shot in SCREENSHOTS:
            common = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={place}/p")
            below = shot.top + shot.height
            size = f"--window-size={max(shot.width, NARROWEST)},{below}"
            target = f"--screenshot={shot.file.resolve()}"
            frame = Path(place) / "frame.html"  # the page in its own width, in a window that may be wider
            frame.write_text(f'<body style="margin: 0">{FRAME.format(page.name, shot.width, below)}</body>')
            subprocess.run([browser, *common, *shot.options, size, target, frame.as_uri()], check=True)
            with Image.open(shot.file) as taken:
                taken.crop((0, shot.top, shot.width, below)).save(shot.file)


def section(picture: Picture) -> str:
    """Return a figure as a section of the page."""
    shown = picture.file.relative_to(PAGE.parent)
    command = f"    midway {' '.join(picture.command)}"
    return f"## {picture.title}\n\n{picture.says}\n\n![{picture.title}]({shown})\n\n{command}\n"


def main() -> None:
    """Draw what there is and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", action="store_true", help="also those that need the network and images")
    parser.add_argument("--screenshots", action="store_true", help="also the report, in a browser")
    parser.add_argument("--only", default="", help="draw these alone, with commas")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    only = {name.strip() for name in options.only.split(",") if name.strip()}
    for picture in GALLERY:
        wanted = picture.name in only if only else options.pictures or not picture.options
        if wanted and all(finished(folder.name) for folder in picture.folders):
            draw(picture)
    if options.screenshots:
        photograph()
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the page about the figures there are."""
    parts = [INTRODUCTION, *(section(picture) for picture in GALLERY if picture.file.exists())]
    if shots := [shot for shot in SCREENSHOTS if shot.file.exists()]:
        parts.append("## The report\n\n    midway " + " ".join(REPORT) + "\n")
        parts.append("The pictures of it are taken by `python recipes/write_gallery.py --screenshots`.\n")
        parts += [f"{shot.title}:\n\n![{shot.title}]({shot.file.relative_to(PAGE.parent)})\n" for shot in shots]
    return "\n".join(parts)


if __name__ == "__main__":
    main()
