"""Sections of docs/results.md: two corruptions in one stream."""

from __future__ import annotations

from result_sections.section import Section

SECTIONS = (
    Section(
        "outlier",
        "Outliers",
        "One image in 200 has the first corruption of a pair, the others have the second: the six pairs of the paper."
        " Each stream has fifty outliers, so one of them is two points. Settings are the defaults; TEA has one"
        " Langevin step, computed in the pass of the update, and as many updates as MITA. `bn_mirror` averages the"
        " answers to an image and to its mirror image, a rival of two forward passes. SAR, which the paper has,"
        " and MEMO are left out because of their cost.",
        "On all images of a stream MITA has the highest mean, and TEA is second among the methods that adapt"
        " weights; BN with mirrored views, for fewer passes than MITA, is level with it, and better calibrated. On"
        " the outliers MITA has the highest mean as well, but glass blur, pixelate and elastic transform stay"
        " below the unadapted Source with every method; in the paper MITA raises them above it. An outlier is"
        " normalised with the statistics of its batch before its energy is reduced. Clustered statistics, below,"
        " address this.",
        brief=True,
        ranked=True,
    ),
    Section(
        "mixture",
        "Mixtures",
        "Half of the images have one corruption of a pair, half the other. Settings and rows are those of the"
        " outliers.",
        "As in the paper, MITA has the highest mean of the methods that adapt weights, but by less, and it is not"
        " first in every pair. BN with mirrored views is level with it for fewer passes.",
        brief=True,
        ranked=True,
    ),
    Section(
        "sweep",
        "From rare outliers to equal shares",
        "The share of the first corruption of a pair grows from one image in 200 to one half, in two of the"
        " paper's six pairs; the paper's sweep also has SAR and SHOT, and TEA only at the two ends. All methods"
        " have tuned settings.",
        "At one image in 200 an outlier is ten points, so only large differences are meaningful. Defocus blur among"
        " zoom blur, two similar corruptions, is far above Source at every share with every method. Glass blur among"
        " gaussian noise falls below Source or to its level until it is half of the stream; on these images no method"
        " is ahead of the others by more than a few images, where the paper has MITA ahead at every share. On the"
        " whole stream MITA leads in the first pair at every share but the last, where TEA is level; in the second"
        " pair all adapting methods are within about a point.",
        images=2000,
        brief=True,
    ),
)
