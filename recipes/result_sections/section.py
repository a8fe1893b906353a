"""A section of docs/results.md: the stored run that it shows, and the text around its tables."""

from __future__ import annotations

from dataclasses import dataclass

FILTERS = (
    ("pl", "selected"),
    ("shot", "confident"),
    ("eata", "reliable"),
    ("eata", "selected"),
    ("sar", "reliable"),
)
"""Methods that select images, and the names of their counts of selected images."""

TUNED = "_tuned"
"""The suffix of labels with tuned settings where other labels have default settings."""


@dataclass(frozen=True)
class Section:
    """One stored run and the text about it.

    Attributes:
        name: Name of the run.
        title: The heading.
        about: The text before the tables.
        verdict: The text after the tables; to be checked whenever results are added.
        images: Number of images of each stream.
        beside: Another stored run whose rows come first.
        rows: Labels to show; all if empty.
        streams: Scenarios to show; all if empty.
        ranked: Compare MITA with the best other method.
        brief: Write one table, with the paper's numbers in brackets.
        shares: Methods and their counts to show as shares of all images.
        costs: Show the cost of a batch.
        means: Show means over the streams: parts of pairs, and confidence.
        against: Labels to show the differences of MITA from, stream by stream.
    """

    name: str
    title: str
    about: str
    verdict: str
    images: int = 10_000
    beside: str = ""
    rows: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    ranked: bool = False
    brief: bool = False
    shares: tuple[tuple[str, str], ...] = ()
    costs: bool = False
    means: bool = False
    against: tuple[str, ...] = ()

    @property
    def runs(self) -> list[str]:
        """The stored runs that it shows."""
        return [name for name in (self.beside, self.name) if name]

    @property
    def commands(self) -> str:
        """The commands that repeat it, as code in Markdown."""
        return "".join(
            f"    midway run docs/results/{name}.toml --jobs 2 --out docs/results/{name}\n" for name in self.runs
        )
