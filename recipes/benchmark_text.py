"""The text of docs/benchmark.md around the tables that recipes/write_benchmark.py writes from stored runs.

What depends on results is computed, or written with the result that it needs (``REASONS``).
"""

from __future__ import annotations

from typing import NamedTuple

INTRODUCTION = """\
# The benchmark

All methods on the streams that comparisons of test-time adaptation use, with the embedded network (WideResNet-16-2) on
corrupted CIFAR-10 at severity 5. `midway benchmark` runs it: the plan is part of the package, and the command continues
a run that was stopped. `python recipes/write_benchmark.py` writes this page from the stored runs in `docs/results/`.
A run with more images into the same folder adds a section.

| column | streams |
| --- | --- |
| reset each | each of the fifteen corruptions by itself; the method is reset before it |
| continual | the fifteen corruptions one after another in the published order, without a reset |
| mixed domains | all images of all corruptions in one random order: every batch has all corruptions |
| correlated | as continual, the images of each corruption sorted by label, in batches of 64 |
| outliers | six pairs of corruptions: one image in 50 has the first, and only these count |
| mixtures | the same pairs in equal shares |

Errors are means over the corruptions or pairs, in percent. Methods have their default settings, which
[methods.md](methods.md) compares with the published ones; `tea` has one Langevin step, computed in the pass of the
update (20, as published, cost nine times as much). EATA has no Fisher images and SANTA no source images. `note_star` is
NOTE*, `lame_rbf` is LAME with its published affinity ([its page](methods/lame.md)). `bn_alpha` is alpha-BN,
`bn_unmix` and `bn_unmix_128` are UnMix-TNS with the components published for one domain at a time and for mixed ones,
`..._mirror` averages over an image and its mirror image, `..._clustered` has [clustered statistics](clustered.md).
MEMO, TTT and DDA adapt to single images at the cost of many passes for each, or need networks of their own:
[results.md](results.md) has them.
"""

STREAMS_TEXT = """\
The best of a column is bold, a star marks errors above those of Source. Passes are forward and backward passes over a
batch.
"""

PRECISIONS = {
    "float32": "",
    "bf16": "The layers of the network compute in bf16 (16 bits); weights, losses and updates are float32.\n",
}
"""Precision -> what it means."""

ORDER_TEXT = """\
Errors here beside published ones of other networks. They are comparable in the order of the methods, not in their
level. WRN-28-10 and ResNet-26 GN are of the repository of Döbler and Marsden, with 10,000 images a corruption in
batches of 200; it has Adam, but its code builds SAR with SGD. ResNet-18 is of NOTE's, each corruption by itself in
batches of 64, and its NOTE has a network trained with its layers.
ResNet-26 GN has no batch statistics, which batches of few classes distort; the network here has.
"""

PUBLISHED_BATCHES = 750
"""Batches of 200 of fifteen corruptions with 10,000 images each."""


class Reason(NamedTuple):
    """Why two methods have another order than published; shown if they have it in that column."""

    column: str
    better: str
    worse: str
    text: str


REASONS = (
    Reason(
        "continual",
        "bn",
        "rotta",
        "RoTTA's statistics need about 2,900 images to follow a change ([its page](methods/rotta.md)); a corruption "
        "has {images:,} here, and 10,000 in the published stream.",
    ),
    Reason(
        "reset",
        "bn",
        "note",
        "NOTE normalises every image by itself, and its published networks were trained with its layers, which this "
        "one was not.",
    ),
    Reason(
        "reset",
        "bn",
        "note_star",
        "NOTE* corrects the statistics of the batch by those of single images, for which its published networks were "
        "trained; with `k=1000`, which takes the correction away, its error on gaussian noise falls by eight points.",
    ),
    Reason(
        "mixed",
        "tent",
        "source",
        "TENT is published as worse than Source after 750 batches of mixed domains; here it has seen {batches}.",
    ),
    Reason(
        "mixed",
        "bn",
        "mita",
        "MITA loses to BN: its step size was chosen on streams of one corruption and is too large for mixed domains "
        "([its page](methods/mita.md)).",
    ),
    Reason(
        "continual",
        "bn",
        "delta",
        "DELTA's statistics average over about twenty batches, as published; a corruption has {images:,} images here, "
        "so they are of earlier corruptions.",
    ),
    Reason(
        "correlated",
        "source",
        "note",
        "NOTE's published networks were trained with its layers, which this one was not.",
    ),
)


EQUAL = Reason(
    "continual",
    "cmf",
    "roid",
    "CMF has the error of ROID: its filter moves with the number of scales and shifts, of which this network has few.",
)
"""Shown if the two have the same error."""


class Text(NamedTuple):
    """A section with one table."""

    title: str
    methods: str
    about: str


GROUP_NORM = Text(
    "Correlated labels without BatchNorm",
    'lame(preset="published", label="lame_rbf"),lame,roid,tent,rotta,eata,sar',
    "",
)
