"""Sections of docs/results.md: clustered statistics."""

from __future__ import annotations

from result_sections.section import Section

SECTIONS = (
    Section(
        "clustered_tuning",
        "Clustered statistics: the corruptions they were tuned on",
        "Batch statistics are part of what limits methods on outliers and mixtures: an image is normalised with"
        ' statistics from unrelated images. With `statistics="clustered"`, which the paper does not have, the kinds of'
        " images are found from their spectra, each is normalised with its own statistics, and kinds that come back are"
        " remembered ([clustered.md](clustered.md)); the last row has no memory. The constants were chosen on these"
        " corruptions; twenty outliers a stream, no weight is updated.",
        "Where the two corruptions differ much (blur and noise), mixtures gain much, and the outliers rise from below"
        " the unadapted Source to far above it. Where they are similar (saturate and spatter), little changes.",
        images=4000,
        brief=True,
    ),
    Section(
        "clustered_pairs",
        "Clustered statistics: the paper's pairs",
        "The same on the pairs of the paper, whose corruptions were not used to choose the constants; 50 outliers a"
        " stream.",
        "Outliers rise above Source in five of the six pairs, in the mean by far, and all mixtures gain: in the mean"
        " they are within a point of the oracle, which knows the kinds ([clustered.md](clustered.md)). A lone elastic"
        " transform in fog is not told apart by its spectrum and stays below Source. The rest of the outlier streams"
        " loses a little, most of all zoom blur. Fifty outliers are few (one is two points); clustered.md has a"
        " thousand"
        " a pair.",
        brief=True,
    ),
    Section(
        "clustered_mixed",
        "Clustered statistics: mixed domains",
        "All fifteen corruptions in random order, the first 667 test images under each. `bn_alpha` is alpha-BN,"
        " `bn_unmix` UnMix-TNS with the 128 components published for mixed domains ([methods.md](methods.md)); no"
        " weight is updated.",
        "Clustered statistics close nearly three quarters of the gap between BN on the mixture and BN on each"
        " corruption by itself (its mean is in the section on tuned settings, for other images). The two published"
        " statistics stay near Source with this network; why was not examined.",
        images=10_005,
        brief=True,
    ),
    Section(
        "clustered",
        "Clustered statistics under other methods",
        "The methods of the section on MITA and its rivals, with and without them. Default settings.",
        "Methods that update weights gain from them as BN does: TEA with them is far above MITA without them in the"
        " mixture, and its outliers rise from below Source to far above it. The pure stream loses a little.",
        beside="mita",
        rows=(
            "source",
            *(
                f"{name}{ending}"
                for name in ("bn", "tent", "tea_equal_budget", "mita")
                for ending in ("", "_clustered")
            ),
        ),
        brief=True,
    ),
)
