"""The text of docs/benchmark.md around the tables that recipes/write_benchmark.py writes from stored runs."""

from __future__ import annotations

from typing import NamedTuple

INTRODUCTION = """\
# The benchmark

All methods on the streams that comparisons of test-time adaptation use, with the embedded network (WideResNet-16-2) on
corrupted CIFAR-10 at severity 5. `midway benchmark` runs it: the plan is part of the package, and the command continues
a run that was stopped. `python recipes/write_benchmark.py` writes this page from the stored runs in `docs/results/`;
only the text around the tables is written by hand. A run with more images into the same folder adds a section.

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
`bn_unmix` and `bn_unmix_128` are UnMix-TNS with the components published for one domain at a time and for mixed ones, `..._mirror` averages over an image and its mirror image, `..._clustered` has
[clustered statistics](clustered.md). MEMO, TTT and DDA adapt to single images at the cost of many passes for each, or
need networks of their own: [results.md](results.md) has them.
"""

STREAMS_TEXT = """\
The best of a column is bold, a star marks errors above those of Source. Passes are forward and backward passes over a
batch, time is that of a batch relative to Source's: roughly, on a machine with other work.
"""

SHORT = """\
A run of this size is short: 45 batches in the continual and the mixed stream, where published ones have 750. The
standard error of a mean over 9,000 images is about half a point, and there is one seed: what is closer than that is not
told apart here, although all methods see the same images.

**Continual.** As published, BN is far better than Source, and LAME is worse than Source on shuffled labels, `lame_rbf`
by far. TENT, EATA, ROID, CMF, TEA and MITA are all better than BN, but within a point of it, and their order among each
other is not told apart; published, ROID and EATA are well ahead of TENT. The probable reason is the number of steps, 45
against 750, which was not tested. CMF has the error of ROID on every corruption: its filter moves with the number of
scales and shifts, of which this network has few. RoTTA is far behind BN, where it is published ahead of it: its
statistics need about 2,900 images to follow a change ([its page](methods/rotta.md)), and a corruption has 600 here.
NOTE lies between BN and Source; it normalises every image by itself, and its published networks were trained with its
layers, which this one was not.

**Mixed domains.** TENT is slightly worse than BN, and EATA, ROID and CMF are slightly better: the published direction,
but by about the error of the means. TENT is published as worse than Source after 750 batches; after 45 it is not.
"""

VERDICTS = {600: SHORT}
"""Number of images -> what the tables of that size show; to be checked whenever results are added."""


class Text(NamedTuple):
    """A section with one table."""

    title: str
    methods: str
    about: str
    verdict: str


GROUP_NORM = Text(
    "Correlated labels without BatchNorm",
    'lame(preset="published", label="lame_rbf"),lame,roid,tent,rotta,eata,sar',
    "",
    "",
)
