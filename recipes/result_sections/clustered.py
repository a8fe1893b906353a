"""Sections of docs/results.md: clustered statistics."""

from __future__ import annotations

from result_sections.section import Section

SECTIONS = (
    Section(
        "clustered_tuning",
        "Clustered statistics: the corruptions they were tuned on",
        "Batch statistics are part of what limits methods on outliers and mixtures: an image is normalised with"
        ' statistics from unrelated images. With `statistics="clustered"`, which the paper does not have, the kinds of'
        " images are found from their spectra, each is normalised with its own statistics, and kinds that come"
        " back are remembered ([clustered.md](clustered.md)); the last row has no memory. The constants were"
        " chosen on these corruptions; twenty outliers a stream, no weight is updated.",
        "Where the two corruptions differ much (blur and noise), mixtures gain much, and the outliers rise from below"
        " the unadapted Source to far above it. Where they are similar (saturate and spatter), little changes.",
        images=4000,
        brief=True,
    ),
    Section(
        "outlier_clustered",
        "Clustered statistics: outliers",
        "The streams of the section on outliers, with and without clustered statistics. The corruptions were not"
        " used to choose the constants. Fifty outliers are few (one is two points); [clustered.md](clustered.md)"
        " has a thousand a pair.",
        "OUTLIER VERDICT",
        beside="outlier",
        rows=("source", "bn", "bn_clustered", "tent", "tent_clustered", "mita", "mita_clustered"),
        brief=True,
    ),
    Section(
        "mixture_clustered",
        "Clustered statistics: mixtures",
        "The streams of the section on mixtures, with and without clustered statistics.",
        "MIXTURE VERDICT",
        beside="mixture",
        rows=("source", "bn", "bn_clustered", "tent", "tent_clustered", "mita", "mita_clustered"),
        brief=True,
    ),
    Section(
        "clustered_pure",
        "Clustered statistics: fifteen corruptions",
        "One corruption at a time, with and without clustered statistics; no weight is updated.",
        "PURE VERDICT",
        beside="pure",
        rows=("source", "bn", "bn_clustered"),
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
)
