"""The figures that need a network and images, not only stored results: they are computed, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import nn

from midway.bench import Cell, Record
from midway.bench.entries import Entry
from midway.bench.evaluate import answer
from midway.data.image_set import ImageSet
from midway.methods import MITA, Method, adapt, hyperparameters
from midway.report.figures.corrections import draw_corrections, find_corrections
from midway.report.figures.energies import draw_energies, image_energies
from midway.report.figures.moves import Move, draw_moves, draw_severities, moved_images
from midway.report.figures.samples import draw_samples, langevin_samples
from midway.streams import outlier, pure
from midway.suggest import unknown

if TYPE_CHECKING:
    from matplotlib.figure import Figure


BASELINE, METHOD = Entry("tent", {}, "tent"), Entry("mita", {}, "mita")


@dataclass(frozen=True)
class Setting:
    """What the picture figures are computed with.

    Attributes:
        model: The classifier, in evaluation mode.
        data: Clean images, in the order they arrive.
        batch_size: Images a batch.
        image: Number of the image whose moves are shown.
        shift: The corruption that samples and energies are about, and the rest of the outlier stream.
        outliers: The corruption of the outliers.
        mita: Settings of the MITA that samples, moves and energies show, as ``midway.adapt`` takes them.
        baseline: The method whose mistakes are corrected.
        method: The method that corrects them.
        langevin_steps: Length of the chains that are looked at.
        seed: Of everything.
    """

    model: nn.Module
    data: ImageSet
    batch_size: int = 200
    image: int = 0
    shift: str = "gaussian_noise"
    outliers: str = "glass_blur"
    mita: Mapping[str, Any] = field(default_factory=dict)
    baseline: Entry = BASELINE
    method: Entry = METHOD
    langevin_steps: int = 200
    seed: int = 0


def picture_figures(setting: Setting, *, only: Sequence[str] = ()) -> Iterator[tuple[str, Figure]]:
    """Compute and draw the picture figures, by name; corrections are left out if there is none.

    Args:
        setting: Network, images and all that.
        only: Names of the wanted ones; all if left out.

    Example:
        >>> import midway
        >>> from midway.report.figures.pictures import Setting, picture_figures
        >>> data = midway.data.load("cifar10-mini").first(8)
        >>> setting = Setting(midway.models.create("resnet20").eval(), data, batch_size=4, langevin_steps=1)
        >>> [name for name, figure in picture_figures(setting, only=["samples", "energies"])]
        ['samples', 'energies']
    """
    for name in only:
        if name not in PICTURES:
            raise ValueError(unknown("picture figure", name, PICTURES))
    for name, draw in PICTURES.items():
        if (not only or name in only) and (figure := draw(setting)) is not None:
            yield name, figure


def cell_of(records: Iterable[Record], name: str) -> Cell | None:
    """Return a run's cell with this label, or else one of this method; None if the run has neither.

    Example:
        >>> from midway.report.figures.pictures import cell_of
        >>> cell_of([], "mita") is None
        True
    """
    cells = [record.cell for record in records]
    return next((cell for key in ("label", "method") for cell in cells if getattr(cell, key) == name), None)


def entry_of(records: Iterable[Record], name: str) -> Entry:
    """Return the method with the settings that it has in a run, without the seed; its defaults if the run has it not.

    Example:
        >>> from midway.report.figures.pictures import entry_of
        >>> entry_of([], "tent")
        Entry(name='tent', settings={}, label='tent')
    """
    cell = cell_of(records, name)
    if cell is None:
        return Entry.make(name, {})
    settings = {key: value for key, value in cell.settings.items() if key != "seed"}
    return Entry(cell.method, settings, cell.label)


def _adapted(setting: Setting) -> MITA:
    method = adapt(setting.model, "mita", seed=setting.seed, **setting.mita)
    assert isinstance(method, MITA)
    for batch in pure(setting.data, setting.shift, batch_size=setting.batch_size, seed=setting.seed):
        method(batch.images)
    return method


def _samples(setting: Setting) -> Figure:
    shape = (setting.data.images.shape[3], *setting.data.images.shape[1:3])
    walk = {"steps": setting.langevin_steps, "seed": setting.seed}
    return draw_samples(langevin_samples(setting.model, _adapted(setting), shape=shape, **walk))


def _moves(setting: Setting) -> Figure:
    return draw_moves(_moved(setting, (5,)))


def _severities(setting: Setting) -> Figure:
    return draw_severities(_moved(setting, (1, 2, 3, 4, 5)))


def _moved(setting: Setting, severities: tuple[int, ...]) -> tuple[Move, ...]:
    return moved_images(
        setting.model,
        setting.data,
        image=setting.image,
        severities=severities,
        batch_size=setting.batch_size,
        seed=setting.seed,
        **setting.mita,
    )


def _corrections(setting: Setting) -> Figure | None:
    ratio = max(0.005, 1 / setting.batch_size)
    stream = outlier(
        setting.data, setting.outliers, setting.shift, ratio=ratio, batch_size=setting.batch_size, seed=setting.seed
    ).cached()
    both = (setting.baseline, setting.method)
    theirs, logits = (answer(_made(setting, entry), stream).logits for entry in both)
    names = ((both[0].label, both[0].name), (both[1].label, both[1].name))
    found = find_corrections(stream, theirs, logits, setting.data.class_names, names=names)
    return draw_corrections(found) if found.cases else None


def _made(setting: Setting, entry: Entry) -> Method:
    seed = {"seed": setting.seed} if "seed" in hyperparameters(entry.name) else {}
    return adapt(setting.model, entry.name, **entry.settings | seed)


def _energies(setting: Setting) -> Figure:
    first = setting.data.first(setting.batch_size)
    common = {"batch_size": setting.batch_size, "seed": setting.seed}
    clean, corrupted = (next(iter(pure(first, shift, **common))).images for shift in ("clean", setting.shift))
    walk = {"steps": setting.langevin_steps, "seed": setting.seed}
    return draw_energies(image_energies(setting.model, _adapted(setting), clean, corrupted, **walk))


PICTURES: dict[str, Callable[[Setting], Figure | None]] = {
    "samples": _samples,
    "moves": _moves,
    "severities": _severities,
    "corrections": _corrections,
    "energies": _energies,
}
"""Name -> how the figure is computed and drawn; None where there is nothing to draw."""
